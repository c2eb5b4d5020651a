"""`spader-slime doctor`: exit codes, table, JSON, and what it does without heavy packages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor.setups import Setup

from spader_slime import cli
from spader_slime.config import SpaderConfig
from spader_slime.doctor.checks import Check
from spader_slime.doctor.facts import Facts, Machine, Reading
from spader_slime.doctor.findings import Finding, Severity, ok
from spader_slime.doctor.flags import read_flags
from spader_slime.doctor.run import judge
from spader_slime.errors import ConfigError


def words(setup: Setup, *options: str) -> list[str]:
    config, flags = setup.write()
    return ["doctor", "--config", str(config), *options, "--slime-args", *flags]


def test_a_sound_run_ends_with_0(qwen: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(qwen)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("All is well")
    assert any("DP 2" in line for line in lines)
    (budget,) = [line for line in lines if "token budget" in line]
    assert "searches of one query" in budget


def test_errors_end_with_1_and_the_table_says_what_to_do(
    qwen: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    del qwen.flags["group-rm"]
    with pytest.raises(SystemExit) as end:
        cli.main(words(qwen))
    assert end.value.code == 1
    text = capsys.readouterr().out
    assert "add --group-rm" in text
    assert text.splitlines()[-1].startswith("1 error(s), 0 warning(s).")


def test_json_is_the_same_in_words_for_programs(
    qwen: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    qwen.flags["normalize-advantages"] = []
    assert cli.main(words(qwen, "--json")) == 0  # warnings stop nothing
    report = json.loads(capsys.readouterr().out)
    (found,) = [f for f in report["findings"] if f["severity"] != "ok"]
    assert set(found) == {"severity", "what", "value", "advice", "theme"}
    assert (found["theme"], found["what"]) == ("loss", "--normalize-advantages")
    assert report["counts"]["warning"] == 1 and report["counts"]["error"] == 0


def test_usage_faults_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", "--slime-args", "--colocate"])
    assert end.value.code == 2


def test_a_missing_file_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", "--json", "--config", str(tmp_path / "none.yaml")])
    assert end.value.code == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "none.yaml" in found[0]["value"]


def test_without_transformers_the_rest_is_still_checked(
    qwen: Setup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert cli.main(words(qwen, "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    (found,) = [f for f in report["findings"] if f["severity"] != "ok"]
    assert (found["theme"], found["severity"]) == ("template", "warning")
    assert "transformers is missing" in found["advice"]


def test_nothing_heavy_is_loaded(qwen: Setup) -> None:
    """A run to the end where torch can't be imported: slime's base install has none."""
    code = (
        "import sys\nfor name in ('torch', 'transformers', 'pyarrow', 'megatron'):\n"
        "    sys.modules[name] = None\nfrom spader_slime import cli\nsys.exit(cli.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words(qwen)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def crashing(facts: Facts) -> Iterator[Finding]:
    yield ok("first", 1)
    raise ZeroDivisionError("a fault of ours")


def refusing(facts: Facts) -> Iterator[Finding]:
    raise ConfigError("--lr", "x", "a number")
    yield


def passing(facts: Facts) -> Iterator[Finding]:
    yield ok("last", 1)


def test_a_check_that_crashes_is_a_finding() -> None:
    machine = Machine((3, 11), {}, Reading())
    flags = read_flags(["--colocate"])
    facts = Facts(Path("c"), (), Reading(SpaderConfig()), flags, machine)
    checks = [
        Check("one", crashing),
        Check("two", refusing),
        Check("three", lambda f: iter([ok("x", 1)])),
    ]
    found = judge(facts, checks)
    assert [(f.theme, f.severity) for f in found] == [
        ("one", Severity.OK),
        ("one", Severity.WARNING),
        ("two", Severity.ERROR),
        ("three", Severity.OK),
    ]
    assert "ZeroDivisionError: a fault of ours" in found[1].value
    assert "--lr" in found[2].value
