#!/usr/bin/env python3
"""Makes nfc.json: pairs of a string and its NFC by Python's unicodedata. usage: python3 make_nfc.py > nfc.json"""
import json
import random
import unicodedata

PARTS = ["a", "e", "A", "q", "é", "Å", "\u212b", "\u0301", "\u0300", "\u0327", "\u0323", "\u0307", "\u030a", "\u0345", "\u0342", "\u0313",
         "ﬁ", "Ω", "\u2126", "\u1e69", "\u1e9b\u0323", "ᄀ", "ᅡ", "ᆨ", "가", "각", "\u0b47", "\u0b3e", "\u0dd9", "\u0dcf", "\u0958",
         "\u0344", "\u2adc", "\U0001d15e", "\U0001d157", "\U0001d165", "\ufb1d", "\u1100", "\u1161", "\u11a7", "\U00011099", "\U000110ba", "\u0f71",
         "\u0f72", "\u0f73", "\uf900", "中", "\U0002f800", "\u05b0", "\u05b1", " ", "\n", "🙂"]


def main():
    rng = random.Random(5)
    rows = {chr(c): unicodedata.normalize("NFC", chr(c)) for c in (*range(0x340, 0x345), 0x37E, 0x387, 0x1F71, 0x2329, 0xFB4E)}
    for _ in range(700):
        text = "".join(rng.choice(PARTS) for _ in range(rng.randint(1, 14)))
        rows[text] = unicodedata.normalize("NFC", text)
    items = list(rows.items())
    print("[")
    for i, item in enumerate(items):
        print(json.dumps(item) + ("," if i + 1 < len(items) else ""))
    print("]")


main()
