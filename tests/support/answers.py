"""Lines of an evaluation's log, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from spader_slime.algorithms.answers import parse_answer


def log_line(number: int = 0, turns: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    """A trajectory of these assistant turns; `fields` replace what follows from them."""
    answer = fields.get("answer", parse_answer(turns[-1]) if turns else None)
    line = {
        "dataset": "test",
        "number": number,
        "sample": 0,
        "id": f"q{number}",
        "question": f"Which towns? {number}",
        "gold": [["Oslo"], ["Bergen"]],
        "source": "qampari",
        "official": [],
        "tiers": [],
        "end": "invalid" if answer is None else "answered",
        "error": None,
        "answer": answer,
        "turns": [turn(text) for text in turns],
        "seen": [],
        "prompt_tokens": 10,
        "response_tokens": 20,
    }
    return line | fields


def turn(text: str, calls: int = 0) -> dict[str, Any]:
    counts = {"sampled_tokens": 10, "observation_tokens": 0}
    return {"text": text, "calls": calls, "queries": [], "titles": [], **counts}


def write_log(folder: Path, lines: Sequence[dict[str, Any]], protocol: str = "spader") -> Path:
    """A folder that holds these answers."""
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(line["dataset"] for line in lines)
    settings = {
        "policy": {"model_path": "made up"},
        "ask": {"samples": 1, "temperature": 0.0},
        "agent": {"protocol": protocol},
        "data": {name: {"file": "-", "sha256": "-", "left_out": {}} for name in names},
    }
    (folder / "settings.json").write_bytes(orjson.dumps(settings))
    (folder / "answers.jsonl").write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines))
    return folder
