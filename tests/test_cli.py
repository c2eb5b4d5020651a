"""The command line: help, exit codes, one clear line per mistake."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from support.dumps import write_dump
from support.episodes import GOLD, episode
from support.runs import write_run

from spader_slime import cli
from spader_slime.trajectory import print_trajectory

COMMANDS = ("train", "compare", "world", "ask", "show", "report", "engine", "search")
HEAVY = ("torch", "transformers", "megatron", "matplotlib", "numpy", "tantivy", "rich")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert [command for command in COMMANDS if command not in text] == []


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom spader_slime import cli\n"
        "try:\n    cli.main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = run_python("-c", code)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run_python("-m", "spader_slime.cli", "report", str(tmp_path))
    assert done.returncode == cli.USER_FAULT
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("spader-slime: ")
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml"),
        (["show", "nowhere.pt"], "nowhere.pt"),
        (["ask", "Who?", "--run", "nowhere"], "nowhere"),
        (["compare", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_missing_files_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == cli.USER_FAULT
    assert said in capsys.readouterr().err


def test_interrupts_end_tidily(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(root: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr("spader_slime.report.write_report", interrupted)
    assert cli.main(["report", str(tmp_path)]) == cli.INTERRUPTED
    assert "go on" in capsys.readouterr().err


def test_show_and_report_work_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", str(write_dump(tmp_path / "0.pt")), "--group", "1"]) == 0
    assert "peer 0" in capsys.readouterr().out
    root = write_run(tmp_path / "run", finished=False)
    assert cli.main(["report", str(root)]) == 0
    assert capsys.readouterr().out == f"{root / 'report.html'}\n"


def test_servers_get_their_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["search", "--help"])
    assert "--index" in capsys.readouterr().out


def test_a_server_that_can_not_start_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "--index", str(tmp_path), "--port", "0"]) == cli.USER_FAULT
    assert "no complete index" in capsys.readouterr().err


def printed(gold: list[list[str]] | None) -> str:
    out = StringIO()
    made = episode(["Oslo", "Rome"], ["Oslo"], answer=["Oslo", "Rome"])
    print_trajectory(Console(file=out, width=120), "Which cities?", made, gold)
    return out.getvalue()


def test_a_trajectory_is_printed_step_by_step() -> None:
    text = printed(GOLD)
    first, second, answer = (text.index(word) for word in ("+1 new", "nothing new", "answer"))
    assert first < second < answer
    assert "+ Oslo" in text
    assert "- Rome" in text
    assert "F1 0.33" in text


def test_without_known_answers_nothing_is_judged() -> None:
    text = printed(None)
    assert "Oslo" in text
    assert "new" not in text
    assert "F1" not in text
