"""slime's and Megatron's command line, read without either of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from spader_slime.errors import ConfigError

T = TypeVar("T", int, float)
DRIVERS = ("train.py", "train_async.py")


@dataclass(frozen=True)
class Flags:
    """Flags by name, without the leading dashes; unknown ones too.

    Attributes:
        values: what followed each flag; where one is given twice, the last counts.
        repeated: flags given more than once with different values.
        driver: slime's program, where the command line names it, else "".
    """

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    driver: str = ""

    def on(self, name: str) -> bool:
        """Whether the flag is given."""
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str | None:
        """The flag's value; `default` where the flag or its value is missing."""
        found = self.values.get(name)
        return found[0] if found else default

    def integer(self, name: str, default: int | None = None) -> int | None:
        """A whole number.

        Raises:
            ConfigError: the value is something else.
        """
        return self._number(name, default, int, "a whole number")

    def number(self, name: str, default: float | None = None) -> float | None:
        """A number.

        Raises:
            ConfigError: the value is something else.
        """
        return self._number(name, default, float, "a number")

    def count(self, name: str, default: int) -> int:
        """A whole number of at least 1.

        Raises:
            ConfigError: the value is something else.
        """
        found = self.integer(name, default)
        if found is None or found < 1:
            raise ConfigError(f"--{name}", found, "a whole number of at least 1")
        return found

    def _number(self, name: str, default: T | None, kind: type[T], allowed: str) -> T | None:
        word = self.text(name)
        if word is None:
            return default
        try:
            return kind(word)
        except ValueError as error:
            raise ConfigError(f"--{name}", word, allowed) from error


def read_flags(words: Sequence[str]) -> Flags:
    """Flags of a command line; words before the first flag are the program.

    `--name value ...` and `--name=value` are read. A word is a flag if it starts with two dashes,
    so that negative numbers are values.
    """
    values: dict[str, tuple[str, ...]] = {}
    repeated: list[str] = []
    program, pairs = _pairs(words)
    for name, given in pairs:
        if values.get(name, given) != given:
            repeated.append(name)
        values[name] = given
    driver = next((word for word in reversed(program) if word.endswith(DRIVERS)), "")
    return Flags(values, tuple(dict.fromkeys(repeated)), driver.rsplit("/", 1)[-1])


def _pairs(words: Sequence[str]) -> tuple[list[str], list[tuple[str, tuple[str, ...]]]]:
    """(words before the first flag, (name, values) of every flag in order)."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            groups.append([name, value] if equals else [name])
        else:
            groups[-1].append(word)
    return groups[0], [(group[0], tuple(group[1:])) for group in groups[1:]]
