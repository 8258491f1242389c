"""Sampling parameters, with the names, meanings and defaults of OpenAI's API and vLLM's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import InitVar
from typing import Any

from isobit import _isobit
from isobit.vllm_names import SAMPLING, refuse


def assign(native: Any, name: str, value: Any) -> None:
    """Sets a field of parameters, or says which one can't be set to what."""
    try:
        setattr(native, name, value)
    except TypeError:
        raise TypeError(f"{name} can't be {value!r}") from None


@dataclasses.dataclass
class SamplingParams:
    """How tokens are drawn. Ranges are checked when a request is submitted."""

    n: int = 1
    """Completions of the same prompt."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    """0: greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 or -1: off."""
    min_p: float = 0.0
    seed: int | None = None
    """None: one is drawn, used and returned."""
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int = 16
    """0 only scores the prompt."""
    min_tokens: int = 0
    logprobs: int | None = None
    """k: the log-probability of each token and of the k most likely."""
    prompt_logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    logprobs_mode: str = "raw"
    """"raw", or "processed": after penalties, temperature and filters."""

    # What vLLM has besides, in the order of SAMPLING: taken if it asks for what isobit does anyway.
    detokenize: InitVar[bool] = True
    skip_special_tokens: InitVar[bool] = True
    spaces_between_special_tokens: InitVar[bool] = True
    include_stop_str_in_output: InitVar[bool] = False
    structured_outputs: InitVar[Any] = None
    allowed_token_ids: InitVar[Sequence[int] | None] = None
    bad_words: InitVar[Sequence[str] | None] = None
    extra_args: InitVar[Mapping[str, Any] | None] = None

    def __post_init__(self, *others: Any) -> None:
        refuse("SamplingParams", dict(zip(SAMPLING, others, strict=True)), SAMPLING)

    def _native(self) -> _isobit.SamplingParams:
        if self.logprobs_mode not in ("raw", "processed"):
            raise ValueError(f'logprobs_mode must be "raw" or "processed", got {self.logprobs_mode!r}')
        native = _isobit.SamplingParams()
        for field in dataclasses.fields(self):
            if field.name not in ("stop", "stop_token_ids", "logit_bias", "logprobs_mode"):
                assign(native, field.name, getattr(self, field.name))
        if self.top_k == -1:
            native.top_k = 0
        native.stop = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        native.stop_token_ids = list(self.stop_token_ids or ())
        bias = {int(token): float(value) for token, value in (self.logit_bias or {}).items()}
        native.logit_bias = list(bias.items())
        native.processed_logprobs = self.logprobs_mode == "processed"
        return native


SCORING = SamplingParams(max_tokens=0, temperature=0, prompt_logprobs=0)
"""Draws nothing: the log-probability of each token of the prompt."""
