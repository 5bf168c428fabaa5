#!/usr/bin/env python3
"""Writes what src/trireme/data knows of Unicode: which code points are letters, numbers, spaces,
…, and how normalization form C changes text.

    .deps/venv/bin/python tools/unicode_tables.py      # unicode_tables.h and nfc_tables.h

Asks the `tokenizers` package, since its answers are what the tokenizers must agree with: its
regular expressions know Unicode 16.0 (tokenizers 0.23), whatever Python's
own tables are. Its normalization is of an older Unicode: what came later stays as it is.
"""

import unicodedata
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

# In the order of CharClass in unicode.h, from 1 on; no code point is in two of them.
CLASSES = (r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\s")
POINTS = [point for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]

HEADER = """\
// Written by tools/unicode_tables.py: do not edit.
#pragma once
#include <cstdint>

namespace trireme::data {

// clang-format off
"""
CLASS_COMMENT = """\
/// Where the class of code points changes (Unicode 16.0), in order: the first code point of a
/// run, times 8, plus the CharClass of the run.
inline constexpr uint32_t kClassRuns[] = {
"""
NFC_COMMENT = """\
/// Runs of code points that normalization form C may change, or change the order of: the
/// first of the run and the first after it, in turn. A text without them is in that form.
inline constexpr uint32_t kNfcRuns[] = {
"""
ORDER_COMMENT = """\
/// Where the combining class changes, in order: the first code point of a run, times 256,
/// plus the class.
inline constexpr uint32_t kOrderRuns[] = {
"""
PAIR_COMMENT = """\
/// Two code points and the one that they become, sorted by the last; Korean syllables are
/// not among them.
inline constexpr uint32_t kPairs[] = {
"""
REPLACED_COMMENT = """\
/// Code points that are always replaced, in order: the code point, how many take its place,
/// and those.
inline constexpr uint32_t kReplaced[] = {
"""

NFC = normalizers.NFC().normalize_str
NFD = normalizers.NFD().normalize_str


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


def combines(character):
    """U+0345 has the last combining class: whatever combines goes before it."""
    return character == "\u0345" or NFD("\u0345" + character) != "\u0345" + NFD(character)


def nfc_runs():
    unsafe = set()
    for point in POINTS:
        character = chr(point)
        if NFC(character) != character or combines(character):
            unsafe.add(point)
        unsafe.update(map(ord, NFD(character)[1:]))  # they may join what stands before them
    return [point for point in range(1, 0x110000) if (point in unsafe) != (point - 1 in unsafe)]


def order_runs():
    order = [0] * 0x110000
    for point in POINTS:
        if combines(chr(point)) and len(NFD(chr(point))) == 1:
            order[point] = unicodedata.combining(chr(point))
    return [point * 256 + order[point] for point in range(0x110000)
            if point == 0 or order[point] != order[point - 1]]


def pairs_and_replaced():
    pairs, replaced = [], []
    for point in POINTS:
        character = chr(point)
        parts = NFD(character)
        if parts == character or 0xAC00 <= point <= 0xD7A3:
            continue
        whole = NFC(character)
        if whole == character:
            first = NFC(parts[:-1])
            assert len(first) == 1, hex(point)
            pairs += [ord(first), ord(parts[-1]), point]
        else:
            replaced += [point, len(whole), *map(ord, whole)]
    return pairs, replaced


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


def write(name, tables):
    folder = Path(__file__).resolve().parent.parent / "src" / "trireme" / "data"
    with open(folder / name, "w", encoding="utf-8") as out:
        out.write(HEADER)
        for comment, numbers in tables:
            out.write("\n" + comment)
            out.writelines(line + "\n" for line in lines(numbers))
            out.write("};\n")
        out.write("// clang-format on\n\n}  // namespace trireme::data\n")


def main():
    pairs, replaced = pairs_and_replaced()
    write("unicode_tables.h", ((CLASS_COMMENT, class_runs()), (NFC_COMMENT, nfc_runs())))
    write("nfc_tables.h", ((ORDER_COMMENT, order_runs()), (PAIR_COMMENT, pairs),
                           (REPLACED_COMMENT, replaced)))


if __name__ == "__main__":
    main()
