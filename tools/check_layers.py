#!/usr/bin/env python3
"""Holds the tree to the rules of docs/architecture.md; run by ctest.

    tools/check_layers.py [ROOT]

Prints "path:line: what is wrong; what to do" for each violation, and exits 1 if there is one.
"""

import re
import sys
from pathlib import Path

# The layer table: module -> (modules that it may include beside core and itself, libtorch?).
ALL = None
LAYERS = {
    "core": ((), False),
    "sched": ((), False),
    "net": ((), False),
    "launch": (("net",), False),
    "memory": ((), True),
    "autograd": ((), True),
    "comm": (("net",), True),
    "pipe": (("sched", "comm", "autograd", "memory"), True),
    "dp": (("comm", "autograd", "memory"), True),
    "rpc": (("comm", "net"), True),
    "dist_autograd": (("rpc", "autograd"), True),
    "ckpt": (("comm",), True),
    "model": (("pipe", "autograd", "ckpt"), True),
    "data": ((), True),
    "train": (ALL, True),
    "cli": (ALL, True),
    "testing": (ALL, True),
}
LAYERS["bench"] = (tuple(module for module in LAYERS if module != "cli"), True)

# cli holds two programs. The files of `trireme`, which starts without libtorch, by stem:
LIBTORCH_FREE_CLI = {"doctor_front", "front", "keys", "machine_facts", "main", "output",
                     "rank_count", "run", "run_nodes", "schedule", "schedule_check", "schedule_input",
                     "schedule_list", "schedule_options", "schedule_plan", "schedule_show",
                     "schedule_simulate", "schedule_words",
                     "run_parts", "run_torch", "variables"}

# Sources without a test file of their own, each with the reason.
NO_TEST = {
    "cli/bench_main.cpp": "only hands over to the subcommands, which have tests",
    "cli/main.cpp": "only hands over to the subcommands, which have tests",
    "cli/torch_main.cpp": "only hands over to the subcommands, which have tests",
    # The loops of reduce_kernel_loops.h once more, for a kind of CPU: reduce_kernel_test.cpp
    # runs all of them.
    "comm/reduce_kernel_avx2.cpp": "see above",
    "comm/reduce_kernel_avx512.cpp": "see above",
    "comm/reduce_kernel_baseline.cpp": "see above",
    # Parts of Keeper: keeper_test.cpp and tests/integration/run_nodes_test.cpp run them.
    "launch/keeper_nodes.cpp": "see above",
    "launch/keeper_report.cpp": "see above",
    # Parts of NodeCore: node_core_test.cpp and session_test.cpp run them.
    "net/node_dialling.cpp": "see above",
    "net/node_strangers.cpp": "see above",
    # Parts of Runtime: runtime_test.cpp and tests/integration/pipeline_*_test.cpp run them.
    "pipe/runtime_compute.cpp": "see above",
    "pipe/runtime_messages.cpp": "see above",
    # The cases of the conformance suite are tests themselves; conformance_test.cpp runs them.
    "testing/conformance_channel.cpp": "see above",
    "testing/conformance_fault.cpp": "see above",
    "testing/conformance_group.cpp": "see above",
    "testing/conformance_move.cpp": "see above",
    "testing/conformance_reduction.cpp": "see above",
    "testing/main.cpp": "the main() of the test programs",
    "testing/plain_main.cpp": "the main() of the test programs",
}

# Folders under tests that do not mirror a module.
FREE_TESTS = {"integration", "package", "peer", "script", "tools"}

MAX_LINES = 600
MAX_EXAMPLE_LINES = 120
CODE = {".h", ".cpp"}
SCRIPTS = {".py", ".sh", ".cmake", ".in"}
FOLDERS = ("src", "tests", "examples", "fuzz", "bench", "tools", "cmake", ".ci")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LIBTORCH = re.compile(r"^(ATen|c10|torch|caffe2)/")
# A variable of the environment where it is read.
VARIABLE = re.compile(r'\b(?:getenv|find|has|string|\w+_or)\(\s*"(TRIREME_[A-Z_]+)"')


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.problems = []
        self.files = sorted(
            path for folder in FOLDERS for path in (self.root / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts)
        self.source = self.root / "src" / "trireme"
        self.tests = self.root / "tests"

    def report(self, path, line, what, remedy):
        self.problems.append(f"{path.relative_to(self.root)}:{line}: {what}; {remedy}")

    def run(self):
        self.check_lengths()
        for path in self.files:
            if path.suffix in CODE and path.relative_to(self.root).parts[0] != "cmake":
                self.check_code(path)
        self.check_pairs()
        self.check_lists()
        return self.problems

    # -- one file

    def check_lengths(self):
        for path in [*self.files, self.root / "trireme", self.root / "CMakeLists.txt"]:
            is_script = path.suffix in SCRIPTS or path.name in ("CMakeLists.txt", "run", "trireme")
            if not path.is_file() or not (path.suffix in CODE or is_script):
                continue
            limit = MAX_LINES
            if path.suffix in CODE and path.parent == self.root / "examples":
                limit = MAX_EXAMPLE_LINES
            lines = len(read_lines(path))
            if lines > limit:
                self.report(path, limit + 1, f"{lines} lines, at most {limit} are allowed",
                            "split it by purpose")

    def check_code(self, path):
        lines = read_lines(path)
        if path.suffix == ".h" and "#pragma once" not in lines:
            self.report(path, 1, "no #pragma once", "add it after the file's comment")
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                self.check_include(path, number, *match.groups())
            if self.source in path.parents:
                for name in VARIABLE.findall(line):
                    self.check_variable(path, number, name)

    def check_variable(self, path, line, name):
        """The doctor knows every variable that something reads."""
        known = self.source / "cli" / "variables.cpp"
        if known.is_file() and f'"{name}"' not in known.read_text(encoding="utf-8"):
            self.report(path, line, f"reads {name}, which the doctor does not know",
                        "add it to src/trireme/cli/variables.cpp")

    def check_include(self, path, line, bracket, name):
        in_project = name.startswith("trireme/")
        # A helper of several tests lies beside them.
        beside = self.tests in path.parents and (path.parent / name).is_file()
        if bracket == '"' and not in_project and not beside:
            self.report(path, line, f'"{name}" is not a full path',
                        'write it as "trireme/module/file.h"')
        if bracket == "<" and in_project:
            self.report(path, line, f"<{name}> is a file of this project",
                        f'write it as "{name}"')
        if path.suffix == ".h" and name == "torch/torch.h":
            self.report(path, line, "a header includes all of libtorch",
                        "include <ATen/core/Tensor.h> or the one header that is needed")
        if self.source in path.parents:
            self.check_layer(path, line, name)

    def check_layer(self, path, line, name):
        inside = path.relative_to(self.source)
        if len(inside.parts) == 1:  # version.h, and an umbrella header that includes all
            return
        module = inside.parts[0]
        if module not in LAYERS:
            if line_of_first_include(path) == line:  # once a file is enough
                self.report(path, line, f"module {module} is not in the layer table",
                            "add it to tools/check_layers.py and docs/architecture.md")
            return
        allowed, torch = LAYERS[module]
        torch_free_program = module == "cli" and path.stem in LIBTORCH_FREE_CLI
        if LIBTORCH.match(name) and (not torch or torch_free_program):
            what = "the program trireme" if torch_free_program else f"module {module}"
            self.report(path, line, f"{what} must not include libtorch ({name})",
                        "move the code to a module that may, or to trireme-torch")
        if not name.startswith("trireme/") or name == "trireme/version.h":
            return
        target = name.split("/")[1] if name.count("/") > 1 else "the umbrella header"
        if target not in LAYERS or (
                allowed is not ALL and target not in (module, "core", *allowed)):
            names = ", ".join(("core", *(allowed or ()))) if module != "core" else "nothing"
            self.report(path, line, f"module {module} must not include {target}",
                        f"it may include {names} (the table in docs/architecture.md)")
        elif torch_free_program and (
                Path(name).stem not in LIBTORCH_FREE_CLI if target == "cli"
                else LAYERS[target][1]):
            self.report(path, line, f"the program trireme must not include {name}, which may "
                        "use libtorch", "move the code to trireme-torch, or name the file in "
                        "LIBTORCH_FREE_CLI")

    # -- files that belong together

    def check_pairs(self):
        """Every source has its test, and every test its source, at the mirrored path."""
        for path in self.files:
            if self.source in path.parents and path.suffix == ".cpp":
                inside = path.relative_to(self.source)
                test = self.tests / inside.with_name(inside.stem + "_test.cpp")
                if not test.is_file() and inside.as_posix() not in NO_TEST:
                    self.report(path, 1, "has no test",
                                f"write {test.relative_to(self.root)}")
            if self.is_mirrored_test(path):
                inside = path.relative_to(self.tests)
                source = self.source / inside.with_name(
                    inside.name.replace("_test.cpp", ".cpp"))
                if not source.is_file() and not source.with_suffix(".h").is_file():
                    self.report(path, 1, f"tests {source.relative_to(self.root)}, which is not "
                                "there", "move it beside its source's path, or to "
                                "tests/integration")

    def is_mirrored_test(self, path):
        return (self.tests in path.parents and path.name.endswith("_test.cpp")
                and path.relative_to(self.tests).parts[0] not in FREE_TESTS)

    def check_lists(self):
        """What no list of CMake names is not built, not installed and not tested."""
        sources = self.listed(self.source)
        tests = self.listed(self.tests)
        for path in self.files:
            if self.source in path.parents and path.suffix in CODE:
                if path.relative_to(self.source).as_posix() not in sources:
                    self.report(path, 1, "is not listed in src/trireme/CMakeLists.txt",
                                "add it to the HEADERS or SOURCES of its module")
            if self.is_mirrored_test(path):
                if path.relative_to(self.tests).as_posix() not in tests:
                    self.report(path, 1, "is not listed in tests/CMakeLists.txt, so it never "
                                "runs", "add it to the SOURCES of its module")

        # Fuzz targets are compiled by `check` alone, so a name that is gone would stay.
        fuzz = self.root / "fuzz" / "CMakeLists.txt"
        for number, line in enumerate(read_lines(fuzz) if fuzz.is_file() else [], 1):
            for name in re.findall(r"\b[a-z0-9_]+(?:/[a-z0-9_]+)+\.cpp\b", line):
                if not (self.source / name).is_file():
                    self.report(fuzz, number, f"names {name}, which is not there",
                                "name the file that took its place")

    def listed(self, folder):
        """The files that the CMake files under folder name, relative to it."""
        names = set()
        for path in folder.rglob("CMakeLists.txt"):
            here = path.parent.relative_to(folder)
            text = "\n".join(line.split("#")[0] for line in read_lines(path))
            for command, arguments in re.findall(r"(\w+)\s*\(([^)]*)\)", text):
                words = arguments.replace('"', " ").split()
                # Our own commands name files relative to the module, the others to the file.
                base = here
                if command.startswith("trireme_add_"):
                    base = Path(words[words.index("FOLDER") + 1 if "FOLDER" in words else 0])
                names |= {normal(base / word) for word in words if Path(word).suffix in CODE}
        return names


def normal(path):
    parts = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def read_lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def line_of_first_include(path):
    return next(n for n, line in enumerate(read_lines(path), 1) if INCLUDE.match(line))


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = Checker(root).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
