"""The results of a folder, made from its log: scores, tables, pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from spader_slime.errors import DataError
from spader_slime.evaluation.bootstrap import LEVEL, RESAMPLES
from spader_slime.evaluation.grids import Grid, grids, lost_line
from spader_slime.evaluation.log import AnswerLog, lost
from spader_slime.evaluation.render import markdown, page, print_grids
from spader_slime.evaluation.scores import Scored, Scorer
from spader_slime.evaluation.summary import Summary, summarize
from spader_slime.evaluation.tiers import tiers_of
from spader_slime.files import write_whole
from spader_slime.scorings import find_scoring

TITLE = "Evaluation"


@dataclass(frozen=True)
class Results:
    """Everything that the log of a folder says under one scoring.

    Attributes:
        lost: reason -> trajectories that engine or search service failed, asked last.
        notes: what a reader of the tables has to know.
    """

    folder: Path
    scoring: str
    scored: list[Scored]
    summary: Summary
    tables: list[Grid]
    lost: dict[str, int]
    notes: list[str]

    def show(self, console: Console) -> None:
        """Tables and notes in the terminal."""
        print_grids(console, self.notes, self.tables)

    def write(self) -> None:
        """Write `results.jsonl`, `.json`, `.md` and `.html`, each whole or not at all."""
        lines = (orjson.dumps(_line(one, self.scoring)) + b"\n" for one in self.scored)
        whole = {
            "scoring": self.scoring,
            "interval": {"level": LEVEL, "resamples": RESAMPLES, "over": "questions"},
            **self.summary.to_dict(),
            "lost": self.lost,
        }
        texts = {
            "results.jsonl": b"".join(lines),
            "results.json": orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n",
            "results.md": markdown(TITLE, self.notes, self.tables).encode(),
            "results.html": page(TITLE, self.notes, self.tables).encode(),
        }
        for name, content in texts.items():
            write_whole(self.folder / name, content)


def results_of(folder: Path, scoring: str, corpus: Sequence[Path] = ()) -> Results:
    """Score everything that was asked in `folder`.

    Args:
        corpus: where to count how well known the gold answers are; empty: the tiers of the data.

    Raises:
        DataError: nothing was asked there yet, a damaged log, or a source that the scoring has
            no rule for.
    """
    log = AnswerLog(folder)
    settings, lines = log.settings(), list(log.read().values())
    if not lines:
        raise DataError(f"{folder} holds no answers: ask first (`spader-slime evaluate --help`)")
    kept = [line for line in lines if not lost(line)]
    tiers = _tiers(kept, corpus, folder) if corpus else None
    questions = len({(line["dataset"], line["number"]) for line in kept})
    scorer = Scorer(find_scoring(scoring), settings["agent"]["protocol"], tiers.of if tiers else {})
    scored = scorer.all(kept)
    summary = summarize(scored, list(settings["data"]), pooled=scoring != "official")
    missing = _missing(lines)
    notes = [_about(scoring, settings, questions), *_left_out(settings["data"])]
    notes += [lost_line(missing)] if missing else []
    tables = grids(summary, tiers.note if tiers else "As the data says.")
    return Results(folder, scoring, scored, summary, tables, missing, notes)


def _tiers(lines: Sequence[Mapping[str, Any]], corpus: Sequence[Path], folder: Path) -> Any:
    gold = {(line["dataset"], line["number"]): line["gold"] for line in lines}
    return tiers_of(gold, corpus, folder)


def _missing(lines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    reasons = (str(line["error"] or line["end"]) for line in lines if lost(line))
    return dict(Counter(reasons).most_common())


def _about(scoring: str, settings: Mapping[str, Any], questions: int) -> str:
    ask, policy = settings["ask"], settings["policy"]
    how = f"{ask['samples']} per question at temperature {ask['temperature']:g}"
    model = policy.get("model_path") or "checkpoint"
    return f"Scoring: {scoring}. Policy: {model}. {questions} questions, {how}."


def _left_out(data: Mapping[str, Any]) -> list[str]:
    """Rows of the files that can't be asked."""
    said = []
    for name, known in data.items():
        reasons = ", ".join(f"{count} x {why}" for why, count in known["left_out"].items())
        said += [f"Rows of {name} left out: {reasons}."] if reasons else []
    return said


def _line(one: Scored, scoring: str) -> dict[str, Any]:
    """A trajectory as a reader of `results.jsonl` wants it."""
    line = one.line
    kept = ("dataset", "number", "sample", "id", "question", "gold", "end")
    return {
        **{name: line[name] for name in kept},
        "prediction": one.prediction,
        "scoring": scoring,
        "scores": one.values,
        "queries": [list(turn["queries"]) for turn in line["turns"]],
        "titles": [list(turn["titles"]) for turn in line["turns"]],
        "tokens": {
            "prompt": line["prompt_tokens"],
            "response": line["response_tokens"],
            "sampled": sum(turn["sampled_tokens"] for turn in line["turns"]),
            "observations": sum(turn["observation_tokens"] for turn in line["turns"]),
        },
    }
