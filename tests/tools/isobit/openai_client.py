"""The official openai client against a running server: chat, streams, log-probabilities, seeds, n.

usage: openai_client.py URL [API_KEY]
"""
import asyncio
import sys

import openai

URL = sys.argv[1]
KEY = sys.argv[2] if len(sys.argv) > 2 else "none is needed"
client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
MODEL = client.models.list().data[0].id
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]


def extra(answer, name):
    """A field that the client's types do not know."""
    return answer.model_extra[name]


def check_chat():
    ask = dict(model=MODEL, messages=MESSAGES, max_completion_tokens=12, temperature=0.8, seed=11, n=2,
               logprobs=True, top_logprobs=2)
    whole = client.chat.completions.create(**ask)
    assert whole.object == "chat.completion" and whole.model == MODEL
    assert len(whole.choices) == 2 and [c.index for c in whole.choices] == [0, 1]
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].message.content != whole.choices[1].message.content
    assert all(c.finish_reason in ("stop", "length") for c in whole.choices)
    assert whole.usage.completion_tokens == sum(len(c.logprobs.content) for c in whole.choices)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.system_fingerprint.startswith("isobit-")
    assert extra(whole, "seed") == 11
    for choice in whole.choices:
        for token in choice.logprobs.content:
            assert token.logprob <= 0 and len(token.top_logprobs) == 2
            assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob
            assert isinstance(token.bytes, list)
    again = client.chat.completions.create(**ask)
    assert extra(again, "digest") == extra(whole, "digest")
    assert [c.message.content for c in again.choices] == [c.message.content for c in whole.choices]

    texts, finished, usage, digest, tokens = ["", ""], {}, None, None, [[], []]
    for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk" and chunk.system_fingerprint == whole.system_fingerprint
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                finished[choice.index] = choice.finish_reason
            if choice.logprobs:
                tokens[choice.index] += choice.logprobs.content
        if chunk.usage:
            usage, digest = chunk.usage, extra(chunk, "digest")
    assert texts == [c.message.content for c in whole.choices]
    assert finished == {c.index: c.finish_reason for c in whole.choices}
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert digest == extra(whole, "digest")
    assert tokens == [c.logprobs.content for c in whole.choices]


def check_completions():
    ask = dict(model=MODEL, prompt="Once upon a time", max_tokens=10, temperature=0, logprobs=1, echo=True,
               extra_body={"ignore_eos": True, "return_token_ids": True, "top_k": 5, "min_p": 0.01})
    answer = client.completions.create(**ask)
    choice = answer.choices[0]
    assert choice.text.startswith("Once upon a time") and choice.finish_reason == "length"
    n = answer.usage.prompt_tokens + 10
    assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.top_logprobs) == n
    assert choice.logprobs.token_logprobs[0] is None
    assert extra(answer, "seed") is None  # greedy: nothing was drawn
    ids = choice.model_extra["prompt_token_ids"] + choice.model_extra["token_ids"]
    # Ids in, and no token to come: the same log-probabilities, exactly.
    scored = client.completions.create(model=MODEL, prompt=ids, max_tokens=0, logprobs=1, echo=True)
    assert scored.choices[0].logprobs.token_logprobs == choice.logprobs.token_logprobs

    several = client.completions.create(model=MODEL, prompt=["one", "two"], n=2, max_tokens=4, logit_bias={"65": -100},
                                        stop=["\n"], presence_penalty=0.5, user="somebody")
    assert [c.index for c in several.choices] == [0, 1, 2, 3]
    seed = extra(several, "seed")
    repeated = client.completions.create(model=MODEL, prompt=["one", "two"], n=2, max_tokens=4, logit_bias={"65": -100},
                                         stop=["\n"], presence_penalty=0.5, seed=seed)
    assert extra(repeated, "digest") == extra(several, "digest")

    text = "".join(chunk.choices[0].text for chunk in client.completions.create(
        model=MODEL, prompt="Once", max_tokens=20, seed=3, stream=True))
    assert text == client.completions.create(model=MODEL, prompt="Once", max_tokens=20, seed=3).choices[0].text


def check_errors():
    for kind, ask in [
        (openai.BadRequestError, dict(model=MODEL, prompt="x", temperature=-1)),
        (openai.BadRequestError, dict(model=MODEL, prompt="x", extra_body={"no_such_thing": 1})),
        (openai.NotFoundError, dict(model="another", prompt="x")),
    ]:
        try:
            client.completions.create(**ask)
        except kind as error:
            assert error.body["message"] and error.body["type"] == "invalid_request_error", error.body
        else:
            raise AssertionError(f"{ask} was not refused")
    try:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, response_format={"type": "json_object"})
    except openai.BadRequestError as error:
        assert "response_format" in error.body["message"]
    else:
        raise AssertionError("response_format was not refused")


async def check_together():
    """Twenty at once are what they are one by one."""
    asks = [dict(model=MODEL, prompt=f"number {i}", max_tokens=8, seed=i) for i in range(20)]
    alone = [extra(client.completions.create(**ask), "digest") for ask in asks]
    async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0) as together:
        answers = await asyncio.gather(*(together.completions.create(**ask) for ask in asks))
    assert [extra(answer, "digest") for answer in answers] == alone


check_chat()
check_completions()
check_errors()
asyncio.run(check_together())
print("all is well")
