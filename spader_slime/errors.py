"""Every error that a user of this package can meet. Catch `SpaderError` to catch them all."""

from __future__ import annotations


class SpaderError(Exception):
    """Base of all errors raised on purpose by spader_slime."""


class ConfigError(SpaderError, ValueError):
    """A configuration field is unknown or has a value that is not allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"config field '{field}': {value!r} is not allowed; expected {allowed}")


class DataError(SpaderError, ValueError):
    """Input data (gold answers, rewards, corpus lines, checkpoints) is malformed."""


class ProtocolError(SpaderError, ValueError):
    """The model's action could not be read; the message is meant to be shown to the model."""


class SearchError(SpaderError):
    """A search call failed for good. `kind` is one of `SEARCH_ERROR_KINDS`.

    `refused`: the service is well and will not take this request (HTTP 400, 413, 422).
    """

    def __init__(self, kind: str, message: str, refused: bool = False) -> None:
        self.kind, self.refused = kind, refused
        super().__init__(f"search {kind}: {message}")


class EngineError(SpaderError):
    """The inference engine failed for good, or refused a request."""


class TeacherError(SpaderError):
    """The teacher of a distillation failed for good. `kind` is one of `TEACHER_ERROR_KINDS`."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(f"teacher {kind}: {message}")


class CheckpointError(SpaderError):
    """A checkpoint is missing, incomplete, or belongs to another model."""


class TooManyFailuresError(SpaderError):
    """The share of episodes lost to infrastructure passed `failures.max_share`."""


SEARCH_ERROR_KINDS = ("connection", "timeout", "status", "malformed", "oversized")
TEACHER_ERROR_KINDS = (*SEARCH_ERROR_KINDS, "length", "not_finite", "vocabulary")
