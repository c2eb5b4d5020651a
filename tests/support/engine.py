"""A scripted engine that speaks SGLang's /generate and remembers all it sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.web import LoopbackServer

Script = Callable[[str], str]


@dataclass
class Call:
    """One /generate call: what came in and what went out."""

    input_ids: list[int]
    params: dict[str, Any]
    headers: dict[str, str]
    output_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: str = "stop"
    held: bool = False
    matched: Any = None
    weight_version: str = ""


class ScriptedEngine(LoopbackServer):
    """Answers with `script(decoded input)`; `<|im_end|>` is added where the script stops.

    `hold` keeps every request waiting until it is cleared or an abort comes; an aborted request
    gets the first half of its reply. `cut` may abort a reply by itself: how many of its tokens are
    left. `fail` says which requests get a 500, `refuse` which a 400;
    so does a request that would reach the `context` length.
    """

    def __init__(self, tokenizer: Any, script: Script, weight_version: str = "0") -> None:
        self.tokenizer, self.script = tokenizer, script
        self.weight_version = weight_version
        self.calls: list[Call] = []
        self.hold: Callable[[Call], bool] = lambda call: False
        self.fail: Callable[[Call], bool] = lambda call: False
        self.refuse: Callable[[Call], bool] = lambda call: False
        self.cut: Callable[[int], int | None] = lambda length: None
        self.context: int | None = None
        self.more: Callable[[Call], dict[str, Any]] = lambda call: {}  # further meta_info
        self.served: dict[str, Any] = {}  # what it says of its model
        self.aborts = 0
        self._abort_seen: set[asyncio.Event] = set()
        routes = {"/generate": self._generate, "/abort_request": self._abort}
        routes |= {"/workers": self._workers, "/v1/loads": self._loads}
        routes |= {"/model_info": self._model_info}
        super().__init__(routes)

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        call = Call(body["input_ids"], body["sampling_params"], dict(request.headers))
        call.matched = self.tokenizer.eos_token_id
        call.weight_version = self.weight_version
        if self.fail(call):
            return web.Response(status=500, text="scripted failure")
        if self.refuse(call) or self._too_long(call):
            return web.Response(status=400, text="scripted refusal")
        ids = self._sample(call)
        self._fill(call, ids, "stop")
        kept = self.cut(len(ids))
        if await self._wait(call):
            kept = len(ids) // 2
        if kept is not None:
            self._fill(call, ids[:kept], "abort")
        self.calls.append(call)
        return web.json_response(self._reply(call))

    def _sample(self, call: Call) -> list[int]:
        """The scripted reply up to its first stop string, or with the end-of-turn token."""
        text = self.script(self.tokenizer.decode(call.input_ids))
        places = {text.index(s) + len(s): s for s in call.params.get("stop") or () if s in text}
        if places:
            call.matched = places[min(places)]
            return self.tokenizer.encode(text[: min(places)], add_special_tokens=False)
        return [*self.tokenizer.encode(text, add_special_tokens=False), call.matched]

    def _too_long(self, call: Call) -> bool:
        asked = len(call.input_ids) + call.params["max_new_tokens"]
        return self.context is not None and asked >= self.context

    def _fill(self, call: Call, ids: list[int], finish: str) -> None:
        limit = call.params["max_new_tokens"]
        call.finish = "length" if len(ids) > limit else finish
        call.output_ids = ids[:limit]
        call.log_probs = [-((7 * i + t) % 101) / 64 for i, t in enumerate(call.output_ids)]

    async def _wait(self, call: Call) -> bool:
        """Hold the call; True when an abort ended the wait."""
        abort = asyncio.Event()
        self._abort_seen.add(abort)
        try:
            while self.hold(call) and not abort.is_set():
                await asyncio.sleep(0.005)
            return abort.is_set()
        finally:
            self._abort_seen.discard(abort)

    def _reply(self, call: Call) -> dict[str, Any]:
        reason: dict[str, Any] = {"type": call.finish}
        reason |= {
            "stop": {"matched": call.matched},
            "length": {"length": len(call.output_ids)},
            "abort": {"message": "aborted"},
        }[call.finish]
        triples = [[p, t, None] for p, t in zip(call.log_probs, call.output_ids, strict=True)]
        meta = {
            "finish_reason": reason,
            "prompt_tokens": len(call.input_ids),
            "completion_tokens": len(call.output_ids),
            "cached_tokens": 0,
            "weight_version": call.weight_version,
            "output_token_logprobs": triples,
            **self.more(call),
        }
        text = self.tokenizer.decode(call.output_ids)
        return {"text": text, "output_ids": call.output_ids, "meta_info": meta}

    async def _abort(self, request: web.Request) -> web.Response:
        self.aborts += 1
        for event in self._abort_seen:
            event.set()
        return web.json_response({})

    async def _model_info(self, request: web.Request) -> web.Response:
        return web.json_response(self.served)

    async def _workers(self, request: web.Request) -> web.Response:
        return web.json_response({"workers": [{"url": self.url}]})

    async def _loads(self, request: web.Request) -> web.Response:
        return web.json_response([{"num_reqs": 0, "num_waiting_reqs": 0}])
