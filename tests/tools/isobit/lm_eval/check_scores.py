"""The lm-evaluation-harness against a running server: a multiple-choice task, scored through
/v1/completions with echo.

What it gets must be what the server says elsewhere, to the last bit: every log-likelihood equals
the sum of /score's log-probabilities, and how many requests are under way at once changes nothing.

usage: check_scores.py URL MODEL
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

URL, MODEL = sys.argv[1:]
HERE = pathlib.Path(__file__).parent


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def evaluate(folder, **arguments):
    """Runs the harness as a user would; its results and samples."""
    model_args = {"model": MODEL, "base_url": f"{URL}/v1/completions", **arguments}
    subprocess.run(
        [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions",
         "--model_args", ",".join(f"{name}={value}" for name, value in model_args.items()),
         "--tasks", "opposites", "--include_path", str(HERE), "--output_path", str(folder), "--log_samples"],
        cwd=HERE, check=True, env={**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"})
    results = json.loads(next(folder.rglob("results_*.json")).read_text())
    samples = [json.loads(line) for line in next(folder.rglob("samples_*.jsonl")).read_text().splitlines()]
    return results["results"]["opposites"], samples


def expected(question, choice):
    """The log-likelihood of a continuation from /score, and whether it is the greedy one."""
    begin = post("/tokenize", {"prompt": question, "add_special_tokens": False})["tokens"]
    whole = post("/tokenize", {"prompt": f"{question} {choice}", "add_special_tokens": False})["tokens"]
    assert whole[: len(begin)] == begin
    positions = post("/score", {"prompt_token_ids": whole, "prompt_logprobs": 1})["prompt_logprobs"][len(begin):]
    return sum(p["logprob"] for p in positions), all(p["logprob"] == p["top"][0]["logprob"] for p in positions)


with tempfile.TemporaryDirectory() as folder:
    results, samples = evaluate(pathlib.Path(folder, "one"), num_concurrent=1)
    together, same_samples = evaluate(pathlib.Path(folder, "many"), num_concurrent=8)

assert len(samples) == 10
for sample in samples:
    doc = sample["doc"]
    got = [(float(value), greedy in (True, "True")) for (value, greedy), in sample["resps"]]
    assert got == [expected(doc["question"], choice) for choice in doc["choices"]], doc
by_id = {sample["doc_id"]: sample["resps"] for sample in samples}
assert {sample["doc_id"]: sample["resps"] for sample in same_samples} == by_id
assert together == results
print(f"accuracy {results['acc,none']}")
