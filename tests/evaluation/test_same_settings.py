"""What may join the answers of a folder, and what a kill leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.engine import ScriptedEngine
from support.hosts import AGENT, write_prompts

from spader_slime import cli
from spader_slime.errors import ConfigError, DataError
from spader_slime.evaluation.log import AnswerLog
from spader_slime.evaluation.run import evaluate
from spader_slime.evaluation.sources import Sources


@pytest.fixture
def out(sources: Sources, tmp_path: Path) -> Path:
    evaluate(sources, tmp_path / "out", limit=1)
    return tmp_path / "out"


def other_agent(sources: Sources) -> Sources:
    assert sources.config is not None
    agent = {**AGENT, "max_turns": 3}
    sources.config.write_text(json.dumps({"spader": {"agent": agent, "search": {"top_k": 2}}}))
    return sources


def other_prompt(sources: Sources) -> Sources:
    assert sources.config is not None
    (sources.config.parent / "prompt.txt").write_text("Find {question}")
    spader = {"agent": {**AGENT, "prompt_file": "prompt.txt"}, "search": {"top_k": 2}}
    sources.config.write_text(json.dumps({"spader": spader}))
    return sources


def other_questions(sources: Sources) -> Sources:
    write_prompts(sources.data["towns"], 4)
    return sources


CHANGES: dict[str, Callable[[Sources], Sources]] = {
    "ask.temperature": lambda s: replace(s, ask={**s.ask, "temperature": 1.0}),
    "ask.samples": lambda s: replace(s, ask={**s.ask, "samples": 3}),
    "agent.max_turns": other_agent,
    "prompt": other_prompt,
    "template.enable_thinking": lambda s: replace(s, template={"enable_thinking": False}),
    "data.towns.sha256": other_questions,
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_settings_are_refused_by_name(name: str, sources: Sources, out: Path) -> None:
    before = (out / "answers.jsonl").read_bytes()
    with pytest.raises(ConfigError) as refused:
        evaluate(CHANGES[name](sources), out)
    assert refused.value.field == name and "another --out" in str(refused.value)
    assert (out / "answers.jsonl").read_bytes() == before


def test_another_policy_is_refused(sources: Sources, engine: ScriptedEngine, out: Path) -> None:
    engine.served["weight_version"] = "1"
    with pytest.raises(ConfigError, match=r"policy\.weight_version"):
        evaluate(sources, out)


def test_another_data_set_may_join(sources: Sources, out: Path, tmp_path: Path) -> None:
    more = {"more": Path(write_prompts(tmp_path / "more.jsonl", 1))}
    results, missing = evaluate(replace(sources, data=more), out)
    assert missing == 0
    assert [group.name for group in results.summary.data_sets] == ["towns", "more", "all"]


def test_a_torn_line_is_asked_again_and_no_other(
    sources: Sources, engine: ScriptedEngine, out: Path
) -> None:
    whole = (out / "answers.jsonl").read_bytes()
    for cut in (1, 20, len(whole.splitlines()[-1])):
        (out / "answers.jsonl").write_bytes(whole[:-cut])
        engine.calls.clear()
        _, missing = evaluate(sources, out, limit=1)
        assert missing == 0 and len(engine.calls) == 2  # the two turns of one trajectory
        lines = (out / "answers.jsonl").read_text().splitlines()
        assert [json.loads(line)["sample"] for line in lines].count(0) == 1


def test_a_log_that_is_one_torn_line_starts_anew(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "answers.jsonl").write_bytes(b'{"dataset": "to')
    _, missing = evaluate(sources, tmp_path / "out")
    assert missing == 0


def test_a_damaged_line_is_told_with_its_number(sources: Sources, out: Path) -> None:
    with (out / "answers.jsonl").open("ab") as file:
        file.write(b"{broken\n")
    with pytest.raises(DataError, match=r"answers\.jsonl:3"):
        evaluate(sources, out)


def test_one_process_at_a_time(sources: Sources, out: Path) -> None:
    with AnswerLog(out), pytest.raises(ConfigError, match="no other evaluation"):
        evaluate(sources, out)


ARGUMENTS = {
    "--out": ["--endpoint", "http://127.0.0.1:1"],
    "--endpoint": ["--out", "OUT"],
    "--data": ["--out", "OUT", "--endpoint", "http://127.0.0.1:1"],
    "--search-url": ["--out", "OUT", "--endpoint", "http://127.0.0.1:1", "--data", "a=b"],
    "--index": [*("--out", "OUT", "--endpoint", "x", "--search-url", "http://y", "--index", "z")],
    "--limit": ["--out", "OUT", "--limit", "0"],
    "evaluate.temperature": ["--temperature", "-1"],
    "NAME=FILE": ["--data", "nofile"],
    "different name": ["--data", "a=b", "--data", "a=c"],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_option_is_told_by_name(
    name: str, tmp_path: Path, sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path / "new") if word == "OUT" else word for word in ARGUMENTS[name]]
    if name in ("evaluate.temperature", "NAME=FILE", "different name"):
        given += ["--out", str(tmp_path / "new"), "--endpoint", "http://127.0.0.1:1"]
        given += ["--search-url", "http://127.0.0.1:1"]
    if name == "evaluate.temperature":
        given += ["--data", f"towns={sources.data['towns']}"]
    assert cli.main(["evaluate", *given]) == cli.USER_FAULT
    assert name in capsys.readouterr().err


def test_the_command_ends_with_2_while_answers_are_missing(
    sources: Sources, engine: ScriptedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", f"towns={sources.data['towns']}", "--endpoint", engine.url, "--config"]
    given += [str(sources.config), "--search-url", sources.search_urls[0], "--samples", "1"]
    given += ["--max-tokens", "2000", "--out", str(tmp_path / "out")]
    once = iter([True])
    engine.refuse = lambda call: next(once, False)
    assert cli.main(["evaluate", *given]) == cli.USER_FAULT
    said = capsys.readouterr()
    assert "1 answers are missing" in said.err and "1 not in the tables" in said.out
    assert cli.main(["evaluate", *given]) == 0
