"""The agent loop over an OpenAI-compatible chat endpoint: messages out, text back.

A chat endpoint renders and tokenizes the whole conversation anew for every turn. It sees the very
tokens of the native protocol where its template only ever appends and the model writes its text in
the tokenizer's own spelling; for what differs elsewhere see docs/agent.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from spader_slime.agent.chat_reply import Reply, Turn, read_reply, read_turn
from spader_slime.agent.context import LoopContext
from spader_slime.agent.http import HttpClient, never
from spader_slime.agent.observe import Observation
from spader_slime.agent.policy import BACKOFF_S, RETRIES, TIMEOUT_S, Generation, call_engine
from spader_slime.agent.template import ChatBoundary, Message
from spader_slime.errors import EngineError

MAX_REPLY_BYTES = 64 * 2**20
_ROUTE = "/chat/completions"
_BUSY = (429,)  # HTTP statuses below 500 that pass
_RENAMED = {
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "sampling_seed": "seed",
}


class ChatPolicyClient:
    """Calls one chat endpoint for any number of trajectories; see `joined`.

    Connection errors, timeouts, 5xx, 429 and replies that can't be read are tried again; any other
    4xx never.

    Args:
        url: `http://host:port`, or with `/v1`, or the whole address of the route.
        model: the name that the endpoint serves the model by.
        api_key: sent as a bearer token.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        retries: int = RETRIES,
        backoff_s: float = BACKOFF_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        base = url.rstrip("/").removesuffix(_ROUTE).rstrip("/").removesuffix("/v1")
        self._url, self._model = f"{base}/v1{_ROUTE}", model
        self._key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._retries, self._backoff_s, self._timeout_s = retries, backoff_s, timeout_s
        self._http = HttpClient(_BUSY)

    def joined(self, context: LoopContext, messages: Sequence[Message]) -> LoopContext:
        """`context` with this endpoint as its policy, for one trajectory.

        Args:
            messages: those that `context.prompt_ids` was rendered from.
        """
        talk = Conversation(self, context.boundary, messages, len(context.prompt_ids))
        return replace(context, policy=talk, on_observation=talk.observed)

    async def ask(
        self,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        give_up: Callable[[], bool] = never,
    ) -> Reply:
        """One call.

        Args:
            fields: further fields of the request.

        Raises:
            EngineError: refused, or failed for good, or a reply that can't be read.
        """
        body = orjson.dumps({**fields, "model": self._model, "messages": messages})

        async def attempt(number: int) -> Reply:
            reply = await self._http.post(
                self._url,
                body,
                headers={**self._key, **(headers or {})},
                timeout_s=self._timeout_s,
                limit=MAX_REPLY_BYTES,
            )
            return read_reply(reply)

        return await call_engine(attempt, self._retries, self._backoff_s, give_up)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


class Conversation:
    """The policy of one trajectory: remembers as messages what the loop holds as tokens.

    An open turn is the last message: what is sampled next goes on in it (after an observation
    inside the assistant's turn, or an abort).

    Args:
        prompt: tokens of the rendered `messages`.
    """

    def __init__(
        self,
        client: ChatPolicyClient,
        boundary: ChatBoundary,
        messages: Sequence[Message],
        prompt: int,
    ) -> None:
        self._client, self._boundary = client, boundary
        self._messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self._opening, self._tokens = len(self._messages), prompt

    async def generate(
        self,
        input_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        rid: str | None = None,
        request: Mapping[str, Any] | None = None,
        give_up: Callable[[], bool] = never,
    ) -> Generation:
        """Sample the next turn. `input_ids` are only counted, `rid` and `request` not sent.

        The ids that come back are the tokenizer's spelling of the text. Log-probs are not known:
        each is 0.0, and `meta_info["log_probs"]` is None.

        Raises:
            EngineError: as `ChatPolicyClient.ask`, or the episode was begun by another policy.
        """
        if len(input_ids) != self._tokens:
            raise EngineError("a chat endpoint can't go on with an episode that it did not begin")
        reply = await self._client.ask(
            self._messages, self._fields(sampling_params), headers, give_up
        )
        opened = bool(self._boundary.opening) and not self._open
        turn = read_turn(reply, self._boundary, sampling_params.get("stop") or (), opened)
        self._add(turn)
        return Generation(
            turn.ids,
            [0.0] * len(turn.ids),
            reply.finish,
            turn.matched,
            turn.text,
            reply.weight_version,
            {"log_probs": None, "usage": reply.usage},
        )

    def observed(self, shown: Observation) -> None:
        """Note what the model is shown before its next turn."""
        if shown.content is None:
            self._messages[-1]["content"] += shown.text
        else:
            content = self._boundary.plain(shown.content)
            self._messages.append({"role": self._boundary.role, "content": content})
        self._tokens += len(shown.ids)

    @property
    def _open(self) -> bool:
        """Whether the last message is an assistant's, to be gone on with."""
        return len(self._messages) > self._opening and self._messages[-1]["role"] == "assistant"

    def _add(self, turn: Turn) -> None:
        self._tokens += len(turn.ids)
        if self._open:
            self._messages[-1]["content"] += turn.text
        elif turn.ids:
            content = self._boundary.opening + turn.text
            self._messages.append({"role": "assistant", "content": content})

    def _fields(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Sampling parameters and what else SGLang and vLLM have to be told."""
        fields = {_RENAMED.get(n, n): value for n, value in params.items() if value is not None}
        fields["include_stop_str_in_output"] = bool(params.get("no_stop_trim"))  # vLLM's name
        fields["separate_reasoning"] = False  # SGLang: thinking stays in the text
        if self._open:
            fields |= {"continue_final_message": True, "add_generation_prompt": False}
        if self._boundary.template_kwargs:
            fields["chat_template_kwargs"] = self._boundary.template_kwargs
        return fields
