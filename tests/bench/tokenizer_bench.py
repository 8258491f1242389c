#!/usr/bin/env python3
"""What tokenizer_bench.cc measures, with Hugging Face's tokenizers on one thread, its cache cold. Compare with the column CPU.

usage: python3 tests/bench/tokenizer_bench.py build/vocab     (pip install tokenizers==0.23.3 gguf==0.19.0)
"""
import json
import os
import pathlib
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = 1_000_000


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(pattern=None):
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    return level if pattern is None else pre_tokenizers.Sequence([split(pattern), level])


def merges_of(pieces, scores):
    """SentencePiece's pieces as merges, as conversion to tokenizer.json makes them."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, score in zip(pieces, scores):
        made = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
        merges += [(score, m) for m in sorted(made, key=lambda m: (ids[m[0]], ids[m[1]]))]
    return [m for _, m in sorted(merges, key=lambda m: -m[0])]


def load(folder, name):
    fields = GGUFReader(os.path.join(folder, f"ggml-vocab-{name}.gguf")).fields
    pieces = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    if name == "llama-spm":
        scores = fields["tokenizer.ggml.scores"].contents()
        vocab = {p: i for i, p in enumerate(pieces)}
        t = Tokenizer(models.BPE(vocab, merges_of(pieces, scores), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
        t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, ignore_merges=name == "llama-bpe"))
        t.pre_tokenizer = byte_level({"gpt-2": None, "llama-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}[name])
        if name == "qwen2":
            t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken(p, normalized=False, special=True) for p, kind in zip(pieces, types) if kind == 3])
    return t


def texts():
    root = pathlib.Path(__file__).resolve().parents[2]
    paths = sorted(str(p) for room in ("kernels", "runtime", "tests") for p in (root / room).rglob("*") if p.suffix in (".cc", ".h", ".md"))
    code = b"".join(open(p, "rb").read() for p in paths)[:BYTES].decode(errors="ignore")
    parts = json.load(open(root / "golden" / "text" / "texts.json", encoding="utf-8"))
    scripts = ""
    while len(scripts.encode()) < BYTES:
        scripts += "".join(part + "\n" for part in parts)
    return {"code": code, "scripts": scripts, "a": "a" * 200_000}


def main():
    for name in ("gpt-2", "llama-bpe", "qwen2", "llama-spm"):
        for title, text in texts().items():
            tokenizer = load(sys.argv[1], name)  # anew, so that no word is in its cache
            begin = time.process_time()
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            took = time.process_time() - begin
            print(f"{name}/{title}: {took * 1e3:.1f} ms of CPU, {len(text.encode()) / took / 1e6:.1f} MB/s, {len(ids)} tokens", flush=True)


main()
