"""A model, and what one asks of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Union

import numpy as np
import numpy.typing as npt

from isobit import _isobit
from isobit.outputs import RequestOutput
from isobit.progress import ProgressBar
from isobit.sampling_params import SamplingParams
from isobit.streaming import AsyncTokenStream, LoopHubs, TokenStream


class TextPrompt(TypedDict):
    prompt: str


class TokensPrompt(TypedDict):
    prompt_token_ids: Sequence[int]


class Message(TypedDict):
    role: str
    content: str


Prompt = Union[str, Sequence[int], TextPrompt, TokensPrompt]
_NativePrompt = Union[str, list[int], list[tuple[str, str]]]
_POLL_MS = 100  # how long Ctrl-C may take


def _is_ids(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(
        isinstance(i, (int, np.integer)) for i in value)


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    if isinstance(prompts, np.ndarray):
        return [prompts.tolist()]
    if len(prompts) > 0 and _is_ids(prompts):
        return [prompts]
    return list(prompts)


def _native_prompt(prompt: Prompt) -> _NativePrompt:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Mapping):
        known = {"prompt", "prompt_token_ids"}
        if unknown := set(prompt) - known:
            raise ValueError(f"a prompt has prompt or prompt_token_ids, got {sorted(unknown)}")
        if len(prompt) != 1:
            raise ValueError("a prompt has one of prompt and prompt_token_ids")
        return _native_prompt(next(iter(prompt.values())))
    if isinstance(prompt, np.ndarray):
        return prompt.tolist()
    if _is_ids(prompt):
        return [int(i) for i in prompt]
    raise TypeError(f"a prompt is a text, token ids or a dict of one of them, got {prompt!r}")


def _native_messages(messages: Sequence[Message]) -> list[tuple[str, str]]:
    for message in messages:
        if set(message) != {"role", "content"}:
            raise ValueError(f"a message has role and content, got {sorted(message)}")
    return [(message["role"], message["content"]) for message in messages]


class LLM:
    """A model in memory. Thread-safe: any number of threads and event loops may share one.

    The same request gives the same bits, whatever else runs: `RequestOutput.digest` says so."""

    def __init__(self, model: str | os.PathLike[str], *, device: str = "auto", threads: int = 0,
                 max_model_len: int | None = None, max_num_seqs: int | None = None,
                 max_num_batched_tokens: int | None = None, block_size: int = 32,
                 kv_cache_tokens: int | None = None, enable_prefix_caching: bool = True,
                 seed: int | None = None):
        """`model`: a model file. `device`: auto, cpu, cuda or reference. None and 0: chosen by
        model and memory. No bit depends on any of these but `seed`, that of requests without one."""
        params = _isobit.EngineParams()
        params.device = device
        params.threads = threads
        params.max_model_len = max_model_len or 0
        params.max_num_seqs = max_num_seqs or 0
        params.max_num_batched_tokens = max_num_batched_tokens or 0
        params.block_size = block_size
        params.kv_cache_tokens = kv_cache_tokens or 0
        params.prefix_cache = enable_prefix_caching
        params.seed = seed
        self._engine = _isobit.Engine(os.fspath(model), params)
        self._hubs = LoopHubs()
        self._request_numbers = itertools.count()

    # ---- Completions

    def generate(self, prompts: Prompt | Sequence[Prompt],
                 sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
                 use_tqdm: bool = True, receipts: bool = False) -> list[RequestOutput]:
        """Completions of all prompts together, in their order.

        A prompt is a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}.
        `sampling_params`: one for all, or one for each. `use_tqdm`: a progress bar on terminals."""
        listed = _as_list(prompts)
        texts = [p if isinstance(p, str) else
                 p.get("prompt") if isinstance(p, Mapping) else None for p in listed]
        return self._run([_native_prompt(p) for p in listed], texts, sampling_params, use_tqdm,
                         receipts)

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]],
             sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
             use_tqdm: bool = True, receipts: bool = False) -> list[RequestOutput]:
        """Answers to one conversation, or to a list of them, by the model's chat template."""
        one = len(messages) > 0 and isinstance(messages[0], Mapping)
        conversations = [messages] if one else list(messages)
        return self._run([_native_messages(c) for c in conversations], [None] * len(conversations),
                         sampling_params, use_tqdm, receipts)

    def stream(self, prompt: Prompt | Sequence[Message],
               sampling_params: SamplingParams | None = None, *,
               receipt: bool = False) -> TokenStream:
        """Submits one request and gives its tokens as they are drawn: `for token in stream`."""
        native, text = self._one(prompt)
        wakeups = _isobit.Wakeups()
        request_id = self._next_id()
        stream = self._engine.submit(request_id, native, (sampling_params or SamplingParams())._native(),
                                     receipt, wakeups, 0, True)
        return TokenStream(stream, wakeups, request_id, text)

    def stream_async(self, prompt: Prompt | Sequence[Message],
                     sampling_params: SamplingParams | None = None, *,
                     receipt: bool = False) -> AsyncTokenStream:
        """The same in an event loop: `async for token in stream`, `await stream.result()`."""
        native, text = self._one(prompt)
        hub = self._hubs.of_running_loop()
        request_id = self._next_id()
        key, news = hub.add()
        stream = self._engine.submit(request_id, native, (sampling_params or SamplingParams())._native(),
                                     receipt, hub.wakeups, key, True)
        return AsyncTokenStream(stream, news, request_id, text)

    async def generate_async(self, prompt: Prompt | Sequence[Message],
                             sampling_params: SamplingParams | None = None, *,
                             receipt: bool = False) -> RequestOutput:
        """One completion, awaited. Cancelling the task cancels the request."""
        return await self.stream_async(prompt, sampling_params, receipt=receipt).result()

    # ---- Proof

    def score(self, token_ids: Sequence[int] | Sequence[Sequence[int]], *, use_tqdm: bool = False
              ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """Log-probabilities (fp32) of tokens 1, 2, ... given all before them, in one prefill.

        Exactly what generating these tokens gave. A list of sequences gives a list of arrays."""
        several = not isinstance(token_ids, np.ndarray) and len(token_ids) > 0 and not _is_ids(token_ids)
        sequences = token_ids if several else [token_ids]
        params = SamplingParams(max_tokens=0, temperature=0, prompt_logprobs=0)
        outputs = self._run([_native_prompt(s) for s in sequences], [None] * len(sequences), params,
                            use_tqdm, False)
        arrays = [output.prompt_token_logprobs for output in outputs]
        return arrays if several else arrays[0]

    def replay(self, receipt: str) -> None:
        """Runs a recorded request again. DifferentBitsError names the first difference."""
        self._engine.replay(receipt)

    # ---- Text

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._engine.tokenize(text, add_special_tokens, True)

    def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return self._engine.detokenize([int(i) for i in token_ids], skip_special_tokens)

    def apply_chat_template(self, messages: Sequence[Message], *,
                            add_generation_prompt: bool = True) -> str:
        """The prompt text of a conversation; it holds its BOS as text if the model wants one."""
        return self._engine.apply_chat_template(_native_messages(messages), add_generation_prompt)

    # ---- The model

    def update_weights(self, model: str | os.PathLike[str]) -> None:
        """Has other weights serve what is submitted from now on. Requests under way finish on the
        old ones; no cache survives. If the file can't be used, the old weights stay."""
        self._engine.update_weights(os.fspath(model))

    @property
    def model_digest(self) -> str:
        """Of weights, configuration and tokenizer."""
        return self._engine.info()["model_digest"]

    def info(self) -> dict[str, Any]:
        """Sizes and limits as they were chosen."""
        return self._engine.info()

    def stats(self) -> dict[str, int]:
        """Counts since the weights were loaded; they depend on the schedule."""
        return self._engine.stats()

    # ----

    def _next_id(self) -> str:
        return str(next(self._request_numbers))

    def _one(self, prompt: Prompt | Sequence[Message]) -> tuple[_NativePrompt, str | None]:
        if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], Mapping):
            return _native_messages(prompt), None
        return _native_prompt(prompt), prompt if isinstance(prompt, str) else None

    def _run(self, prompts: list[_NativePrompt], texts: list[str | None],
             sampling_params: SamplingParams | Sequence[SamplingParams] | None, use_tqdm: bool,
             receipts: bool) -> list[RequestOutput]:
        if sampling_params is None or isinstance(sampling_params, SamplingParams):
            natives = [(sampling_params or SamplingParams())._native()] * len(prompts)
        else:
            natives = [p._native() for p in sampling_params]
            if len(natives) != len(prompts):
                raise ValueError(f"{len(prompts)} prompts, but {len(natives)} sampling_params")
        wakeups = _isobit.Wakeups()
        ids = [self._next_id() for _ in prompts]
        # An exception, Ctrl-C for one, loses the list, which cancels what still runs.
        streams = [
            self._engine.submit(ids[i], prompt, natives[i], receipts, wakeups, i, False)
            for i, prompt in enumerate(prompts)
        ]
        outputs: list[RequestOutput | None] = [None] * len(prompts)
        done = 0
        with ProgressBar(len(prompts), use_tqdm) as bar:
            while done < len(prompts):
                for i in wakeups.wait(_POLL_MS):
                    outputs[i] = RequestOutput(streams[i].result(), ids[i], texts[i])
                    done += 1
                bar.update(done, f"{done} of {len(prompts)} requests")
        return outputs  # type: ignore[return-value]
