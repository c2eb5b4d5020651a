"""Client of the teacher of a distillation: SGLang servers that score the student's own tokens."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from spader_slime.agent.event_loops import LoopSemaphore, off_loop
from spader_slime.agent.http import HttpClient, HttpFault, check_urls, with_retries
from spader_slime.agent.teacher_reply import read_scores
from spader_slime.agent.teacher_urls import REST_S, Addresses
from spader_slime.agent.teacher_vocabulary import compare, has_entropy, size_of
from spader_slime.agent.teacher_wire import Asked
from spader_slime.algorithms.teacher_scores import TeacherScores, no_scores
from spader_slime.config import DistillationConfig
from spader_slime.errors import DataError, TeacherError

BACKOFF_S = 0.5  # before the first further attempt
PARSED_AT_ONCE = 2  # replies, which bounds the memory of parsing
_SMALL_REPLY_BYTES = 16 * 2**20  # of the check of the vocabulary
_BUSY = (408, 429)  # HTTP statuses below 500 that pass

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeacherReply:
    """What the teacher said of one trajectory.

    Attributes:
        scores: of the T response tokens. `gate_T` is all 0; `weight_T` is the loss mask, or all 0
            when the teacher's answer was lost.
        fault: why it was lost, one of `errors.TEACHER_ERROR_KINDS`; None when it was not.
        seconds: wall-clock, waiting for a free place and retries included.
    """

    scores: TeacherScores
    fault: str | None
    seconds: float


class TeacherClient:
    """Scores trajectories at the teacher's servers, each of which must serve the same model.

    A call goes to the server with the fewest in flight; a server that fails rests for a while, and
    further attempts go elsewhere.

    Args:
        tokenizer: the student's.
        vocab: rows of the student's output layer, where there are more than the tokenizer has ids.
        backoff_s: before the first further attempt.
        rest_s: how long a server that failed is left alone.
        verify: compare each server's vocabulary before its first use, as `check` does for all.

    Raises:
        ConfigError: no address, or one that is not http(s).
    """

    def __init__(
        self,
        config: DistillationConfig,
        tokenizer: Any,
        vocab: int | None = None,
        backoff_s: float = BACKOFF_S,
        rest_s: float = REST_S,
        verify: bool = False,
    ) -> None:
        check_urls("spader.distillation.urls", config.urls)
        self._config, self._tokenizer, self._backoff_s = config, tokenizer, backoff_s
        self._vocab = max(vocab or 0, size_of(tokenizer))
        self._urls = [
            url.rstrip("/").removesuffix("/generate") + "/generate" for url in config.urls
        ]
        self._addresses = Addresses(self._urls, rest_s)
        self._http = HttpClient(_BUSY)
        self._places = LoopSemaphore(config.concurrency)
        self._parsing = LoopSemaphore(PARSED_AT_ONCE)
        self._comparing = {url: LoopSemaphore(1) for url in self._urls}
        self._verify = verify
        self._agreed: dict[str, bool] = {}  # address -> whether it gives exact entropies
        self._logged: set[str] = set()

    async def score(
        self, ids: Sequence[int], prompt_len: int, loss_mask: Sequence[int]
    ) -> TeacherReply:
        """Scores of the response `ids[prompt_len:]`, aligned with `loss_mask`.

        Nothing is sent when no token is learned from.

        Args:
            loss_mask: 1 for tokens the student sampled, 0 for observations.

        Raises:
            DataError: `loss_mask` has not the response's length, or there is no prompt.
        """
        began = time.perf_counter()
        asked = Asked(list(ids), prompt_len, self._config.top_k, self._vocab)
        if prompt_len < 1 or asked.length != len(loss_mask):
            message = f"{len(ids)} ids with a prompt of {prompt_len} and a mask of {len(loss_mask)}"
            raise DataError(message)
        lost = no_scores(asked.length, asked.top_k)
        if not any(loss_mask):
            return TeacherReply(lost, None, 0.0)
        try:
            scores, fault = await self._scores(asked), None
            scores = replace(scores, weight_T=torch.tensor(loss_mask, dtype=torch.float32))
        except HttpFault as error:
            scores, fault = lost, error.kind
            self._log(error)
        return TeacherReply(scores, fault, time.perf_counter() - began)

    async def check(self) -> None:
        """Compare the servers' vocabulary with the student's, once.

        A server that can't be reached now is compared before its first use, and so is one that
        had gone away; where it disagrees then, it counts as failed.

        Raises:
            TeacherError: kind "vocabulary": a server disagrees; else no server can be asked.
        """
        self._verify = True
        found = await asyncio.gather(*map(self._check, self._urls), return_exceptions=True)
        wrong = [error for error in found if error and not isinstance(error, HttpFault)]
        if wrong:
            raise wrong[0]
        faults = [error for error in found if isinstance(error, HttpFault)]
        if len(faults) == len(found):
            raise TeacherError(faults[0].kind, str(faults[0])) from faults[0]

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def _scores(self, asked: Asked) -> TeacherScores:
        last: str | None = None

        async def attempt(number: int) -> TeacherScores:
            nonlocal last
            async with self._places:
                with self._addresses.take(last) as url:
                    last = url
                    return await self._score_at(url, asked)

        return await with_retries(attempt, self._config.retries, self._backoff_s)

    async def _score_at(self, url: str, asked: Asked) -> TeacherScores:
        try:
            if self._verify:
                await self._agree(url)
            more = {"return_entropy": True} if self._agreed.get(url) else {}
            body = await self._post(url, asked.body(**more), asked.reply_limit)
            async with self._parsing:
                scores: TeacherScores = await off_loop(len(body), read_scores, body, asked)
        except TeacherError as error:
            self._addresses.rest(url)
            raise HttpFault(error.kind, str(error), True) from error
        except HttpFault as fault:
            if fault.transient:
                self._addresses.rest(url)
            raise
        self._addresses.welcome(url)
        return scores

    async def _post(self, url: str, body: bytes, limit: int) -> bytes:
        try:
            return await self._http.post(url, body, timeout_s=self._config.timeout_s, limit=limit)
        except HttpFault as fault:
            if fault.kind == "connection":  # what comes back may be another model
                self._agreed.pop(url, None)
            raise

    async def _check(self, url: str) -> None:
        async def attempt(number: int) -> None:
            await self._agree(url)

        await with_retries(attempt, self._config.retries, self._backoff_s)

    async def _agree(self, url: str) -> None:
        """Compare `url`'s vocabulary, unless that was done."""

        async def post(body: bytes) -> bytes:
            return await self._post(url, body, _SMALL_REPLY_BYTES)

        if url in self._agreed:
            return
        async with self._comparing[url]:
            if url not in self._agreed:
                await compare(post, self._tokenizer)
                self._agreed[url] = await has_entropy(post, 0)

    def _log(self, fault: HttpFault) -> None:
        """The first fault of each kind; all are counted by the caller."""
        if fault.kind not in self._logged:
            self._logged.add(fault.kind)
            log.warning("teacher %s: %s (said once)", fault.kind, fault)
