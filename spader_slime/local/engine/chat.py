"""`/v1/chat/completions` and `/v1/models`: messages in, one message out, as OpenAI words them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from spader_slime.agent.template import ChatBoundary
from spader_slime.errors import ConfigError
from spader_slime.local.engine.chat_fields import (
    UNSUPPORTED,
    best_tokens,
    check_names,
    sampling_params,
    template_kwargs,
)
from spader_slime.local.engine.chat_messages import read_messages
from spader_slime.local.engine.info import Served
from spader_slime.local.engine.jobs import Result, Scored
from spader_slime.local.engine.params import RequestError
from spader_slime.local.engine.stops import output_text
from spader_slime.local.engine.wire import GenerateRequest, parse_generate


@dataclass(frozen=True)
class ChatRequest:
    """What is to be sampled, and what the reply repeats or adds.

    Attributes:
        model: the name it was asked by.
        log_probs: whether the reply lists log-probs.
    """

    sampled: GenerateRequest
    model: str
    log_probs: bool


class Chat:
    """Reads chat requests and words their replies."""

    def __init__(self, served: Served) -> None:
        self._limits, self._name = served.limits, str(served.model)
        self._boundary = lru_cache(8)(self._make_boundary)

    def parse(self, body: Mapping[str, Any]) -> ChatRequest:
        """The request in a body.

        Raises:
            RequestError: a field is unknown, malformed or unsupported, the messages can't be
                rendered, or the request can't fit.
        """
        check_names(body)
        model = body.get("model")
        if not isinstance(model, str | None):
            raise RequestError("'model' must be a string")
        top = best_tokens(body)
        ids = self._prompt(body)
        asked = {
            "input_ids": ids,
            "rid": body.get("rid"),
            "sampling_params": sampling_params(body, self._limits.context - len(ids) - 1),
            "return_logprob": top is not None,
            "top_logprobs_num": top or 0,
        }
        (request,), _ = parse_generate(asked, self._limits)
        return ChatRequest(request, model or self._name, top is not None)

    def reply(self, asked: ChatRequest, result: Result) -> dict[str, Any]:
        """The reply; `matched_stop` is SGLang's name of what ended the text, `stop_reason` vLLM's.

        A request that was aborted has the `finish_reason` "abort" and what there is.
        """
        tokenizer, params = self._limits.tokenizer, asked.sampled.params
        matched = result.reason.get("matched")
        choice = {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": output_text(tokenizer, result.ids, params, result.reason),
                "tool_calls": None,
            },
            "logprobs": {"content": self._log_probs(result)} if asked.log_probs else None,
            "finish_reason": result.reason["type"],
            "matched_stop": matched,
            "stop_reason": matched,
        }
        return {
            "id": asked.sampled.rid,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model,
            "choices": [choice],
            "usage": _usage(result),
            "metadata": {"weight_version": result.version},
        }

    def models(self) -> dict[str, Any]:
        """Reply of `/v1/models`: the one model, named by its folder."""
        known = {"object": "model", "created": int(time.time()), "owned_by": "spader_slime"}
        known |= {"id": self._name, "root": self._name, "max_model_len": self._limits.context}
        return {"object": "list", "data": [known]}

    def _prompt(self, body: Mapping[str, Any]) -> list[int]:
        """Ids of the rendered messages and the generation prompt.

        The message to be continued stands after the generation prompt, as SGLang puts it; thinking
        that both open is opened once.
        """
        messages = read_messages(body.get("messages"))
        begun = ""
        if body.get("continue_final_message"):
            if messages[-1]["role"] != "assistant":
                raise RequestError("'continue_final_message' needs an assistant message at the end")
            begun = messages.pop()["content"]
        elif body.get("add_generation_prompt") is False:
            raise RequestError(f"{UNSUPPORTED} 'add_generation_prompt': false alone")
        kwargs = template_kwargs(body, self._limits.tokenizer)
        try:
            boundary = self._boundary(kwargs)
            ids = boundary.prompt_ids(messages)
        except (ConfigError, TypeError, ValueError, AttributeError, KeyError) as error:
            raise RequestError(f"the messages can't be rendered: {error}") from error
        begun = begun.removeprefix(boundary.opening)
        return [*ids, *(boundary.encode(begun) if begun else ())]

    def _make_boundary(self, kwargs: bytes) -> ChatBoundary:
        return ChatBoundary(self._limits.tokenizer, orjson.loads(kwargs))

    def _log_probs(self, result: Result) -> list[dict[str, Any]]:
        top: list[Scored] = result.output.top or [[] for _ in result.ids]
        pairs = zip(result.log_probs, result.ids, strict=True)
        return [
            self._entry(log_prob, token) | {"top_logprobs": [self._entry(*best) for best in ranked]}
            for (log_prob, token), ranked in zip(pairs, top, strict=True)
        ]

    def _entry(self, log_prob: float, token: int) -> dict[str, Any]:
        text = str(self._limits.tokenizer.decode([token], skip_special_tokens=False))
        return {"token": text, "logprob": log_prob, "bytes": list(text.encode())}


def _usage(result: Result) -> dict[str, Any]:
    prompt, completion = len(result.request.input_ids), len(result.ids)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": result.cached},
    }
