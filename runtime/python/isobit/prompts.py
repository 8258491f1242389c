"""What a model is asked: the forms of prompts, and how they go to the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Union

import numpy as np
import numpy.typing as npt

from isobit import _isobit

Message = Mapping[str, Any]
"""role and content, and what chat templates know besides: tool_calls, tool_call_id, name ..."""


class TextPrompt(TypedDict):
    prompt: str


class TokensPrompt(TypedDict):
    prompt_token_ids: Sequence[int]


class _Messages(TypedDict):
    messages: Sequence[Message]


class ChatPrompt(_Messages, total=False):
    """A conversation, as a line of `isobit batch` has it."""

    tools: Sequence[Mapping[str, Any]] | None
    chat_template_kwargs: Mapping[str, Any] | None


Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
Prompt = Union[str, Ids, TextPrompt, TokensPrompt, ChatPrompt]
NativePrompt = Union[str, list[int], _isobit.Conversation]

# A prompt that is a dict has one of FORMS; with messages also any of OF_CHATS.
FORMS = ("prompt", "prompt_token_ids", "messages")
OF_CHATS = ("tools", "chat_template_kwargs")


def is_ids(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and np.issubdtype(value.dtype, np.integer)
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and all(
        isinstance(i, (int, np.integer)) for i in value)


def is_conversation(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], Mapping) and (
        "role" in value[0])


def as_list(prompts: Prompt | Sequence[Prompt]) -> list[Any]:
    """One prompt as a list of one."""
    if isinstance(prompts, (str, Mapping)) or (len(prompts) > 0 and is_ids(prompts)):
        return [prompts]
    return list(prompts)


def _json(name: str, value: Any) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be JSON: {error}") from None


def _plain(value: Any) -> Any:
    """Read-only mappings and sequences, numpy's numbers."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)):
        return list(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not")


def conversation(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None,
                 chat_template_kwargs: Mapping[str, Any] | None = None) -> _isobit.Conversation:
    if not is_conversation(messages):
        raise TypeError(f"messages is a list of at least one dict with a role, got {messages!r}")
    return _isobit.Conversation(_json("messages", messages), _json("tools", tools),
                                _json("chat_template_kwargs", chat_template_kwargs))


def native_ids(name: str, ids: Ids) -> list[int]:
    listed = [int(i) for i in ids]
    for i, value in enumerate(listed):
        if not 0 <= value < 2**31:
            raise ValueError(f"{name}[{i}] must be in [0, 2147483648), got {value}")
    return listed


def native_prompt(prompt: Prompt) -> NativePrompt:
    if isinstance(prompt, str):
        prompt.encode()  # raises for half a surrogate pair, and says where it is
        return prompt
    if isinstance(prompt, Mapping):
        return _of_dict(prompt)
    if is_ids(prompt):
        return native_ids("prompt_token_ids", prompt)
    raise TypeError(f"a prompt is a text, token ids or a dict of one of them, got {prompt!r}")


def _of_dict(prompt: Mapping[str, Any]) -> NativePrompt:
    names = frozenset(prompt)
    if names.difference(OF_CHATS) == {"messages"}:
        return conversation(**prompt)
    if len(names) != 1 or not names.issubset(FORMS):
        raise ValueError("a prompt has prompt, prompt_token_ids, or messages with tools and "
                         f"chat_template_kwargs, got {sorted(names)}")
    return native_prompt(next(iter(prompt.values())))


def text_of(prompt: Any) -> str | None:
    """The text that a prompt is given as."""
    if isinstance(prompt, Mapping):
        prompt = prompt.get("prompt")
    return prompt if isinstance(prompt, str) else None
