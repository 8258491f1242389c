#!/usr/bin/env python3
"""Makes splits.json: random texts and how Hugging Face's tokenizers split them.

usage: python3 make_splits.py > splits.json     (pip install tokenizers==0.23.3)

For each pre-tokenizer the lengths in bytes of the pieces of each text. The texts are made of
characters at which the expressions decide something.
"""
import json
import random
import sys

from tokenizers import Regex
from tokenizers.pre_tokenizers import Digits, Sequence, Split

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = r"[^\r\n\p{L}\p{N}]?%s*%s+%s|[^\r\n\p{L}\p{N}]?%s+%s*%s|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def split(expression):
    return Split(Regex(expression), "isolated")


PRE_TOKENIZERS = {
    "gpt-2": split(GPT2),
    "smollm": Sequence([Digits(individual_digits=True), split(GPT2)]),
    "llama-bpe": split(LLAMA3),
    "qwen2": split(LLAMA3.replace("{1,3}", "")),
    "gpt-4o": split(CASED % (UPPER, LOWER, SHORT, UPPER, LOWER, SHORT, "{1,3}")),
    "tekken": split(CASED % (UPPER, LOWER, "", UPPER, LOWER, "", "")),
    "qwen35": split(LLAMA3.replace("{1,3}", "").replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")),
    "deepseek-v3": Sequence([split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
                             split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                                   "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")]),
    "deepseek-coder": Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), split(r"\p{N}")]),
    "falcon": Sequence([split(r"[\p{P}\$\+<=>\^~\|`]+"), split(GPT2), split("[0-9][0-9][0-9]")]),
    # As llama.cpp defines the name.
    "default": Sequence([split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]")]),
}

PARTS = ["a", "b", "Z", "s", "S", "t", "re", "RE", "ve", "ll", "lL", "d", "m", "\u017f", "é", "ß", "я", "中", "文", "한", "ا", "ก",
         "\u0301", "\u093f", "\u1c89", "\U00031350", "\U0001d7ce", "\U00016d70",
         "0", "1", "9", "12", "123", "4567", "²", "½", "Ⅷ", "٣", "一",
         " ", "  ", "   ", "\t", "\n", "\n\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e",
         "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff",
         "'", "''", "’", "\"", ".", "...", ",", "!", "-", "_", "(", ")", "#", "%", "&", "*", "/", "\\", "@", "[", "{", "¿", "«", "、",
         "$", "+", "<", "=", ">", "^", "~", "|", "`", "€", "©", "→", "🙂", "👩\u200d👧", "\x00", "\x7f", "\ue000", "\U0010ffff"]


def texts(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        pool = rng.sample(PARTS, rng.randint(2, 12)) if rng.random() < 0.5 else PARTS
        yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 24)))


def lengths(pre, text):
    return [len(piece.encode()) for piece, _ in pre.pre_tokenize_str(text)]


def main():
    rows = list(dict.fromkeys(texts(500, 1)))
    print("[")
    for i, text in enumerate(rows):
        splits = {name: lengths(pre, text) for name, pre in PRE_TOKENIZERS.items()}
        print(json.dumps({"text": text, **splits}) + ("," if i + 1 < len(rows) else ""))
    print("]")


if __name__ == "__main__":
    main()
