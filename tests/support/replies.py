"""An engine that answers with prepared replies, token for token, faults included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from support.web import LoopbackServer


@dataclass(frozen=True)
class Reply:
    """What one /generate call gets.

    `status` other than 200: that error; `raw`: these bytes instead of a reply; `hang_up`: the
    connection is closed without an answer.
    """

    ids: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    finish: str = "stop"
    matched: int | str | None = None
    version: str | None = None
    status: int = 200
    raw: bytes | None = None
    hang_up: bool = False

    def body(self) -> dict[str, Any]:
        triples = [[p, i, None] for p, i in zip(self.log_probs, self.ids, strict=True)]
        meta: dict[str, Any] = {
            "finish_reason": {"type": self.finish, "matched": self.matched},
            "completion_tokens": len(self.ids),
            "output_token_logprobs": triples,
        }
        if self.version is not None:
            meta["weight_version"] = self.version
        return {"text": "", "meta_info": meta}


class ReplyEngine(LoopbackServer):
    """Gives `replies` one after the other, and remembers the bodies of the requests."""

    def __init__(self, replies: Sequence[Reply] = ()) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        super().__init__({"/generate": self._generate})

    @property
    def inputs(self) -> list[list[int]]:
        return [request["input_ids"] for request in self.requests]

    async def _generate(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        reply = self.replies.pop(0)
        if reply.hang_up:
            assert request.transport is not None
            request.transport.close()
        if reply.status != 200:
            return web.Response(status=reply.status, text="prepared fault")
        if reply.raw is not None:
            return web.Response(body=reply.raw, content_type="application/json")
        return web.json_response(reply.body())


def number_tokenizer(size: int = 100) -> Any:
    """Token n is the word "n"; messages are rendered bare, with no token around them."""
    core = Tokenizer(models.WordLevel({str(n): n for n in range(size)}, unk_token="0"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=core)
    shown = "{{ message['content'] + ' ' }}"
    fast.chat_template = f"{{% for message in messages %}}{shown}{{% endfor %}}"
    return fast
