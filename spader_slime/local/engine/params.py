"""SGLang's sampling parameters, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spader_slime.errors import EngineError

GREEDY_BELOW = 1e-6
_NEUTRAL = {
    "n": 1,
    "min_new_tokens": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
}


class RequestError(EngineError, ValueError):
    """The request must be refused (HTTP 400); the message says why."""


@dataclass(frozen=True)
class SamplingParams:
    """How one sequence is sampled. Names and defaults are SGLang's.

    Attributes:
        temperature: 0 is greedy; log-probs of output tokens are those of logits / temperature
            (of the plain logits when greedy).
        top_k: -1 or a number past the vocabulary: all.
        top_p, min_p: applied together with `top_k` to the distribution at `temperature`.
        stop: sampling ends where one of these appears in the output's text.
        stop_token_ids: sampling ends with one of these, or with the model's own end tokens.
        ignore_eos: only `stop` strings and `max_new_tokens` end the output.
        no_stop_trim: the text keeps what the output was stopped at.
        sampling_seed: the same seed, prompt and weights give the same output, whatever else is
            in the batch; None draws one.
    """

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    sampling_seed: int | None = None

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    def fitted(self, prompt: int, context: int, given: bool) -> SamplingParams:
        """Checked against the context length; a `max_new_tokens` by default is cut to fit.

        Raises:
            RequestError: the prompt, or prompt + `max_new_tokens`, reaches `context`.
        """
        room = context - prompt - 1
        if room < 0:
            raise RequestError(
                f"the input ({prompt} tokens) reaches the context length ({context} tokens)"
            )
        if not given:
            return replace(self, max_new_tokens=min(self.max_new_tokens, room))
        if self.max_new_tokens > room:
            raise RequestError(
                f"input ({prompt} tokens) plus max_new_tokens ({self.max_new_tokens}) reaches "
                f"the context length ({context} tokens)"
            )
        return self


def parse_params(values: Any, vocab: int) -> SamplingParams:
    """Read a `sampling_params` object.

    Raises:
        RequestError: a parameter is unknown, unsupported or has a value that is not allowed.
    """
    if not isinstance(values, Mapping):
        raise RequestError("'sampling_params' must be an object")
    readers = _readers(vocab)
    for name, value in values.items():
        if name in readers or value is None or value == _NEUTRAL.get(name, ()):
            continue
        raise RequestError(f"this engine does not support the sampling parameter '{name}'")
    given = {name: values[name] for name in readers if values.get(name) is not None}
    return SamplingParams(**{name: readers[name](name, value) for name, value in given.items()})


def _readers(vocab: int) -> dict[str, Any]:
    flags = ("ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim")
    return {
        "max_new_tokens": _integer(0, 2**31),
        "temperature": _real(0.0, math.inf),
        "top_p": _real(1e-9, 1.0),
        "top_k": _integer(-1, 2**31, forbidden=0),
        "min_p": _real(0.0, 1.0),
        "stop": _stop,
        "stop_token_ids": _stop_ids(vocab),
        "sampling_seed": _integer(-(2**63), 2**63 - 1),
        **dict.fromkeys(flags, _flag),
    }


def _integer(low: int, high: int, forbidden: int | None = None) -> Any:
    def read(name: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high or value == forbidden:
            raise RequestError(f"'{name}' is {value!r}: not an allowed integer")
        return value

    return read


def _real(low: float, high: float) -> Any:
    def read(name: str, value: Any) -> float:
        if type(value) not in (int, float) or not low <= value <= high or value == math.inf:
            raise RequestError(f"'{name}' is {value!r}: not a number from {low:g} to {high:g}")
        return float(value)

    return read


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"'{name}' must be true or false")
    return value


def _stop(name: str, value: Any) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or not all(isinstance(s, str) for s in strings):
        raise RequestError("'stop' must be a string or a list of strings")
    return tuple(s for s in strings if s)


def _stop_ids(vocab: int) -> Any:
    def read(name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(type(i) is int for i in value):
            raise RequestError("'stop_token_ids' must be a list of token ids")
        return tuple(sorted({i for i in value if 0 <= i < vocab}))

    return read
