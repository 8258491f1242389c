#!/usr/bin/env python3
"""Makes tokenizers.json: small tokenizers of every kind that is supported, and what Hugging Face's and Google's libraries make of texts.

usage: python3 make_tokenizers.py texts.json > tokenizers.json     (pip install tokenizers==0.23.3 sentencepiece==0.2.1)

Each row of "tokenizers" has a tokenizer.json, trained on a seeded corpus, and for some of the texts of texts.json, with added
tokens strewn in, the ids and the decoded text. Rows of "sentencepiece" have pieces, scores and types in place of the file.
"""
import collections
import io
import json
import random
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
SPECIAL = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False),
           AddedToken("<unk>", special=True, normalized=False)]
ADDED = [AddedToken("<|l|>", lstrip=True, special=True, normalized=False), AddedToken("<|r|>", rstrip=True, normalized=False),
         AddedToken("<|lr|>", lstrip=True, rstrip=True, normalized=True), AddedToken("cat", single_word=True, normalized=True),
         AddedToken("<|", normalized=False), AddedToken("<|end|>", special=True, normalized=False)]
STREWN = ["<|l|>", " <|l|>  ", "\n<|r|> \t", "<|lr|>", " <|lr|> ", "cat", " cat ", "cats", "<|", "<|end|>", "<s>", "</s>", "  "]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def template(single, tokenizer):
    return processors.TemplateProcessing(single=single, special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")])


def bytes_bpe(corpus, pre, normalizer=None, ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def chars_bpe(corpus, normalizer=None, pre=None, decoder=None, fallback=True):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    bytes_ = [AddedToken(f"<0x{b:02X}>", special=False, normalized=False) for b in range(256)] if fallback else []
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=900, special_tokens=SPECIAL + bytes_, show_progress=False, limit_alphabet=120,
                                                      max_token_length=12))
    file = json.loads(t.to_str())  # bytes are tokens of the model, not added ones
    file["added_tokens"] = [a for a in file["added_tokens"] if not a["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(file))


def tokenizers(corpus):
    P, N, D = pre_tokenizers, normalizers, decoders
    mark = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    prepend = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    yield "gpt2", bytes_bpe(corpus, byte_level(use_regex=True)), None
    yield "roberta-like", bytes_bpe(corpus, byte_level(use_regex=True, prefix=True)), "<s> $A </s>"
    yield "smollm", bytes_bpe(corpus, P.Sequence([P.Digits(individual_digits=True), byte_level(use_regex=True)])), None
    yield "llama3", bytes_bpe(corpus, P.Sequence([split(LLAMA3), byte_level()]), ignore_merges=True), "<s> $A"
    yield "qwen2", bytes_bpe(corpus, P.Sequence([split(LLAMA3.replace("{1,3}", "")), byte_level()]), N.NFC()), None
    yield "o200k", bytes_bpe(corpus, P.Sequence([split(O200K, "removed", True), byte_level()])), None
    yield "falcon", bytes_bpe(corpus, P.Sequence([P.Punctuation("contiguous"), byte_level(use_regex=True), P.Digits(individual_digits=False),
                                                  split("[0-9][0-9][0-9]")])), None
    yield "deepseek-coder", bytes_bpe(corpus, P.Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), P.Digits(individual_digits=True),
                                                          byte_level()])), "<s> $A"
    yield "behaviors", bytes_bpe(corpus, P.Sequence([split(",", "merged_with_previous"), split("[aeiou]", "merged_with_next"), split("[.!]", "contiguous"),
                                                     P.Split(" ", "merged_with_next"), byte_level()])), None
    yield "words", bytes_bpe(corpus, P.Sequence([P.Whitespace(), P.Punctuation(), byte_level()])), None
    yield "white", bytes_bpe(corpus, P.Sequence([P.WhitespaceSplit(), byte_level()]), N.Sequence([N.NFKC(), N.Lowercase(), N.Strip()])), None
    yield "llama2", chars_bpe(corpus, prepend, None, mark), "<s> $A"
    yield "mistral-first", chars_bpe(corpus, None, P.Metaspace(prepend_scheme="first", split=False), mark), "<s> $A"
    yield "metaspace", chars_bpe(corpus, None, P.Metaspace(), D.Sequence([D.Metaspace(), D.ByteFallback(), D.Fuse()]), False), None
    yield "gemma", chars_bpe(corpus, N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
                             D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])), "<s> $A"


def with_tokens(rng, text):
    for _ in range(rng.randint(0, 2)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(STREWN) + text[at:]
    return text


def tokenizer_rows(corpus, texts):
    rng = random.Random(11)
    for name, tokenizer, single in tokenizers(corpus):
        tokenizer.add_tokens([t for t in ADDED if not t.special])
        tokenizer.add_special_tokens([t for t in ADDED if t.special])
        if single:
            tokenizer.post_processor = template(single, tokenizer)
        rows = []
        for text in rng.sample(texts, 90):
            text = with_tokens(rng, text)
            ids = tokenizer.encode(text).ids
            rows.append([text, ids, tokenizer.decode(ids)])
        yield {"name": name, "file": tokenizer.to_str(), "rows": rows}


def common(corpus):
    """The lines without rare characters, so that few pieces are single characters and many characters fall back to bytes."""
    counts = collections.Counter("".join(corpus))
    kept = {c for c, _ in counts.most_common(150)}
    return [line for line in corpus if set(line) <= kept]


def sentencepiece_rows(corpus, texts):
    rng = random.Random(12)
    for name, options in [("llama", {}), ("no prefix", {"add_dummy_prefix": False}), ("user", {"user_defined_symbols": ["<|u|>", "▁▁", "▁▁▁"]})]:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(common(corpus)), model_writer=model, vocab_size=900, model_type="bpe", byte_fallback=True,
                                                 character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
                                                 split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2, **options)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        types = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if sp.id_to_piece(i) in options.get("user_defined_symbols", [])
                 else 1 for i in range(sp.vocab_size())]
        # NUL ends a text there; U+2581 can't be told from a space.
        chosen = [t for t in rng.sample(texts, 150) if "\0" not in t and "▁" not in t]
        rows = [[t, sp.encode(t), sp.decode(sp.encode(t))] for t in chosen if t]
        yield {"name": name, "add_prefix": options.get("add_dummy_prefix", True), "pieces": [sp.id_to_piece(i) for i in range(sp.vocab_size())],
               "scores": [sp.get_score(i) for i in range(sp.vocab_size())], "types": types, "rows": rows}


def main():
    texts = json.load(open(sys.argv[1], encoding="utf-8"))
    corpus = [line for line in texts if "\0" not in line]
    lists = {"tokenizers": tokenizer_rows(corpus, texts), "sentencepiece": sentencepiece_rows(corpus, texts)}
    print("{" + ",\n".join(json.dumps(key) + ": [\n" + ",\n".join(json.dumps(row) for row in rows) + "]" for key, rows in lists.items()) + "}")


main()
