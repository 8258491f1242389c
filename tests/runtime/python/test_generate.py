"""Completions, log-probabilities, scoring and receipts: the command's bits, as vLLM's classes."""

import dataclasses
import json
import math
import os
import pickle
import pty
import subprocess
import sys

import numpy as np
import pytest

from isobit import (
    LLM,
    DifferentBitsError,
    InvalidRequestError,
    IsobitError,
    ModelNotFoundError,
    SamplingParams,
)
from isobit import vllm_names
from isobit.progress import ProgressBar

EVERYTHING = SamplingParams(
    n=2, presence_penalty=0.5, frequency_penalty=-0.5, repetition_penalty=1.1, temperature=0.7,
    top_p=0.9, top_k=40, min_p=0.01, seed=3, stop=["zz"], stop_token_ids=[77], ignore_eos=True,
    max_tokens=9, min_tokens=2, logprobs=0, prompt_logprobs=2, logit_bias={9: 2.5},
    logprobs_mode="processed")


def answers_of_command(command, model, requests):
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    out = subprocess.run([command, "batch", "-m", model, "-", "-o", "-"], input=lines, text=True,
                         check=True, stdout=subprocess.PIPE).stdout
    return [without_schedule(json.loads(line)) for line in out.splitlines()]


def without_schedule(answer):
    del answer["usage"]["cached_tokens"]
    return answer


def test_gives_the_lines_of_the_command(model, command):
    llm = LLM(model)
    outputs = llm.generate(["hello", [5, 6, 7, 8]],
                           [SamplingParams(max_tokens=20, temperature=0, logprobs=3), EVERYTHING])
    requests = [
        {"id": "0", "prompt": "hello", "max_tokens": 20, "temperature": 0, "logprobs": 3},
        {"id": "1", "prompt_token_ids": [5, 6, 7, 8], "n": 2, "presence_penalty": 0.5,
         "frequency_penalty": -0.5, "repetition_penalty": 1.1, "temperature": 0.7, "top_p": 0.9,
         "top_k": 40, "min_p": 0.01, "seed": 3, "stop": ["zz"], "stop_token_ids": [77],
         "ignore_eos": True, "max_tokens": 9, "min_tokens": 2, "logprobs": 0,
         "prompt_logprobs": 2, "logit_bias": {"9": 2.5}, "logprobs_mode": "processed"},
    ]
    expected = answers_of_command(command, model, requests)
    assert [without_schedule(output.to_dict()) for output in outputs] == expected
    assert [output.digest for output in outputs] == [answer["digest"] for answer in expected]
    assert outputs[0].prompt == "hello" and outputs[0].outputs[0].text == expected[0]["choices"][0]["text"]


def test_log_probabilities_have_two_shapes_and_one_value(llm):
    output = llm.generate([1, 2, 3], SamplingParams(max_tokens=6, seed=1, logprobs=2,
                                                    prompt_logprobs=1, ignore_eos=True))[0]
    choice = output.outputs[0]
    array = choice.token_logprobs
    assert array.dtype == np.float32 and array.shape == (6,)
    assert len(choice.logprobs) == 6
    for i, token in enumerate(choice.token_ids):
        position = choice.logprobs[i]
        assert position[token].logprob == array[i]
        assert [p.rank for p in position.values() if p.rank] == [1, 2] or len(position) == 2
    assert choice.cumulative_logprob == math.fsum(array.tolist())
    assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == 3
    assert output.prompt_token_logprobs.shape == (2,)
    assert output.prompt_logprobs[2][3].logprob == output.prompt_token_logprobs[1]
    without = llm.generate([1, 2, 3], SamplingParams(max_tokens=6, seed=1, ignore_eos=True))[0]
    assert without.outputs[0].logprobs is None and without.outputs[0].token_logprobs is None
    assert without.prompt_logprobs is None
    assert without.digest == output.digest


def test_arrays_go_out_through_dlpack_without_a_copy(llm):
    output = llm.generate([1, 2, 3], SamplingParams(max_tokens=4, seed=1, logprobs=0))[0]
    array = output.outputs[0].token_logprobs
    shared = np.from_dlpack(array)
    assert shared.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    kept = output.outputs[0].token_logprobs
    expected = kept.tolist()
    del output, array, shared
    assert kept.tolist() == expected  # the array owns its memory


def test_scoring_gives_exactly_the_bits_of_generating(llm):
    outputs = llm.generate([[1, 2, 3, 4], [9, 8]],
                           SamplingParams(max_tokens=100, seed=5, logprobs=0, ignore_eos=True))
    sequences = [o.prompt_token_ids + o.outputs[0].token_ids for o in outputs]
    scores = llm.score(sequences)
    for output, score in zip(outputs, scores, strict=True):
        drawn = output.outputs[0].token_logprobs
        assert drawn.size == 100
        assert np.array_equal(score[len(output.prompt_token_ids) - 1:].view(np.uint32),
                              drawn.view(np.uint32))
    assert np.array_equal(llm.score(sequences[0]), scores[0])
    assert np.array_equal(llm.score(np.array(sequences[0])), scores[0])
    assert llm.score([5]).shape == (0,)


def test_company_changes_nothing(model, llm):
    params = SamplingParams(max_tokens=12, seed=7)
    alone = LLM(model, threads=2, enable_prefix_caching=False).generate("alone", params)[0].digest
    many = llm.generate([f"request {i}" for i in range(60)] + ["alone"], params)
    assert many[-1].digest == alone
    assert [o.request_id for o in many] == sorted((o.request_id for o in many), key=int)


def test_prompts_come_in_the_forms_of_vllm(llm):
    params = SamplingParams(max_tokens=3, temperature=0)
    ids = llm.tokenize("hello")
    forms = ["hello", {"prompt": "hello"}, ids, {"prompt_token_ids": ids}, np.array(ids), tuple(ids)]
    digests = {llm.generate(form, params)[0].digest for form in forms}
    assert len(digests) == 1
    assert {o.digest for o in llm.generate(forms, params)} == digests
    assert llm.generate([], params) == []
    assert llm.detokenize(ids) == "hello"
    assert {o.digest for o in llm.generate(np.array([ids, ids]), params)} == digests
    for wrong in ([3.5], np.array([3.5]), [b"hello"], 7):
        with pytest.raises(TypeError):
            llm.generate(wrong, params)
    with pytest.raises(ValueError, match="unknown"):
        llm.generate({"unknown": 1}, params)


TOOLS = [{"type": "function", "function": {"name": "find", "description": "é first", "a": 1}}]
CONVERSATION = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"name": "find", "arguments": {}}]},
    {"role": "tool", "content": "nothing", "tool_call_id": "1"},
]


def test_conversations_go_the_way_of_the_command(tool_model, command):
    llm = LLM(tool_model)
    params = SamplingParams(max_tokens=8, temperature=0)
    request = {"id": "0", "messages": CONVERSATION, "tools": TOOLS,
               "chat_template_kwargs": {"tone": "dry"}, "max_tokens": 8, "temperature": 0}
    expected = answers_of_command(command, tool_model, [request])[0]
    chat = {"tools": TOOLS, "chat_template_kwargs": {"tone": "dry"}}
    output = llm.chat(CONVERSATION, params, **chat)[0]
    assert without_schedule(output.to_dict()) == expected
    text = llm.apply_chat_template(CONVERSATION, **chat)
    assert llm.tokenize(text, add_special_tokens=False) == output.prompt_token_ids
    assert text.startswith('tools [{"type": "function", "function": {"name": "find", '
                           '"description": "é first", "a": 1}}]\ntone dry\n')
    assert not llm.apply_chat_template(CONVERSATION, add_generation_prompt=False).endswith("start|>")

    # As a prompt, in a stream, among others; and without tools it is another one.
    prompt = {"messages": CONVERSATION, **chat}
    assert llm.generate(prompt, params)[0].digest == output.digest
    assert llm.stream(prompt, params).result().digest == output.digest
    two = llm.chat([CONVERSATION, CONVERSATION[:1]], params, **chat)
    assert two[0].digest == output.digest
    plain = llm.stream(CONVERSATION, params).result()
    assert plain.digest == llm.chat(CONVERSATION, params)[0].digest != output.digest


def test_wrong_conversations_are_refused_by_name(llm):
    for messages, message in [
            ([{"role": "user", "content": "a", "colour": 1}], 'unknown field "colour"'),
            ([{"role": "user"}], "content is missing"),
            ([{"role": "user", "content": float("nan")}], "messages must be JSON"),
            ([{"role": "user", "content": {1}}], "messages must be JSON")]:
        with pytest.raises((ValueError, TypeError), match=message):
            llm.chat(messages)
    hello = [{"role": "user", "content": "hello"}]
    with pytest.raises(ValueError, match="tools must be an array of objects"):
        llm.chat(hello, tools=["find"])
    with pytest.raises(ValueError, match="can't set 'messages'"):
        llm.chat(hello, chat_template_kwargs={"messages": []})
    with pytest.raises(ValueError, match=r"got \['prompt', 'tools'\]"):
        llm.generate({"prompt": "hello", "tools": TOOLS})
    with pytest.raises(TypeError, match="at least one dict"):
        llm.chat([[]])


def test_arguments_of_vllm_are_taken_or_refused_by_name(model):
    llm = LLM(model, tensor_parallel_size=1, dtype="bfloat16", trust_remote_code=True,
              enforce_eager=True, threads=1)
    for argument, value in [("tensor_parallel_size", 2), ("dtype", "float16"),
                            ("quantization", "awq"), ("tokenizer", "other"),
                            ("speculative_config", {"k": 2})]:
        with pytest.raises(ValueError, match=f"{argument} must be .* got {value!r}"):
            LLM(model, **{argument: value})
    with pytest.raises(TypeError, match="gpu_memory_utilization.*kv_cache_tokens"):
        LLM(model, gpu_memory_utilization=0.9)
    with pytest.raises(TypeError, match="LLM has no argument 'colour'"):
        LLM(model, colour=1)
    greedy = SamplingParams(temperature=0, top_k=-1, skip_special_tokens=True, bad_words=[])
    same = SamplingParams(temperature=0)
    assert dataclasses.replace(greedy, top_k=0) == same
    hello = [{"role": "user", "content": "hello"}]
    assert llm.generate("hello", greedy, lora_request=None)[0].digest == (
        llm.generate("hello", same)[0].digest)
    assert llm.chat(hello, same, False, add_generation_prompt=True)
    for call in (lambda: llm.generate("hello", lora_request="a"),
                 lambda: llm.chat(hello, chat_template="a"),
                 lambda: llm.chat(hello, continue_final_message=True),
                 lambda: SamplingParams(bad_words=["a"]),
                 lambda: SamplingParams(structured_outputs={"json": {}}),
                 lambda: SamplingParams(include_stop_str_in_output=True)):
        with pytest.raises(ValueError, match="must be .*, got"):
            call()
    with pytest.raises(TypeError, match="best_of"):
        SamplingParams(best_of=2)
    initial = [name for name, field in SamplingParams.__dataclass_fields__.items()
               if field._field_type is dataclasses._FIELD_INITVAR]
    assert initial == list(vllm_names.SAMPLING)


def test_a_receipt_is_replayed_by_both(model, llm, command, tmp_path):
    output = llm.generate("hello", SamplingParams(max_tokens=5, seed=1), receipts=True)[0]
    llm.replay(output.receipt)
    path = tmp_path / "receipt.json"
    path.write_text(output.receipt)
    subprocess.run([command, "replay", "-m", model, path], check=True, stdout=subprocess.PIPE)
    receipt = json.loads(output.receipt)
    receipt["choices"][0]["logprobs"][2] = -0.5
    with pytest.raises(DifferentBitsError, match="token 2, logprob: recorded -0.5"):
        llm.replay(json.dumps(receipt))
    assert llm.generate("hello", SamplingParams(max_tokens=1))[0].receipt is None


def test_new_weights(model, other_model, tool_model):
    llm, params = LLM(model), SamplingParams(max_tokens=8, seed=2)
    first = llm.generate("hello", params)[0]
    llm.update_weights(other_model)
    second = llm.generate("hello", params)[0]
    assert second.digest == LLM(other_model).generate("hello", params)[0].digest != first.digest
    assert llm.model_digest == second.model_digest != first.model_digest
    with pytest.raises(ModelNotFoundError):
        llm.update_weights("/no/such/file")
    with pytest.raises(ValueError, match="tokenizer is not that of the running model"):
        llm.update_weights(tool_model)
    assert llm.generate("hello", params)[0].digest == second.digest


def test_errors_name_what_is_wrong(llm):
    with pytest.raises(ValueError, match="temperature must be >= 0, got -1"):
        llm.generate("a", SamplingParams(temperature=-1))
    with pytest.raises(InvalidRequestError, match=r"prompt_token_ids\[0\] must be in"):
        llm.generate([100000])
    with pytest.raises(InvalidRequestError):
        llm.generate([1] * 5000)
    with pytest.raises(TypeError, match="max_tokens"):
        llm.generate("a", SamplingParams(max_tokens="many"))
    with pytest.raises(ValueError, match="2 prompts, but 1"):
        llm.generate(["a", "b"], [SamplingParams()])
    for params in (5, {"seed": 1}, [{"seed": 1}]):
        with pytest.raises(TypeError, match="sampling_params must be SamplingParams"):
            llm.generate("a", params)
    with pytest.raises(ValueError, match=r"prompt_token_ids\[1\] must be in"):
        llm.generate([[1, 2**40]])
    with pytest.raises(ValueError, match="surrogates"):
        llm.generate("\ud800")
    for argument, value in [("threads", "x"), ("seed", -1), ("max_model_len", 1.5)]:
        with pytest.raises(TypeError, match=f"{argument} can't be {value!r}"):
            LLM("model.gguf", **{argument: value})
    with pytest.raises(FileNotFoundError) as error:
        LLM("/no/such/model.gguf")
    assert isinstance(error.value, IsobitError) and error.value.status == "NOT_FOUND"
    assert "/no/such/model.gguf" in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    with pytest.raises(ValueError, match="abacus"):
        LLM("model.gguf", device="abacus")
    # After all these, it still serves.
    assert llm.generate("a", SamplingParams(max_tokens=1, seed=1))[0].outputs[0].token_ids


def test_progress_is_shown_on_terminals_only(model):
    assert ProgressBar.line(1, 3, "1 of 3") == "[" + "#" * 10 + " " * 20 + "]  33%  1 of 3"
    script = ("import sys\nfrom isobit import LLM, SamplingParams\n"
              "LLM(sys.argv[1]).generate(['a'] * 3, SamplingParams(max_tokens=2), "
              "use_tqdm=sys.argv[2] == 'on')\n")
    shown = {}
    for choice in ("on", "off"):
        terminal, child = pty.openpty()
        subprocess.run([sys.executable, "-c", script, model, choice], check=True, stderr=child)
        os.close(child)
        shown[choice] = os.read(terminal, 4096) if choice == "on" else b""
        os.close(terminal)
    assert b"of 3 requests" in shown["on"]
    piped = subprocess.run([sys.executable, "-c", script, model, "on"], check=True,
                           stderr=subprocess.PIPE)
    assert piped.stderr == b""
