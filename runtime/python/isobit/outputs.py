"""Completions. The classes and fields of vLLM's outputs, and besides them arrays and digests."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from isobit import _isobit

_REASONS = ("stop", "length", "cancelled")


@dataclasses.dataclass(frozen=True)
class Logprob:
    """One log-probability. `rank` is known for tokens among the most likely that were asked for."""

    logprob: float
    rank: int | None = None


def _position(token_id: int, logprob: float, top: list[tuple[int, float]]) -> dict[int, Logprob]:
    position = {token_id: Logprob(logprob)}
    for rank, (token, value) in enumerate(top, start=1):
        position[token] = Logprob(value, rank)
    return position


class CompletionOutput:
    """One choice of a request."""

    def __init__(self, native: _isobit.Completion, index: int):
        self._native = native
        self.index = index
        self.text: str = native.text(index)
        self.token_ids: list[int] = native.token_ids(index)
        self.finish_reason: str = _REASONS[native.finish_reason(index)]
        self.digest: str = native.choice_digest(index)
        self.token_logprobs: npt.NDArray[np.float32] | None = (
            native.logprobs(index) if native.has_logprobs(index) else None)
        """fp32, one a token, if log-probabilities were asked for. DLPack: np, torch, jax ..."""

    @property
    def logprobs(self) -> list[dict[int, Logprob]] | None:
        """For each token, it and the most likely ones, as vLLM gives them."""
        if self.token_logprobs is None:
            return None
        values = self.token_logprobs.tolist()
        return [
            _position(token, values[i], self._native.top_logprobs(self.index, i))
            for i, token in enumerate(self.token_ids)
        ]

    @property
    def cumulative_logprob(self) -> float | None:
        """Sum of the log-probabilities, correctly rounded: no order matters."""
        return None if self.token_logprobs is None else math.fsum(self.token_logprobs.tolist())

    def __repr__(self) -> str:
        return (f"CompletionOutput(index={self.index}, text={self.text!r}, "
                f"token_ids={self.token_ids}, finish_reason={self.finish_reason!r}, "
                f"digest={self.digest!r})")


class RequestOutput:
    """All choices of a request. `digest` covers them: equal digests, equal bits."""

    finished = True

    def __init__(self, native: _isobit.Completion, request_id: str, prompt: str | None):
        self._native = native
        self.request_id = request_id
        self.prompt = prompt
        self.prompt_token_ids: list[int] = native.prompt_token_ids()
        self.prompt_token_logprobs: npt.NDArray[np.float32] | None = (
            native.prompt_logprobs() if native.has_prompt_logprobs else None)
        """fp32, of prompt tokens 1, 2, ...: the first has none."""
        self.outputs = [CompletionOutput(native, i) for i in range(native.choices)]
        self.digest: str = native.digest
        self.model_digest: str = native.model_digest
        self.seed: int | None = native.seed
        """The one that was used; None if greedy."""
        self.num_cached_tokens: int = native.cached_tokens
        self.receipt: str | None = None
        """What `LLM.replay` and `isobit replay` take, if asked for. None if cancelled."""
        if native.has_receipt and all(o.finish_reason != "cancelled" for o in self.outputs):
            self.receipt = native.receipt()

    @property
    def prompt_logprobs(self) -> list[dict[int, Logprob] | None] | None:
        """For each prompt token, it and the most likely ones; None for the first."""
        if self.prompt_token_logprobs is None:
            return None
        values = self.prompt_token_logprobs.tolist()
        rest = self.prompt_token_ids[1:]
        return [None] + [
            _position(token, values[i], self._native.prompt_top_logprobs(i + 1))
            for i, token in enumerate(rest)
        ]

    def to_json(self) -> str:
        """The line that `isobit batch` would have written."""
        return self._native.json()

    def to_dict(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self.to_json()))

    def __repr__(self) -> str:
        return (f"RequestOutput(request_id={self.request_id!r}, prompt={self.prompt!r}, "
                f"outputs={self.outputs}, digest={self.digest!r})")
