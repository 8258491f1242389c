#!/usr/bin/env python3
"""Makes unicode_ranges.inc. usage: python3 make_unicode_ranges.py > unicode_ranges.inc     (pip install unicodedata2==16.0.0)"""
import sys

import unicodedata2 as unicodedata

assert unicodedata.unidata_version == "16.0.0"
# White_Space is a property of its own, not a category; the standard promises not to change it.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(point):
    kind = unicodedata.category(chr(point))
    if point in SPACES:
        return "Zc" if kind == "Cc" else "Z"
    return None if kind in ("Cn", "Co", "Cs") else kind


ranges = []
for point in range(0x110000):
    kind = class_of(point)
    if ranges and ranges[-1][2] == kind and ranges[-1][1] == point - 1:
        ranges[-1][1] = point
    elif kind:
        ranges.append([point, point, kind])
print("// Made by make_unicode_ranges.py from the Unicode 16.0 database: {first, last, class}, ascending.")
line = ""
for first, last, kind in ranges:
    item = f"{{0x{first:X}, 0x{last:X}, {kind}}},"
    if len(line) + len(item) + 1 > 100:
        print(line)
        line = ""
    line += (" " if line else "") + item
print(line)
sys.stderr.write(f"{len(ranges)} ranges\n")
