"""Tables of a report, as rows of strings."""

from __future__ import annotations

from collections.abc import Mapping

from spader_slime.local.metrics_log import TRAIN
from spader_slime.report.data import RunData

COLUMNS = {
    "f1": "F1",
    "recall": "recall",
    "recall_head": "recall, well-known",
    "recall_tail": "recall, hidden",
    "precision": "precision",
    "invalid_format": "invalid",
    "queries": "searches",
    "seen_share": "seen",
}
COUNTS = ("queries",)  # not shares


def scores(run: RunData, split: str) -> list[list[str]]:
    """Header, then a row per searcher; columns that nobody was measured in are left out."""
    rows: dict[str, Mapping[str, float]] = {
        "plain query": run.baseline("plain_query", split),
        "cold start": run.scores("before", split),
        "trained": run.scores("after", split),
    }
    rows = {name: values for name, values in rows.items() if values}
    shown = [key for key in COLUMNS if any(row.get(key) is not None for row in rows.values())]
    body = [[name, *(_cell(row.get(key), key) for key in shown)] for name, row in rows.items()]
    gain = _gain(rows, shown)
    return [[split, *(COLUMNS[key] for key in shown)], *body, *gain]


def _gain(rows: Mapping[str, Mapping[str, float]], shown: list[str]) -> list[list[str]]:
    before, after = rows.get("cold start"), rows.get("trained")
    if before is None or after is None:
        return []
    return [["gain", *(_difference(before.get(key), after.get(key), key) for key in shown)]]


def _cell(value: float | None, key: str) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if key in COUNTS else f"{100 * value:.1f}"


def _difference(before: float | None, after: float | None, key: str) -> str:
    if before is None or after is None:
        return "–"
    return f"{(after - before) * (1 if key in COUNTS else 100):+.1f}"


def facts(run: RunData) -> list[tuple[str, str]]:
    """What was run, how long it took and what it needed; what is not known is left out."""
    done = sum(line["phase"] == TRAIN for line in run.lines)
    known = [
        ("estimator", run.setting("spader.estimator")),
        ("gamma", run.setting("spader.gamma")),
        ("seed", run.setting("run.seed")),
        ("iterations", f"{done} of {run.setting('run.iterations', done)}"),
        ("rollout", _rollout(run)),
        ("policy", _policy(run)),
        ("world", _world(run)),
        ("time", _time(sum(run.seconds.values()))),
        ("peak memory", _memory(run.result.get("peak_memory_mb"))),
        ("largest log-prob gap", _gap(run.result.get("gap_max"))),
    ]
    return [(name, str(value)) for name, value in known if value not in (None, "")]


def _rollout(run: RunData) -> str:
    prompts, samples = run.setting("rollout.prompts"), run.setting("rollout.samples")
    return f"{prompts} questions x {samples} peers" if prompts and samples else ""


def _policy(run: RunData) -> str:
    layers, hidden = run.setting("policy.layers"), run.setting("policy.hidden")
    named = run.setting("policy.hf")
    return str(named) if named else f"Qwen3, {layers} layers of width {hidden}" if layers else ""


def _world(run: RunData) -> str:
    sizes = [f"{v['questions']} {k}" for k, v in (run.world.get("splits") or {}).items()]
    return f"{run.world['passages']:,} passages; questions: {', '.join(sizes)}" if sizes else ""


def _time(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds else ""


def _memory(megabytes: float | None) -> str:
    return f"{megabytes / 1024:.1f} GB" if megabytes else ""


def _gap(gap: float | None) -> str:
    return f"{gap:.1e}" if gap else ""
