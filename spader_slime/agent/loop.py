"""The agent loop: sample a turn, read it, search, show what was found; until there is an answer."""

from __future__ import annotations

import time

from spader_slime.agent.context import LoopContext
from spader_slime.agent.event_loops import off_loop
from spader_slime.agent.observe import Observation, Observer
from spader_slime.agent.policy import Generation
from spader_slime.agent.protocol import Action, error_lines
from spader_slime.agent.search import SearchResult
from spader_slime.agent.transcript import Transcript
from spader_slime.episode import End, Episode, TurnKind
from spader_slime.errors import EngineError, SearchError

__all__ = ["LoopContext", "run_episode"]

_REFUSED = "The search service refused these queries."


async def run_episode(context: LoopContext, episode: Episode | None = None) -> Episode:
    """Run a trajectory to its end, or go on with an aborted one.

    Faults of the engine and of the search service never raise: they end the episode as
    `End.INFRASTRUCTURE`, with the reason in `error`. Only a request that the search service
    refuses goes back to the model; an episode in which no search ever worked is lost all the same.

    Args:
        episode: an aborted one, changed in place; None for a fresh start.

    Returns:
        The episode, in one of its explicit end states.
    """
    if episode is None:
        episode = Episode(prompt_ids=list(context.prompt_ids))
    episode.end, episode.error = End.RUNNING, None
    run = _Run(context, episode)
    try:
        while episode.end is End.RUNNING:
            await run.advance()
    except EngineError as error:
        run.finish(End.ABORTED if context.aborted() else End.INFRASTRUCTURE, str(error))
    run.check_searches()
    return episode


class _Run:
    """One trajectory in progress. Its only state is the episode, so it can be taken up again."""

    def __init__(self, context: LoopContext, episode: Episode) -> None:
        self.context, self.episode = context, episode
        self.transcript = Transcript(episode, context.on_tokens)
        self.observer = Observer(
            context.protocol,
            context.boundary,
            context.budget,
            self.transcript,
            context.agent.max_turns,
        )

    def finish(self, end: End, error: str | None = None) -> None:
        self.episode.end, self.episode.error = end, error

    async def advance(self) -> None:
        """Sample a turn, or deal with the one that is complete."""
        if self.transcript.awaits_observation:
            await self._act(self._read())
        elif self.context.aborted():
            self.finish(End.ABORTED)
        else:
            await self._sample()

    async def _sample(self) -> None:
        context, transcript = self.context, self.transcript
        room = context.budget.new_tokens(self.episode, transcript.open_tokens)
        if room < 1:
            return self._cut_off()
        began = time.perf_counter()
        generation = await context.policy.generate(
            [*self.episode.prompt_ids, *self.episode.response_ids],
            context.turn_params(room),
            headers=context.headers,
            request=context.request,
            give_up=context.aborted,
        )
        text = context.boundary.decode(generation.ids)
        transcript.sampled(generation, text, time.perf_counter() - began)
        return self._sampled(generation)

    def _sampled(self, generation: Generation) -> None:
        """What the way the engine stopped means for the episode."""
        if generation.finish == "abort":
            self.finish(End.ABORTED)
        elif generation.finish == "length":
            self._cut_off()
        elif not self.transcript.awaits_observation:
            self.finish(End.INVALID, "an empty turn")
        elif isinstance(generation.matched, int):
            self.context.boundary.learn_stop(generation.matched)

    def _cut_off(self) -> None:
        """A token limit cut the turn: it counts only if its answer is complete."""
        self.episode.open_turn = False
        action = self._read() if self.transcript.awaits_observation else None
        if action is not None and action.answer is not None:
            self._answer(action)
        else:
            self.finish(End.TOKEN_LIMIT)

    def _read(self) -> Action:
        """Parse the current turn and note what it did."""
        ids, goes_on = self.transcript.turn_ids, False
        if self.context.protocol.inline and len(self.episode.turns) > 1:
            goes_on = not self.context.boundary.closes(self.transcript.previous_id)
        action = self.context.protocol.parse(self.context.boundary.turn_text(ids, goes_on))
        self.transcript.note(
            kind=action.kind,
            queries=action.queries,
            calls=action.calls,
            malformed=action.malformed,
        )
        return action

    async def _act(self, action: Action) -> None:
        if action.kind is TurnKind.ANSWER:
            return self._answer(action)
        if action.kind is TurnKind.NONE and self.context.agent.on_no_action == "end":
            return self.finish(End.INVALID, "a turn without a search or an answer")
        if len(self.episode.turns) >= self.context.agent.max_turns:
            return self.finish(End.TURN_LIMIT)
        if self.context.aborted():
            return self.finish(End.ABORTED)
        if action.kind is TurnKind.SEARCH:
            return await self._search(action)
        message = action.message or self.context.protocol.no_action
        return self._show(self.observer.message(message))

    def _answer(self, action: Action) -> None:
        self.episode.answer = action.answer
        if action.answer is None:
            self.finish(End.INVALID, action.message or "an answer that can't be read")
        else:
            self.finish(End.ANSWERED)

    async def _search(self, action: Action) -> None:
        """Search and show; an abort leaves the turn as it was, and the search is made again."""
        if not self.observer.has_room:
            return self._show(self.observer.told_to_answer())
        began = time.perf_counter()
        try:
            found = await self.context.search.search(action.queries, self.context.aborted)
        except SearchError as error:
            if self.context.aborted():
                return self.finish(End.ABORTED)
            return self._search_failed(error, time.perf_counter() - began)
        if self.context.aborted():
            return self.finish(End.ABORTED)
        return await self._found(action, found)

    async def _found(self, action: Action, found: SearchResult) -> None:
        self.transcript.note(search_s=found.latency_s, search_error=None)
        notes = [*error_lines(action.message), *found.notes]
        size = sum(len(d.title) + len(d.text) for some in found.documents for d in some)
        inputs = (action.queries, found.documents, notes)
        self._show(await off_loop(size, self.observer.results, *inputs))

    def _search_failed(self, error: SearchError, seconds: float) -> None:
        """A request that the service refuses goes back to the model; anything else is the end."""
        self.transcript.note(search_error=error.kind, search_s=seconds)
        if error.refused:
            self._show(self.observer.message(_REFUSED))
        else:
            self.finish(End.INFRASTRUCTURE, str(error))

    def _show(self, shown: Observation | None) -> None:
        if shown is None:
            return self.finish(End.TOKEN_LIMIT)
        self.transcript.observed(shown.ids, shown.text, shown.documents, shown.cut)
        self.context.on_observation(shown)
        return None

    def check_searches(self) -> None:
        """An episode all of whose searches failed says nothing about the policy."""
        if self.episode.failed:
            return
        searches = [turn for turn in self.episode.turns if turn.kind is TurnKind.SEARCH]
        errors = [turn.search_error for turn in searches]
        if errors and all(errors):
            self.finish(End.INFRASTRUCTURE, f"search {errors[-1]}: no search of the episode worked")
