"""What a chat endpoint answers, and the tokens of a turn that it stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from spader_slime.agent.http import HttpFault
from spader_slime.agent.template import ChatBoundary

FINISHES = ("stop", "length", "abort")
_CLOSING_TAG = re.compile(r"</(\w+)>")


@dataclass(frozen=True)
class Reply:
    """One choice as the endpoint words it.

    Attributes:
        text: content of the message.
        reasoning: what a reasoning parser of the endpoint took out of the text.
        finish: one of `FINISHES`.
        matched: the stop token or stop string, where the endpoint names one.
        names_stops: it would have named a stop string.
        weight_version: the weights that sampled, as SGLang names them.
        usage: tokens, as the endpoint counts them.
    """

    text: str
    reasoning: str
    finish: str
    matched: int | str | None
    names_stops: bool
    weight_version: str | None
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """A turn, or the part of one, in the tokenizer's spelling.

    Attributes:
        text: without an end-of-turn token.
        ids: with one if it was sampled.
        matched: the stop token or stop string that ended it.
    """

    text: str
    ids: list[int]
    matched: int | str | None


def read_reply(body: bytes) -> Reply:
    """The first choice of a reply.

    Raises:
        HttpFault: it can't be read ("malformed"; trying again may help), or the endpoint does what
            the loop can't work with: it filters, or reads tool calls itself.
    """
    try:
        reply = orjson.loads(body)
        choice = reply["choices"][0]
        message, finish = choice["message"], choice["finish_reason"]
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        matched = choice.get("matched_stop")
        read = Reply(
            text=_text(message["content"]),
            reasoning=_text(reasoning),
            finish=finish,
            matched=choice.get("stop_reason") if matched is None else matched,
            names_stops=not choice.keys().isdisjoint(("matched_stop", "stop_reason")),
            weight_version=_version(reply.get("metadata")),
            usage=reply.get("usage") or {},
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise HttpFault("malformed", f"the reply can't be read: {error!r}", True) from error
    _check(read, message.get("tool_calls"))
    return read


def _text(value: Any) -> str:
    if not isinstance(value, str | None):
        raise TypeError(f"{value!r:.40} is no text")
    return value or ""


def _version(metadata: Any) -> str | None:
    version = (metadata or {}).get("weight_version")
    return None if version is None else str(version)


def _check(reply: Reply, tool_calls: Any) -> None:
    if tool_calls or reply.finish == "tool_calls":
        message = "the endpoint reads tool calls itself: start it without a tool-call parser"
        raise HttpFault("malformed", message, False)
    if reply.finish not in FINISHES:
        raise HttpFault("malformed", f"finish_reason {reply.finish!r:.40}", False)
    if type(reply.matched) not in (int, str, type(None)):
        raise HttpFault("malformed", f"a stop of {reply.matched!r:.40}", False)


def read_turn(
    reply: Reply, boundary: ChatBoundary, stops: Sequence[str], opened: bool = False
) -> Turn:
    """The tokens that `reply` stands for.

    A stop string that the endpoint cut off is put back, and a stop token. Where an endpoint names
    no stops at all, the closing tag of what is still open is taken for the one that was cut off.

    Args:
        stops: the stop strings that were asked for.
        opened: the generation prompt has opened the thinking.
    """
    text = _with_reasoning(reply, "" if opened else "<think>")
    if reply.finish != "stop":
        return Turn(text, boundary.encode(text), None)
    stop = _stop_string(reply, text, stops)
    if stop is not None:
        text = text if stop in text else text + stop
        return Turn(text, boundary.encode(text), stop)
    return _ended(text, reply.matched, boundary)


def _with_reasoning(reply: Reply, opening: str) -> str:
    if not reply.reasoning:
        return reply.text
    closing = "</think>" if reply.text or reply.finish == "stop" else ""
    return f"{opening}{reply.reasoning}{closing}{reply.text}"


def _stop_string(reply: Reply, text: str, stops: Sequence[str]) -> str | None:
    if isinstance(reply.matched, str):
        return reply.matched
    if reply.matched is not None:
        return None
    found = next((stop for stop in stops if stop in text), None)
    return found if found or reply.names_stops else _left_open(text, stops)


def _left_open(text: str, stops: Sequence[str]) -> str | None:
    """Of the stop strings that are closing tags, the one whose tag was opened last and is open."""
    tags = [(stop, f"<{tag[1]}>") for stop in stops if (tag := _CLOSING_TAG.fullmatch(stop))]
    places = [(text.rfind(opening), stop) for stop, opening in tags if opening in text]
    return max(places)[1] if places else None


def _ended(text: str, matched: int | str | None, boundary: ChatBoundary) -> Turn:
    """A turn that a token ended, whether or not the endpoint shows it in the text."""
    if isinstance(matched, int):
        boundary.learn_stop(matched)
    tokens = [matched] if isinstance(matched, int) else boundary.stop_token_ids
    shown = [(boundary.decode([token]), token) for token in tokens]
    seen = [(piece, token) for piece, token in shown if piece and text.endswith(piece)]
    piece, end = seen[0] if seen else ("", tokens[0] if tokens else None)
    text = text.removesuffix(piece)
    ids = boundary.encode(text) + ([] if end is None else [end])
    if end is None or boundary.closes(end):
        return Turn(text, ids, end)
    return Turn(text + boundary.decode([end]), ids, end)  # a tag of its own: part of the text
