"""Names that vLLM has and isobit has not.

A program that comes from there keeps the arguments that ask for what isobit does anyway. Whatever
asks for something else is refused by name; nothing is ignored that would change an answer, a
placement or a limit. (vLLM's LLM, EngineArgs and SamplingParams, as of 2026.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANY = object()
"""Changes nothing here, whatever it is."""

ENGINE: Mapping[str, Any] = {
    "tokenizer": (None,), "tokenizer_mode": ("auto",), "skip_tokenizer_init": (False,),
    "revision": (None,), "tokenizer_revision": (None,), "load_format": ("auto",),
    "trust_remote_code": ANY,  # no code of a model is run
    "tensor_parallel_size": (1,), "pipeline_parallel_size": (1,), "data_parallel_size": (1,),
    "dtype": ("auto", "bfloat16"), "kv_cache_dtype": ("auto", "bfloat16"), "quantization": (None,),
    "enforce_eager": ANY,  # graph or not: the same bits
    "async_scheduling": ANY,  # steps issued ahead or not: the same bits
    "enable_chunked_prefill": ANY,  # in chunks or not: the same bits
    "cpu_offload_gb": (0,), "disable_log_stats": ANY, "enable_lora": (False,),
    "speculative_config": (None,), "hf_overrides": (None, {}), "logprobs_mode": ("raw_logprobs",),
    "runner": ("auto", "generate"), "task": ("auto", "generate"),
}
_INSTEAD = {
    "gpu_memory_utilization": "kv_cache_tokens bounds the memory of the KV cache",
    "swap_space": "what does not fit is computed again",
    "logprobs_mode": "SamplingParams has it, for each request",
}

REQUEST: Mapping[str, Any] = {
    "lora_request": (None,), "priority": (None, 0), "chat_template": (None,),
    "chat_template_content_format": ("auto",), "add_generation_prompt": (True,),
    "continue_final_message": (False,), "tokenization_kwargs": (None, {}),
    "mm_processor_kwargs": (None, {}),
}
SAMPLING: Mapping[str, Any] = {
    "detokenize": (True,), "skip_special_tokens": (True,),
    "spaces_between_special_tokens": ANY,  # there are none in the text
    "include_stop_str_in_output": (False,), "structured_outputs": (None,),
    "allowed_token_ids": (None, []), "bad_words": (None, []), "extra_args": (None, {}),
}


def refuse(where: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raises for the first argument that asks for what is not there."""
    for name, value in given.items():
        allowed = known.get(name)
        if allowed is ANY:
            continue
        hint = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        if allowed is None:
            raise TypeError(f"{where} has no argument {name!r}{hint}")
        if value not in allowed:
            values = " or ".join(repr(v) for v in allowed)
            raise ValueError(f"{name} must be {values}, got {value!r}{hint}")
