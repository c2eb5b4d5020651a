"""How many tokens a turn and an observation may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spader_slime.config import AgentConfig
from spader_slime.episode import Episode
from spader_slime.errors import ConfigError


@dataclass(frozen=True)
class TokenBudget:
    """Limits in tokens; observations count as response.

    Attributes:
        max_response: response tokens of a trajectory.
        max_context: the engine's context length (None: unknown); it refuses input + new tokens
            that reach it.
        max_turn: new tokens of an assistant turn.
        max_observation: tokens of an observation, chat boundary included.
        reserve: tokens that observations leave for the answer.
    """

    max_response: int
    max_context: int | None
    max_turn: int
    max_observation: int
    reserve: int

    @property
    def least_answer(self) -> int:
        """Fewer tokens than this are no use to an answer."""
        return max(1, min(self.reserve, 16))

    def room(self, episode: Episode) -> int:
        """Tokens that may still be added."""
        used = len(episode.response_ids)
        room = self.max_response - used
        if self.max_context is not None:
            room = min(room, self.max_context - 1 - len(episode.prompt_ids) - used)
        return room

    def new_tokens(self, episode: Episode, in_turn: int = 0) -> int:
        """`max_new_tokens` of the next engine call; `in_turn` were sampled before an abort."""
        return min(self.max_turn - in_turn, self.room(episode))

    def observation(self, episode: Episode) -> int:
        """Most tokens of the next observation; a turn can always follow it."""
        return min(self.max_observation, self.room(episode) - max(self.reserve, 1))


def make_budget(
    agent: AgentConfig, max_response_tokens: int, max_context: int | None
) -> TokenBudget:
    """The limits of a trajectory.

    Raises:
        ConfigError: the answer reserve would leave no room for anything else.
    """
    if agent.answer_reserve >= max_response_tokens:
        allowed = f"less than the {max_response_tokens} response tokens of a trajectory"
        raise ConfigError("agent.answer_reserve", agent.answer_reserve, allowed)
    return TokenBudget(
        max_response_tokens,
        max_context,
        agent.max_turn_tokens,
        agent.max_observation_tokens,
        agent.answer_reserve,
    )


def largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest n in [0, limit] that fits, if all smaller ones do; 0 is never tried."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
