"""A model, and what one asks of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt

from isobit import _isobit, vllm_names
from isobit.outputs import RequestOutput
from isobit.progress import ProgressBar
from isobit.prompts import (
    Ids,
    Message,
    NativePrompt,
    Prompt,
    as_list,
    conversation,
    is_conversation,
    is_ids,
    native_ids,
    native_prompt,
    text_of,
)
from isobit.sampling_params import SCORING, SamplingParams, assign
from isobit.streaming import POLL_MS, AsyncTokenStream, LoopHubs, TokenStream


def _natives(params: SamplingParams | Sequence[SamplingParams] | None,
             count: int) -> list[_isobit.SamplingParams]:
    """One for all, or one for each."""
    if params is None or isinstance(params, SamplingParams):
        return [(params or SamplingParams())._native()] * count
    if not isinstance(params, Sequence) or not all(isinstance(p, SamplingParams) for p in params):
        raise TypeError(f"sampling_params must be SamplingParams or a list of them, got {params!r}")
    if len(params) != count:
        raise ValueError(f"{count} prompts, but {len(params)} sampling_params")
    return [p._native() for p in params]


class LLM:
    """A model in memory. Thread-safe: any number of threads and event loops may share one.

    The same request gives the same bits, whatever else runs: `RequestOutput.digest` says so."""

    def __init__(self, model: str | os.PathLike[str], *, device: str = "auto", threads: int = 0,
                 max_model_len: int | None = None, max_num_seqs: int | None = None,
                 max_num_batched_tokens: int | None = None, block_size: int = 32,
                 kv_cache_tokens: int | None = None, enable_prefix_caching: bool = True,
                 seed: int | None = None, **vllm: Any):
        """`model`: a GGUF file or a Hugging Face folder. `device`: auto, cpu, cuda or reference.
        None and 0: chosen by model and memory. No bit depends on any of these but `seed`, that of
        requests without one. Other arguments of vLLM are taken if they ask for what is done anyway,
        and else refused by name."""
        vllm_names.refuse("LLM", vllm, vllm_names.ENGINE)
        params = _isobit.EngineParams()
        for name, value in (
                ("device", device), ("threads", threads), ("max_model_len", max_model_len or 0),
                ("max_num_seqs", max_num_seqs or 0),
                ("max_num_batched_tokens", max_num_batched_tokens or 0), ("block_size", block_size),
                ("kv_cache_tokens", kv_cache_tokens or 0), ("prefix_cache", enable_prefix_caching),
                ("seed", seed)):
            assign(params, name, value)
        self._engine = _isobit.Engine(os.fspath(model), params)
        self._hubs = LoopHubs()
        self._request_numbers = itertools.count()

    # ---- Completions

    def generate(self, prompts: Prompt | Sequence[Prompt],
                 sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
                 use_tqdm: bool = True, receipts: bool = False, **vllm: Any) -> list[RequestOutput]:
        """Completions of all prompts together, in their order.

        A prompt is a text, a list of token ids, or {"prompt": text}, {"prompt_token_ids": ids} or
        {"messages": ...}. `sampling_params`: one for all, or one for each. `use_tqdm`: a progress
        bar on terminals."""
        vllm_names.refuse("generate", vllm, vllm_names.REQUEST)
        listed = as_list(prompts)
        return self._run([native_prompt(p) for p in listed], [text_of(p) for p in listed],
                         sampling_params, use_tqdm, receipts)

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]],
             sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
             use_tqdm: bool = True, *, tools: Sequence[Mapping[str, Any]] | None = None,
             chat_template_kwargs: Mapping[str, Any] | None = None, receipts: bool = False,
             **vllm: Any) -> list[RequestOutput]:
        """Answers to one conversation, or to a list of them, by the model's chat template.

        `tools` and `chat_template_kwargs` are what the template is given besides; tool calls stand
        in the text as the model writes them."""
        vllm_names.refuse("chat", vllm, vllm_names.REQUEST)
        conversations = [messages] if is_conversation(messages) else list(messages)
        natives = [conversation(cast(Sequence[Message], c), tools, chat_template_kwargs)
                   for c in conversations]
        return self._run(natives, [None] * len(natives), sampling_params, use_tqdm, receipts)

    def stream(self, prompt: Prompt | Sequence[Message],
               sampling_params: SamplingParams | None = None, *,
               receipt: bool = False) -> TokenStream:
        """Submits one request and gives its tokens as they are drawn: `for token in stream`."""
        native, text = self._one(prompt)
        wakeups = _isobit.Wakeups()
        request_id = self._next_id()
        stream = self._engine.submit(request_id, native, _natives(sampling_params, 1)[0],
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
        stream = self._engine.submit(request_id, native, _natives(sampling_params, 1)[0],
                                     receipt, hub.wakeups, key, True)
        return AsyncTokenStream(stream, news, request_id, text)

    async def generate_async(self, prompt: Prompt | Sequence[Message],
                             sampling_params: SamplingParams | None = None, *,
                             receipt: bool = False) -> RequestOutput:
        """One completion, awaited. Cancelling the task cancels the request."""
        return await self.stream_async(prompt, sampling_params, receipt=receipt).result()

    # ---- Proof

    @overload
    def score(self, token_ids: Ids, *, use_tqdm: bool = False) -> npt.NDArray[np.float32]: ...
    @overload
    def score(self, token_ids: Sequence[Ids], *, use_tqdm: bool = False
              ) -> list[npt.NDArray[np.float32]]: ...
    def score(self, token_ids: Ids | Sequence[Ids], *, use_tqdm: bool = False
              ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """Log-probabilities (fp32) of tokens 1, 2, ... given all before them, in one prefill.

        Exactly what generating these tokens gave. A list of sequences gives a list of arrays."""
        one = is_ids(token_ids)
        sequences = [token_ids] if one else list(token_ids)
        outputs = self._run([native_prompt(cast(Ids, s)) for s in sequences],
                            [None] * len(sequences), SCORING, use_tqdm, False)
        arrays = [cast(npt.NDArray[np.float32], o.prompt_token_logprobs) for o in outputs]
        return arrays[0] if one else arrays

    def replay(self, receipt: str) -> None:
        """Runs a recorded request again. DifferentBitsError names the first difference."""
        self._engine.replay(receipt)

    # ---- Text

    def tokenize(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._engine.tokenize(text, add_special_tokens)

    def detokenize(self, token_ids: Ids, *, skip_special_tokens: bool = True) -> str:
        return self._engine.detokenize(native_ids("token_ids", token_ids), skip_special_tokens)

    def apply_chat_template(self, messages: Sequence[Message], *,
                            tools: Sequence[Mapping[str, Any]] | None = None,
                            chat_template_kwargs: Mapping[str, Any] | None = None,
                            add_generation_prompt: bool = True) -> str:
        """The prompt text of a conversation; it holds its BOS as text if the model wants one, so
        tokenize it with add_special_tokens=False."""
        return self._engine.apply_chat_template(
            conversation(messages, tools, chat_template_kwargs), add_generation_prompt)

    # ---- The model

    def update_weights(self, model: str | os.PathLike[str]) -> None:
        """Has other weights of the same shape, with the same tokenizer, serve what is submitted from
        now on. Requests under way finish on the old ones, which the call waits for; no cache
        survives. If the file can't be used, the old weights stay."""
        self._engine.update_weights(os.fspath(model))

    @property
    def model_digest(self) -> str:
        """Of weights, configuration and tokenizer."""
        return cast(str, self._engine.info()["model_digest"])

    def info(self) -> dict[str, Any]:
        """Sizes and limits as they were chosen."""
        return self._engine.info()

    def stats(self) -> dict[str, int]:
        """Counts since the weights were loaded; they depend on the schedule."""
        return self._engine.stats()

    # ----

    def _next_id(self) -> str:
        return str(next(self._request_numbers))

    def _one(self, prompt: Prompt | Sequence[Message]) -> tuple[NativePrompt, str | None]:
        if is_conversation(prompt):
            return conversation(cast(Sequence[Message], prompt)), None
        return native_prompt(cast(Prompt, prompt)), text_of(prompt)

    def _run(self, prompts: Sequence[NativePrompt], texts: Sequence[str | None],
             sampling_params: SamplingParams | Sequence[SamplingParams] | None, use_tqdm: bool,
             receipts: bool) -> list[RequestOutput]:
        natives = _natives(sampling_params, len(prompts))
        wakeups = _isobit.Wakeups()
        ids = [self._next_id() for _ in prompts]
        streams: list[_isobit.Stream] = []
        outputs: dict[int, RequestOutput] = {}
        try:
            for i, prompt in enumerate(prompts):
                streams.append(
                    self._engine.submit(ids[i], prompt, natives[i], receipts, wakeups, i, False))
            with ProgressBar(len(prompts), use_tqdm) as bar:
                while len(outputs) < len(prompts):
                    for i in wakeups.wait(POLL_MS):
                        outputs[i] = RequestOutput(streams[i].result(), ids[i], texts[i])
                    bar.update(len(outputs), f"{len(outputs)} of {len(prompts)} requests")
        except BaseException:  # Ctrl-C for one
            for stream in streams:  # all at once: losing a stream waits for its end
                stream.cancel()
            raise
        return [outputs[i] for i in range(len(prompts))]
