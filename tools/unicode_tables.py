#!/usr/bin/env python3
"""Writes src/trireme/data/unicode_tables.h: which code points are letters, numbers, spaces, …

    .deps/venv/bin/python tools/unicode_tables.py > src/trireme/data/unicode_tables.h

Asks the `tokenizers` package, since its answers are what the tokenizers must agree with: its
regular expressions know Unicode 16.0 (tokenizers 0.23), whatever Python's
own tables are. Each table is a list of the places where the answer changes.
"""

import sys

from tokenizers import Regex, normalizers, pre_tokenizers

# In the order of CharClass in unicode.h, from 1 on; no code point is in two of them.
CLASSES = (r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\s")
POINTS = [point for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]

HEADER = """\
// Written by tools/unicode_tables.py: do not edit. Unicode 16.0.
#pragma once
#include <cstdint>

namespace trireme::data {

// clang-format off
"""
CLASS_COMMENT = """\
/// Where the class of code points changes, in order: the first code point of a run, times 8,
/// plus the CharClass of the run.
inline constexpr uint32_t kClassRuns[] = {
"""
NFC_COMMENT = """\
/// Runs of code points that normalization form C may change, or change the order of: the
/// first of the run and the first behind it, in turn. A text without them is in that form.
inline constexpr uint32_t kNfcRuns[] = {
"""


def members(pattern):
    """The code points that a regular expression of one character matches."""
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    pieces = splitter.pre_tokenize_str("".join(map(chr, POINTS)))
    return {ord(character) for piece, _ in pieces for character in piece}


def class_runs():
    kinds = [0] * 0x110000
    for number, pattern in enumerate(CLASSES, 1):
        for point in members(pattern):
            assert kinds[point] == 0, hex(point)
            kinds[point] = number
    return [point * 8 + kinds[point] for point in range(0x110000)
            if point == 0 or kinds[point] != kinds[point - 1]]


def nfc_runs():
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    unsafe = set()
    for point in POINTS:
        character = chr(point)
        parts = nfd(character)
        if nfc(character) != character:
            unsafe.add(point)
        unsafe.update(map(ord, parts[1:]))  # they may join what stands before them
        # U+0345 has the last combining class: whatever combines goes before it.
        if nfd("\u0345" + character) != "\u0345" + parts:
            unsafe.add(point)
    return [point for point in range(1, 0x110000) if (point in unsafe) != (point - 1 in unsafe)]


def lines(numbers):
    line = ""
    for number in numbers:
        word = f"{number},"
        if len(line) + 1 + len(word) > 100:
            yield line
            line = ""
        line += (" " if line else "") + word
    if line:
        yield line


def main():
    out = sys.stdout
    out.write(HEADER)
    for comment, numbers in ((CLASS_COMMENT, class_runs()), (NFC_COMMENT, nfc_runs())):
        out.write("\n" + comment)
        out.writelines(line + "\n" for line in lines(numbers))
        out.write("};\n")
    out.write("// clang-format on\n\n}  // namespace trireme::data\n")


if __name__ == "__main__":
    main()
