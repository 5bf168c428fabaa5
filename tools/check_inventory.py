#!/usr/bin/env python3
"""Holds tests/inventory.csv to its rules; run by ctest.

    tools/check_inventory.py [--root ROOT] [--tests FOLDER --programs NAME…]

Each row is a test of a peer's own suite, with our tests that stand for it (separated by blanks),
or the reason why there is none, or both. A test of ours is a Suite.Name of a test program, or the
path of a script. Prints "tests/inventory.csv:line: what is wrong; what to do" for each violation,
and exits 1 if there is one.

With --tests, every Suite.Name and every script must be one that ctest runs: FOLDER has
NAME_suites.cmake, the entries of ctest, and NAME_tests.txt, what the program lists; the build writes
both for each test program. Scripts stand in CTestTestfile.cmake, there and below. If one of the
programs is not built, exits 77, which ctest shows as skipped.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

INVENTORY = "tests/inventory.csv"
COLUMNS = ["area", "upstream test", "ours", "reason"]
# How many tests each area has to account for: a row that is lost shows here.
AREAS = "tests/inventory_areas.csv"
NOT_BUILT = 77
TEST = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")


def list_tests(listing):
    """The names in what a program prints for --gtest_list_tests. Those of parameters and types
    (Suite/0, Name/1) go by the names that the source has."""
    tests = set()
    suite = ""
    for line in listing.splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" ") and name.endswith("."):
            suite = name[:-1]
        elif line.startswith(" ") and name:
            tests.add((suite, name))
    return tests


def plain(suite):
    """Suite of "Instance/Suite", "Suite/0" or "Suite"."""
    parts = [part for part in suite.split("/") if not part.isdigit()]
    return parts[-1]


def read_tests(folder, programs):
    """The tests that ctest runs, and the programs that are not built."""
    tests = set()
    missing = []
    for program in programs:
        entries, listing = (folder / f"{program}_{what}"
                            for what in ("suites.cmake", "tests.txt"))
        if not entries.is_file() or not listing.is_file():
            missing.append(program)
            continue
        run = set(re.findall(r"--gtest_filter=([\w/]+)\.\*", entries.read_text(encoding="utf-8")))
        for suite, name in list_tests(listing.read_text(encoding="utf-8")):
            if suite in run and not name.startswith("DISABLED_"):
                tests.add(f"{plain(suite)}.{name.split('/')[0]}")
    return tests, missing


def read_scripts(folder, root):
    """The scripts that ctest runs, as paths from the root."""
    scripts = set()
    for entries in folder.rglob("CTestTestfile.cmake"):
        for line in entries.read_text(encoding="utf-8").splitlines():
            words = re.findall(r'"([^"]*)"', line) if line.startswith("add_test(") else []
            scripts |= {path.relative_to(root).as_posix() for path in map(Path, words)
                        if path.suffix == ".py" and path.is_relative_to(root)}
    return scripts


def check_row(root, row, tests, scripts):
    """What is wrong with one row, and what to do. None for tests or scripts: nobody knows them."""
    if len(row) != len(COLUMNS):
        yield (f"expected {len(COLUMNS)} columns ({', '.join(COLUMNS)}), got {len(row)}",
               "put fields with commas into double quotes")
        return
    area, test, ours, reason = (field.strip() for field in row)
    if not area or not test:
        yield "no area or no name", "say where the test comes from and what it is called there"
    if not ours and not reason:
        yield (f"{test} has neither a test of ours nor a reason",
               "name the test as Suite.Name, or say why there is none")
    for name in ours.split():
        if "/" in name:
            if not (root / name).is_file():
                yield f"{name} is not there", "name a script relative to the repository's root"
            elif not name.endswith(".py"):
                yield f"{name} is a file, not a test", "name the test in it as Suite.Name"
            elif scripts is not None and name not in scripts:
                yield (f"{name} is not among the scripts that ctest runs",
                       "add_test() it again, or name the test that does its work now")
        elif not TEST.fullmatch(name):
            yield f"{name} is not the name of a test", "write Suite.Name"
        elif tests is not None and name not in tests:
            yield (f"{name} is not among the tests that ctest runs",
                   "name the test that does its work now, or write it again")


def check_areas(root, rows):
    """Compares the number of rows of each area with what is written down."""
    if not (root / AREAS).is_file():
        return
    with open(root / AREAS, encoding="utf-8", newline="") as file:
        expected = {area: int(count) for area, count in list(csv.reader(file))[1:]}
    found = {}
    for area in (key[0] for key in rows if key):
        found[area] = found.get(area, 0) + 1
    for area in sorted(expected.keys() | found.keys()):
        if expected.get(area, 0) != found.get(area, 0):
            yield (f"expected {expected.get(area, 0)} rows of {area}, got {found.get(area, 0)}",
                   f"add what is missing, or correct {AREAS}")


def check(root, tests, scripts):
    path = root / INVENTORY
    if not path.is_file():
        return [f"{INVENTORY}:1: is not there; write it"]
    problems = []
    seen = {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        for row in rows:
            line = rows.line_num
            if line == 1:
                found = [] if row == COLUMNS else [
                    ("the first line does not name the columns", f"write {','.join(COLUMNS)}")]
            else:
                found = list(check_row(root, row, tests, scripts))
                key = tuple(field.strip() for field in row[:2])
                if key in seen:
                    found.append((f"{' '.join(key)} is on line {seen[key]} too", "keep one"))
                seen.setdefault(key, line)
            problems += [f"{INVENTORY}:{line}: {what}; {remedy}" for what, remedy in found]
    problems += [f"{INVENTORY}:1: {what}; {remedy}" for what, remedy in check_areas(root, seen)]
    if not seen and not problems:
        problems.append(f"{INVENTORY}:1: has no rows; add them")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--tests", type=Path, help="where the build lists its tests")
    parser.add_argument("--programs", nargs="+", default=[], help="the test programs")
    options = parser.parse_args()
    tests = scripts = None
    missing = []
    if options.tests:
        tests, missing = read_tests(options.tests, options.programs)
        scripts = read_scripts(options.tests, options.root)
    problems = check(options.root, None if missing else tests, scripts)
    for problem in problems:
        print(problem)
    if problems:
        return 1
    if missing:
        print(f"not built: {', '.join(missing)}; build all tests to look for their names")
        return NOT_BUILT
    return 0


if __name__ == "__main__":
    sys.exit(main())
