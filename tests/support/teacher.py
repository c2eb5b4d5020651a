"""A teacher with faults on demand, speaking SGLang's /generate as a scorer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from aiohttp import web

from support.web import LoopbackServer


def own_score(position: int, token: int) -> float:
    """Tells position and token; exact in float32."""
    return -(1 + position % 64) - (token % 64) / 64


def top_scores(position: int, top_k: int, vocab: int) -> list[list[Any]]:
    """Half, a quarter, an eighth.. of ids that tell the position."""
    return [[-(j + 1) * math.log(2), (position + 7 * j) % vocab, None] for j in range(top_k)]


def meta_of(ids: Sequence[int], start: int, top_k: int, vocab: int) -> dict[str, Any]:
    """The part of a reply that holds scores."""
    own = [[own_score(p, ids[p]), ids[p], None] for p in range(start, len(ids))]
    own[0][0] = None
    top = [top_scores(p, top_k, vocab) for p in range(start + 1, len(ids))]
    return {"input_token_logprobs": own, "input_top_logprobs": [None, *top]}


Spoil = Callable[[dict[str, Any]], None]


def _own(change: Callable[[list[Any]], Any]) -> Spoil:
    return lambda meta: change(meta["input_token_logprobs"]) and None


def _top(change: Callable[[list[Any]], Any]) -> Spoil:
    return lambda meta: change(meta["input_top_logprobs"]) and None


SPOILED: dict[str, tuple[str, Spoil]] = {  # fault -> (kind, what is done to the reply)
    "short": ("length", _own(list.pop)),
    "long": ("length", _own(lambda own: own.append(own[-1]))),
    "shifted": ("length", _own(lambda own: own.pop(0))),
    "top short": ("length", _top(list.pop)),
    "top long": ("length", _top(lambda top: top.append(top[-1]))),
    "top thin": ("length", _top(lambda top: top[-1].pop())),
    "null": ("not_finite", _own(lambda own: own[-1].__setitem__(0, None))),
    "overflow": ("not_finite", _own(lambda own: own[-1].__setitem__(0, -1e300))),
    "top null": ("not_finite", _top(lambda top: top.__setitem__(-1, None))),
    "top nan": ("not_finite", _top(lambda top: top[-1][0].__setitem__(0, None))),
    "past": ("vocabulary", _top(lambda top: top[-1][0].__setitem__(1, 10**6))),
    "negative": ("vocabulary", _top(lambda top: top[-1][0].__setitem__(1, -1))),
    "half id": ("malformed", _top(lambda top: top[-1][0].__setitem__(1, 1.5))),
    "other token": ("malformed", _own(lambda own: own[-1].__setitem__(1, own[-1][1] + 1))),
    "pairs": ("malformed", _top(lambda top: [triple.pop() for row in top[1:] for triple in row])),
    "no top": ("malformed", lambda meta: meta.pop("input_top_logprobs") and None),
    "aborted": ("status", lambda meta: meta.update(finish_reason={"type": "abort"})),
}
RAW = {  # fault -> kind
    "status": "status",
    "busy": "status",
    "refused": "status",
    "slow": "timeout",
    "drop": "connection",
    "broken off": "malformed",
    "garbage": "malformed",
    "list": "malformed",
    "nan": "not_finite",
    "huge": "oversized",
}
FAULTS = {name: kind for name, (kind, _) in SPOILED.items()} | RAW


class ScriptedTeacher(LoopbackServer):
    """Scores that tell their position; `fault(ids)` names a fault or "".

    Attributes:
        rows: of the model; its tokenizer may have fewer ids.
        entropy: whether it knows `return_entropy`.
        gone: connections are dropped.
        bodies: of all requests. asked: of those for top-k scores.
    """

    def __init__(self, tokenizer: Any, fault: Callable[[list[int]], str] = lambda ids: "") -> None:
        self.tokenizer, self.fault = tokenizer, fault
        self.rows = len(tokenizer)
        self.entropy = self.gone = False
        self.bodies: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.now = self.most = 0
        super().__init__({"/generate": self._generate})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        ids, scoring = body["input_ids"], "top_logprobs_num" in body
        self.bodies.append(body)
        if scoring:
            self.asked.append(body)
        if self.gone:
            return await self._drop(request)
        bias = body["sampling_params"].get("logit_bias") or {}
        if any(int(key) >= self.rows for key in bias) or max(ids) >= self.rows:
            return web.Response(
                status=400, text=f"logit_bias must has keys in [0, {self.rows - 1}]"
            )
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            return await self._answer(request, body, self.fault(ids) if scoring else "")
        finally:
            self.now -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], fault: str
    ) -> web.StreamResponse:
        if fault in RAW:
            return await getattr(self, "_" + fault.replace(" ", "_"))(request)
        meta = self._meta(body)
        if fault:
            SPOILED[fault][1](meta)
        reply = orjson.dumps({"text": "", "output_ids": [], "meta_info": meta})
        return web.Response(body=reply, content_type="application/json")

    def _meta(self, body: dict[str, Any]) -> dict[str, Any]:
        ids, start = body["input_ids"], body.get("logprob_start_len", len(body["input_ids"]) - 1)
        meta = meta_of(ids, start, body.get("top_logprobs_num", 0), len(self.tokenizer))
        meta["finish_reason"] = {"type": "length", "length": 0}
        if body.get("return_text_in_logprobs"):
            for entry in meta["input_token_logprobs"]:
                entry[2] = self.tokenizer.decode([entry[1]])
        if body.get("return_entropy") and self.entropy:
            meta["input_token_entropy"] = [None, *(p / 8 for p in range(start + 1, len(ids)))]
        return meta

    async def _status(self, request: web.Request) -> web.Response:
        return web.Response(status=500, text="scripted failure")

    async def _busy(self, request: web.Request) -> web.Response:
        return web.Response(status=429, text="scripted queue")

    async def _refused(self, request: web.Request) -> web.Response:
        return web.Response(status=400, text="scripted refusal")

    async def _slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits that long")

    async def _drop(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def _broken_off(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"meta_info": {')
        assert request.transport is not None
        request.transport.close()
        return response

    async def _garbage(self, request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\xff not json", content_type="application/json")

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response([1, 2])

    async def _nan(self, request: web.Request) -> web.Response:
        return web.json_response({"meta_info": {"input_token_logprobs": [[math.nan, 1, None]]}})

    async def _huge(self, request: web.Request) -> web.Response:
        return web.Response(body=b"[" + b" " * 2**23, content_type="application/json")
