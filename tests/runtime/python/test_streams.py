"""Tokens as they are drawn, in threads and event loops, and Python's lock."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from isobit import LLM, SamplingParams

PARAMS = SamplingParams(max_tokens=20, seed=4, logprobs=1, ignore_eos=True)
LONG = SamplingParams(max_tokens=4000, seed=4, ignore_eos=True)


def expected(llm, prompt="hello"):
    return llm.generate(prompt, PARAMS)[0]


def check(tokens, output):
    choice = output.outputs[0]
    assert [t.token_id for t in tokens] == choice.token_ids
    assert "".join(t.text for t in tokens) == choice.text
    assert np.array_equal(np.array([t.logprob for t in tokens], np.float32), choice.token_logprobs)
    assert all(len(t.top) == 1 for t in tokens)


def wait_until_idle(llm):
    for _ in range(600):
        if llm.stats()["running"] == 0:
            return
        time.sleep(0.01)
    raise AssertionError("a request still runs")


def test_a_stream_gives_what_the_completion_has(llm):
    stream = llm.stream("hello", PARAMS, receipt=True)
    tokens = list(stream)
    output = stream.result()
    check(tokens, output)
    assert output.digest == expected(llm).digest
    llm.replay(output.receipt)


def test_leaving_a_stream_cancels_it(llm):
    stream = llm.stream("hello", LONG)
    for _, token in zip(range(3), stream):
        assert token.choice == 0
    stream.cancel()
    assert stream.result().outputs[0].finish_reason == "cancelled"
    lost = llm.stream("hello", LONG)
    del lost
    gc.collect()
    wait_until_idle(llm)


def test_many_async_streams_are_not_mixed(llm):
    async def one(i):
        stream = llm.stream_async(f"request {i}", PARAMS)
        tokens = [token async for token in stream]
        output = await stream.result()
        check(tokens, output)
        return output.digest

    async def all_of_them():
        return await asyncio.gather(*(one(i) for i in range(200)))

    digests = asyncio.run(all_of_them())
    alone = llm.generate([f"request {i}" for i in range(200)], PARAMS)
    assert digests == [output.digest for output in alone]
    assert len(set(digests)) == 200


def test_several_event_loops_share_a_model(llm):
    digests = []

    async def some():
        outputs = await asyncio.gather(*(llm.generate_async(f"loop {i}", PARAMS) for i in range(10)))
        digests.append([output.digest for output in outputs])

    threads = [threading.Thread(target=lambda: asyncio.run(some())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 3 and digests[0] == digests[1] == digests[2]


def test_a_cancelled_task_cancels_its_request(llm):
    async def main():
        task = asyncio.create_task(llm.generate_async("hello", LONG))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stream = llm.stream_async("hello", LONG)
        async for _ in stream:
            break
        stream.cancel()
        assert (await stream.result()).outputs[0].finish_reason == "cancelled"

    asyncio.run(main())
    wait_until_idle(llm)


def test_a_bad_request_leaves_the_loop_usable(llm):
    async def main():
        with pytest.raises(ValueError):
            await llm.generate_async("hello", SamplingParams(top_p=2))
        return (await llm.generate_async("hello", PARAMS)).digest

    assert asyncio.run(main()) == expected(llm).digest


def test_python_runs_while_the_model_does(llm):
    """Another thread counts while generate() waits: it could not with Python's lock held."""
    counted, stop = 0, threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    llm.generate("hello", SamplingParams(max_tokens=1500, ignore_eos=True))
    taken = time.monotonic() - begin
    stop.set()
    thread.join()
    assert taken > 0.05 and counted > 5


def test_threads_share_a_model(llm):
    digests, threads = [], []
    for _ in range(4):
        threads.append(threading.Thread(
            target=lambda: digests.append([llm.generate("hello", PARAMS)[0].digest
                                           for _ in range(10)])))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({digest for some in digests for digest in some}) == 1 and len(digests) == 4


def test_ctrl_c_ends_generate(model):
    script = ("import sys\nfrom isobit import LLM, SamplingParams\nllm = LLM(sys.argv[1])\n"
              "print('ready', flush=True)\n"
              "while True: llm.generate(['a'] * 64, SamplingParams(max_tokens=4000, ignore_eos=True))\n")
    process = subprocess.Popen([sys.executable, "-c", script, model], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors


def test_a_process_may_end_with_requests_under_way(model):
    script = ("import sys\nfrom isobit import LLM, SamplingParams\nllm = LLM(sys.argv[1])\n"
              "stream = llm.stream('a', SamplingParams(max_tokens=4000, ignore_eos=True))\n"
              "next(iter(stream))\n")
    ended = subprocess.run([sys.executable, "-c", script, model], timeout=60,
                           stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0 and ended.stderr == ""


def test_a_forked_process_is_told(model):
    script = ("import os, sys\nfrom isobit import LLM, IsobitError\nllm = LLM(sys.argv[1])\n"
              "stream = llm.stream('a')\n"
              "if os.fork() == 0:\n"
              "    for call in (lambda: llm.generate('a'), llm.info, stream.result):\n"
              "        try:\n            call()\n            os._exit(2)\n"
              "        except IsobitError as error:\n            assert 'another process' in str(error)\n"
              "    del llm, stream\n    sys.exit(7)\n"
              "assert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n"
              "llm.generate('a')\n")
    subprocess.run([sys.executable, "-c", script, model], timeout=60, check=True)
