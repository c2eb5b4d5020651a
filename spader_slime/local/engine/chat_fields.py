"""The fields of a chat request other than its messages, checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import orjson

from spader_slime.local.engine.params import RequestError

MAX_TOP_LOGPROBS = 20
PARAMS = {
    name: name
    for name in (
        *("temperature", "top_p", "top_k", "min_p", "stop", "stop_token_ids", "ignore_eos"),
        *("skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "n"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    )
}
PARAMS |= {  # vLLM's and OpenAI's names of SGLang's parameters; of two, the later one counts
    "include_stop_str_in_output": "no_stop_trim",
    "seed": "sampling_seed",
    "min_tokens": "min_new_tokens",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
}
_FLAGS = ("stream", "logprobs", "continue_final_message")
_OTHERS = {"model", "messages", "rid", "top_logprobs", "chat_template_kwargs", "response_format"}
_IGNORED = {
    *("add_generation_prompt", "metadata", "parallel_tool_calls", "priority", "routing_key"),
    *("separate_reasoning", "service_tier", "store", "stream_options", "tool_choice", "user"),
}
UNSUPPORTED = "this engine does not support"


def check_names(body: Mapping[str, Any]) -> None:
    """Raises `RequestError` where a field is unknown or asks for what this engine has not."""
    known = {*PARAMS, *_FLAGS, *_OTHERS, *_IGNORED}
    for name, value in body.items():
        if name not in known and value not in (None, False, [], {}):
            raise RequestError(f"{UNSUPPORTED} the field '{name}'")
    for name in _FLAGS:
        if not isinstance(body.get(name), bool | None):
            raise RequestError(f"'{name}' must be true or false")
    if body.get("stream"):
        raise RequestError(f"{UNSUPPORTED} streaming: leave out 'stream' or send false")
    if body.get("response_format") not in (None, {"type": "text"}):
        raise RequestError(f"{UNSUPPORTED} any 'response_format' but text")


def best_tokens(body: Mapping[str, Any]) -> int | None:
    """So many best tokens are listed at each position; None: no log-probs at all.

    Raises:
        RequestError: no such number, or no log-probs asked for.
    """
    top = body.get("top_logprobs")
    if top is not None and (type(top) is not int or not 0 <= top <= MAX_TOP_LOGPROBS):
        raise RequestError(f"'top_logprobs' must be an integer from 0 to {MAX_TOP_LOGPROBS}")
    if top and not body.get("logprobs"):
        raise RequestError("'top_logprobs' needs 'logprobs': true")
    return (top or 0) if body.get("logprobs") else None


def template_kwargs(body: Mapping[str, Any], tokenizer: Any) -> bytes:
    """The template's own variables, as JSON; the template itself is not the client's to choose.

    Raises:
        RequestError: no object, or an argument of `apply_chat_template`.
    """
    kwargs = body.get("chat_template_kwargs") or {}
    if not isinstance(kwargs, dict):
        raise RequestError("'chat_template_kwargs' must be an object")
    if tokenizer is None:
        raise RequestError("the model has no tokenizer: messages can't be rendered")
    taken = set(inspect.signature(tokenizer.apply_chat_template).parameters)
    if reserved := sorted(taken & kwargs.keys()):
        raise RequestError(f"'chat_template_kwargs' may not set '{reserved[0]}'")
    return orjson.dumps(kwargs, option=orjson.OPT_SORT_KEYS)


def sampling_params(body: Mapping[str, Any], room: int) -> dict[str, Any]:
    """SGLang's sampling parameters; without a limit of one's own, `room` new tokens."""
    named = {PARAMS[name]: body[name] for name in PARAMS if body.get(name) is not None}
    return named if room < 0 else {"max_new_tokens": room} | named
