"""isobit.ray's deployment: two replicas on this machine, and RAY.md. Run with pytest in build/venv-ray."""

import json
import os
import urllib.error
import urllib.request

# Ray gives a proxy 15 s to start, which a machine that is busy with other tests does not keep. Read
# when Serve is imported, here and in the processes that it starts.
os.environ["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "120"
os.environ["RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S"] = "120"

import numpy as np
import pytest
import ray
import ray.serve._private.api
from ray import serve

import isobit.ray
import page
from isobit import LLM, SamplingParams

ray.serve._private.api.HTTP_PROXY_TIMEOUT = 300

MODEL = os.environ["ISOBIT_TINY_MODEL"]
PARAMS = SamplingParams(temperature=0.8, seed=7, max_tokens=24, logprobs=0, ignore_eos=True)
PROMPTS = [f"Request {i}" for i in range(96)]
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def llm():
    return LLM(MODEL, threads=1)


@pytest.fixture(scope="module", autouse=True)
def handle():
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": environment})
    yield serve.run(isobit.ray.deployment(MODEL, num_replicas=2, threads=1))
    serve.shutdown()
    ray.shutdown()


def post(body):
    try:
        with urllib.request.urlopen("http://127.0.0.1:8000/", body.encode(), timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_two_replicas_serve_the_bits_of_one_process(handle, llm):
    expected = [output.digest for output in llm.generate(PROMPTS, PARAMS)]
    answers = [handle.generate.remote(p, PARAMS) for p in PROMPTS]
    assert [a.result()["digest"] for a in answers] == expected
    replicas = {handle.process.remote().result() for _ in range(40)}
    assert len(replicas) == 2


def test_http_takes_requests_of_batch_and_refuses_by_name(llm):
    request = {"prompt": "Request 1", "temperature": 0.8, "seed": 7, "max_tokens": 24,
               "logprobs": 0, "ignore_eos": True, "logit_bias": {"9": 1.5}}
    status, answer = post(json.dumps(request))
    params = dict(request, logit_bias={9: 1.5})
    del params["prompt"]
    assert status == 200
    assert answer["digest"] == llm.generate("Request 1", SamplingParams(**params))[0].digest
    status, answer = post(json.dumps({"messages": HELLO, "tools": [{}], "temperature": 0}))
    greedy = SamplingParams(temperature=0, seed=0)
    assert status == 200 and answer["digest"] == llm.chat(HELLO, greedy, tools=[{}])[0].digest
    for bad, message in [("{", ""), ("[]", "JSON object"), ('{"prompt": "a", "top_q": 1}', "top_q"),
                         ('{"seed": 1}', "one of prompt"), ('{"prompt": "a", "tools": []}', "tools"),
                         ('{"prompt": "a", "temperature": -1}', "temperature must be >= 0")]:
        status, answer = post(bad)
        assert status == 400 and message in answer["error"]["message"], (bad, answer)


def test_scores_are_those_of_one_process(handle, llm):
    ids = llm.tokenize("Request 1")
    scored = handle.score.remote(ids).result()
    assert np.array_equal(np.array(scored, np.float32), llm.score(ids))
    assert handle.model_digest.remote().result() == llm.model_digest


def test_the_page_runs():
    names = page.run(page.FOLDER / "RAY.md", MODEL=MODEL)
    assert len(names["rows"]) == 100
