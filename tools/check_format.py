#!/usr/bin/env python3
"""Refuses sources that clang-format 14 would change, and tabs or spaces at line ends; run by ctest.

    tools/check_format.py [--fix] [ROOT]

--fix lets clang-format write the files. Exits 1 if something is wrong, 77 without clang-format 14.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CODE_FOLDERS = ("src", "tests", "examples", "fuzz")
FOLDERS = (*CODE_FOLDERS, "bench", "tools", "cmake", ".ci")
CODE = {".h", ".cpp"}
SCRIPTS = {".py", ".sh", ".cmake", ".in"}
SCRIPT_NAMES = {"CMakeLists.txt", "trireme", "run"}


def clang_format():
    """Other versions format other things, so only 14 will do."""
    for name in ("clang-format-14", "clang-format"):
        program = shutil.which(name)
        if program and " 14." in subprocess.check_output([program, "--version"], text=True):
            return program
    return None


def files_of(root):
    paths = [root / "trireme", root / "CMakeLists.txt"]
    for folder in FOLDERS:
        paths += sorted((root / folder).rglob("*"))
    return [path for path in paths if path.is_file() and "__pycache__" not in path.parts]


def check_code(program, files, fix):
    """clang-format takes some 20 ms a file, so each core gets its share."""
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    shares = [files[i::os.cpu_count()] for i in range(os.cpu_count())]
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(
            lambda share: subprocess.run([program, "--style=file", *mode, *share],
                                         stderr=subprocess.PIPE, text=True),
            filter(None, shares)))
    print("".join(run.stderr for run in runs), end="")
    return not any(run.returncode for run in runs)


def check_scripts(root, files):
    fine = True
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if "\t" in line or line != line.rstrip():
                print(f"{path.relative_to(root)}:{number}: tab, or space at the end of the line; "
                      "replace it")
                fine = False
    return fine


def main():
    arguments = sys.argv[1:]
    fix = "--fix" in arguments
    roots = [argument for argument in arguments if argument != "--fix"]
    root = Path(roots[0]) if roots else Path(__file__).resolve().parent.parent
    files = files_of(root)
    program = clang_format()
    if not program:
        print("clang-format 14 is not here; install the package clang-format-14")
        return 77
    fine = check_scripts(
        root, [path for path in files if path.suffix in SCRIPTS or path.name in SCRIPT_NAMES])
    code = [path for path in files if path.suffix in CODE
            and path.relative_to(root).parts[0] in CODE_FOLDERS]
    if not check_code(program, code, fix):
        print("run tools/check_format.py --fix")
        fine = False
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
