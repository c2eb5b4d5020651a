"""What one trajectory leaves behind: turns, token spans, documents shown, timings.

Axis legend used everywhere in this package, as suffixes of array names: P prompt (group), G peer
(trajectory of a group), N trajectory of any group, S decision step, T token, K top-k, V vocabulary.
A *decision step* is one assistant turn that sampled at least one token.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


class End(str, Enum):
    """How an episode ended. Only `ABORTED` episodes can be resumed."""

    RUNNING = "running"
    ANSWERED = "answered"  # a valid final answer
    INVALID = "invalid"  # a turn with no readable action, or an answer that can't be read
    TURN_LIMIT = "turn_limit"  # `max_turns` used up without an answer
    TOKEN_LIMIT = "token_limit"  # response, turn or context length used up without an answer
    ABORTED = "aborted"  # the host stopped the rollout; may be resumed
    INFRASTRUCTURE = "infrastructure"  # engine or search service failed for good


class TurnKind(str, Enum):
    """What the assistant did in a turn."""

    SEARCH = "search"
    ANSWER = "answer"
    MALFORMED = "malformed"  # an action was attempted and could not be read
    NONE = "none"  # neither a call nor an answer


@dataclass(frozen=True)
class Document:
    """A passage as shown to the model, after cutting."""

    title: str
    text: str


@dataclass(frozen=True)
class Turn:
    """One decision step and the observation that followed it.

    Attributes:
        span: [start, end) of the assistant's tokens, counted from the first response token.
        kind: what the assistant did.
        queries: queries issued, in order.
        calls: queries issued plus malformed calls (each counts 1): `calls_t` of the cost term.
        malformed: malformed calls among them.
        documents: what the observation showed after cutting, in order of appearance.
        observation_tokens: tokens appended after this turn (0 after the last turn).
        cut: the observation was shortened to fit its token budget.
        search_error: kind of the typed search failure, or None.
        engine_s, search_s: wall-clock seconds spent waiting.
        weight_versions: engine weight versions that sampled this turn (two when resumed).
    """

    span: tuple[int, int]
    kind: TurnKind
    queries: tuple[str, ...] = ()
    calls: int = 0
    malformed: int = 0
    documents: tuple[Document, ...] = ()
    observation_tokens: int = 0
    cut: bool = False
    search_error: str | None = None
    engine_s: float = 0.0
    search_s: float = 0.0
    weight_versions: tuple[str, ...] = ()


@dataclass
class Episode:
    """A trajectory: its token record and its turns. Arrays run over response tokens only.

    `loss_mask` is 1 on sampled tokens, 0 on observations; `log_probs` is 0.0 on observations.
    `answer` is the parsed final answer (None: no valid answer). `open_turn` marks an assistant
    turn cut by an abort: the next sampled tokens belong to the same decision step.
    """

    prompt_ids: list[int] = field(default_factory=list)
    response_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    end: End = End.RUNNING
    answer: list[str] | None = None
    error: str | None = None
    open_turn: bool = False

    @property
    def step_spans(self) -> list[tuple[int, int]]:
        """[start, end) of every decision step in response tokens."""
        return [turn.span for turn in self.turns]

    @property
    def answered(self) -> bool:
        return self.end is End.ANSWERED

    @property
    def failed(self) -> bool:
        """Lost for reasons that are not the policy's: left out of loss, baseline and N(e)."""
        return self.end in (End.INFRASTRUCTURE, End.ABORTED)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types only; `from_dict` is the inverse."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        copies = {k: list(v) if isinstance(v, list) else v for k, v in values.items()}
        copies["turns"] = [_plain(turn) for turn in self.turns]
        return copies | {"end": self.end.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Episode:
        values = dict(data)
        values["turns"] = [_turn(t) for t in values.get("turns", [])]
        values["end"] = End(values.get("end", End.RUNNING))
        return cls(**values)


def _plain(turn: Turn) -> dict[str, Any]:
    """The turn's fields as plain types; `dataclasses.asdict` takes five times as long."""
    documents = tuple({"title": d.title, "text": d.text} for d in turn.documents)
    return {**turn.__dict__, "kind": turn.kind.value, "documents": documents}


def _turn(data: dict[str, Any]) -> Turn:
    values = dict(data)
    values["kind"] = TurnKind(values["kind"])
    values["documents"] = tuple(Document(**d) for d in values.get("documents", ()))
    for key in ("span", "queries", "weight_versions"):
        values[key] = tuple(values.get(key, ()))
    return Turn(**values)
