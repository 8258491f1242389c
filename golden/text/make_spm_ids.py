#!/usr/bin/env python3
"""Makes ids_llama-spm.txt: token ids of texts.json by Llama 2's vocabulary, as Hugging Face's tokenizers merge it.

usage: python3 make_spm_ids.py build/vocab/ggml-vocab-llama-spm.gguf texts.json > ids_llama-spm.txt     (pip install tokenizers==0.23.3 gguf==0.19.0)

The file has SentencePiece's pieces and scores. They become merges as conversion to tokenizer.json makes them: all ways to cut a piece in two
pieces, best score first.
"""
import json
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, normalizers


def merges_of(pieces, scores):
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, score in zip(pieces, scores):
        made = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
        merges += [(score, m) for m in sorted(made, key=lambda m: (ids[m[0]], ids[m[1]]))]
    return [m for _, m in sorted(merges, key=lambda m: -m[0])]


def main():
    fields = GGUFReader(sys.argv[1]).fields
    pieces, scores, types = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type"))
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges_of(pieces, scores), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.add_special_tokens([AddedToken(p, normalized=False, special=True) for p, kind in zip(pieces, types) if kind == 3])
    for text in json.load(open(sys.argv[2], encoding="utf-8")):
        print(*t.encode(text, add_special_tokens=False).ids)


main()
