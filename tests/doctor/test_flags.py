"""The command line, read without slime."""

from __future__ import annotations

import pytest

from spader_slime.doctor.flags import read_flags
from spader_slime.errors import ConfigError


def test_values_switches_and_the_program() -> None:
    words = ["python3", "/s/train_async.py", "--lr", "-1e-6", "--colocate", "--x=a b", "--y", "1"]
    flags = read_flags([*words, "2", "--z", ""])
    assert flags.driver == "train_async.py"
    assert flags.number("lr") == -1e-6
    assert flags.on("colocate") and flags.text("colocate", "d") == "d"
    assert flags.text("x") == "a b" and flags.values["y"] == ("1", "2") and flags.text("z") == ""
    assert flags.integer("missing") is None and flags.integer("missing", 3) == 3


def test_the_last_of_several_counts() -> None:
    flags = read_flags(["--lr", "1", "--tp", "2", "--lr", "2", "--tp", "2"])
    assert (flags.text("lr"), flags.repeated) == ("2", ("lr",))


def test_a_value_of_another_kind_is_named() -> None:
    flags = read_flags(["--global-batch-size", "many", "--n", "0"])
    with pytest.raises(ConfigError, match=r"--global-batch-size.*many.*whole number"):
        flags.integer("global-batch-size")
    with pytest.raises(ConfigError, match=r"--n.*at least 1"):
        flags.count("n", 1)


def test_no_flags() -> None:
    assert read_flags([]).values == {} and read_flags(["train.py"]).driver == "train.py"
