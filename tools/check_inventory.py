#!/usr/bin/env python3
"""Holds tests/inventory.csv to its rules; run by ctest.

    tools/check_inventory.py [ROOT]

Each row is a test of a peer's own suite, with our tests that stand for it (files, separated by
blanks), or the reason why there is none, or both. Prints "tests/inventory.csv:line: what is
wrong; what to do" for each violation, and exits 1 if there is one.
"""

import csv
import sys
from pathlib import Path

INVENTORY = "tests/inventory.csv"
COLUMNS = ["area", "upstream test", "ours", "reason"]
# How many tests each area has to account for: a row that is lost shows here.
AREAS = "tests/inventory_areas.csv"


def check_row(root, row):
    """What is wrong with one row, and what to do."""
    if len(row) != len(COLUMNS):
        yield (f"{len(row)} columns, {len(COLUMNS)} are wanted ({', '.join(COLUMNS)})",
               "put fields with commas into double quotes")
        return
    area, test, ours, reason = (field.strip() for field in row)
    if not area or not test:
        yield "no area or no name", "say where the test comes from and what it is called there"
    if not ours and not reason:
        yield (f"{test} has neither a test of ours nor a reason",
               "name the test's file, or say why there is none")
    for name in ours.split():
        if not (root / name).is_file():
            yield f"{name} is not there", "name a file relative to the repository's root"


def check_areas(root, rows):
    """Compares the number of rows of each area with what is written down."""
    if not (root / AREAS).is_file():
        return
    with open(root / AREAS, encoding="utf-8", newline="") as file:
        wanted = {area: int(count) for area, count in list(csv.reader(file))[1:]}
    found = {}
    for area in (key[0] for key in rows if key):
        found[area] = found.get(area, 0) + 1
    for area in sorted(wanted.keys() | found.keys()):
        if wanted.get(area, 0) != found.get(area, 0):
            yield (f"{area} has {found.get(area, 0)} rows, {wanted.get(area, 0)} are wanted",
                   f"add what is missing, or correct {AREAS}")


def check(root):
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
                found = list(check_row(root, row))
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
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
