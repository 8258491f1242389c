#!/usr/bin/env python3
"""What audits cost: `isobit batch` on the same requests with and without them, in turn.

usage: python3 tests/bench/audit_cost.py ISOBIT MODEL [--rounds 7] [--shares 0.01 0.1]

Each round runs the batch without audits and with each share, in another order each time; a share's
time is divided by that of the same round without. Prints medians of wall and processor time, and
how many tokens were computed again. Loading the model is in both times: the batch should be long
beside it.
"""
import argparse
import json
import pathlib
import random
import re
import resource
import statistics
import subprocess
import tempfile
import time


def requests(count, tokens):
    texts = ["The capital of France is", "Once upon a time", "def quicksort(xs):", "Dear Sir or Madam,"]
    return [{"id": f"r{i}", "prompt": texts[i % 4] + " " + "and so on " * (i % 9),
             "max_tokens": tokens // 2 + 7 * i % (tokens + 1),  # so that they end one by one
             "temperature": 0.8, "seed": i, "ignore_eos": True} for i in range(count)]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(options, batch, out, share):
    processor, begin = processor_seconds(), time.monotonic()
    done = subprocess.run(
        [options.isobit, "batch", "-m", options.model, batch, "-o", out, "--audit", str(share),
         "--no-prefix-cache", "--max-num-seqs", "16", "--log-level", "info"], capture_output=True, text=True, check=True)
    seconds = time.monotonic() - begin, processor_seconds() - processor
    found = re.search(r"audited: (\d+) completions of (\d+) tokens", done.stderr)
    return seconds, int(found.group(2)) if found else 0, pathlib.Path(out).read_bytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("isobit")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.1])
    options = parser.parse_args()
    ratios = {share: ([], [], []) for share in options.shares}
    with tempfile.TemporaryDirectory() as folder:
        batch = f"{folder}/in.jsonl"
        pathlib.Path(batch).write_text("\n".join(map(json.dumps, requests(options.requests, options.tokens))))
        for number in range(options.rounds):
            shares = [0.0, *options.shares]
            random.Random(number).shuffle(shares)
            results = {share: run(options, batch, f"{folder}/out.jsonl", share) for share in shares}
            (wall, processor), _, answers = results[0.0]
            for share in options.shares:
                (w, p), tokens, others = results[share]
                assert others == answers, "audits changed an answer"
                ratios[share][0].append(w / wall)
                ratios[share][1].append(p / processor)
                ratios[share][2].append(tokens)
    print("| share | wall time | processor time | tokens computed again |\n|---|---|---|---|")
    for share, (wall, processor, tokens) in ratios.items():
        print(f"| {share} | {statistics.median(wall):.3f}x | {statistics.median(processor):.3f}x "
              f"| {statistics.median(tokens):.0f} |")


if __name__ == "__main__":
    main()
