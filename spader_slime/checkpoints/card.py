"""The model card, `README.md` of an exported folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spader_slime.checkpoints.run_facts import METRICS, RunFacts, gather
from spader_slime.errors import CheckpointError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_METHODS = {
    "spa": "SPADER: step-wise peer advantage with diversity-aware exploration rewards",
    "grpo": "GRPO: advantages of whole trajectories relative to their group",
}


@dataclass(frozen=True)
class CardFacts:
    """What the user says; None or empty: what is found.

    Attributes:
        base_model, license, datasets: as the hub names them.
        run: the run folder.
        title: heading of the card.
    """

    base_model: str | None = None
    license: str | None = None
    datasets: tuple[str, ...] = ()
    run: Path | None = None
    title: str | None = None


def card_text(origin: Path, checkpoint: Path, told: CardFacts) -> str:
    """What `README.md` of the exported folder says.

    Raises:
        CheckpointError: files of the run or the origin's card are damaged.
    """
    facts = gather(checkpoint, told.run)
    base = told.base_model or _base_model(origin)
    license_name = told.license or _license(origin)
    head: dict[str, Any] = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    if license_name:
        head["license"] = license_name
    if _HUB_NAME.fullmatch(base):
        head |= {"base_model": base, "base_model_relation": "finetune"}
    head["tags"] = ["spader", "search-agent", "multi-turn", "reinforcement-learning"]
    if told.datasets:
        head["datasets"] = list(told.datasets)
    title = told.title or f"{base.rpartition('/')[2]}, trained to search"
    body = [
        f"# {title}",
        _about(base, facts),
        "## Usage\n\n" + _USAGE,
        "## Results\n\n" + _results(facts),
        "## Settings\n\n" + _settings(facts.settings),
        "## Data\n\n" + _data(told.datasets, facts),
        "## License\n\n" + (license_name or "Not stated; that of the base model applies."),
    ]
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n" + "\n\n".join(body) + "\n"


def _base_model(origin: Path) -> str:
    config = json.loads((origin / "config.json").read_text(encoding="utf-8"))
    named = str(config.get("_name_or_path") or "")
    return named if _HUB_NAME.fullmatch(named) else origin.resolve().name


def _license(origin: Path) -> str | None:
    """As the front matter of the origin's own card has it."""
    path = origin / "README.md"
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        return None
    try:
        found = yaml.safe_load(parts[1])
    except yaml.YAMLError as error:
        raise CheckpointError(f"{path}: damaged front matter ({error})") from error
    return str(found["license"]) if isinstance(found, dict) and found.get("license") else None


def _about(base: str, facts: RunFacts) -> str:
    method = _METHODS.get(facts.estimator, facts.estimator)
    lines = [f"A multi-turn search agent, trained from `{base}` with Megatron."]
    if method:
        lines.append(f"Method: {method}.")
    if facts.iteration is not None:
        lines.append(f"Iteration {facts.iteration} of training.")
    return " ".join(lines)


_USAGE = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this folder, or its name on the hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
```

The model calls a search tool in its turns; the loop around it is `spader_slime`'s agent, with the
protocol and prompt that it was trained with."""


def _results(facts: RunFacts) -> str:
    if not facts.after:
        return "No held-out metrics were found beside the checkpoint."
    rows = ["| split | metric | before | after |", "|---|---|---|---|"]
    for split, after in sorted(facts.after.items()):
        before = facts.before.get(split, {})
        for name in METRICS:
            if name in after:
                rows.append(
                    f"| {split} | {name} | {_number(before, name)} | {_number(after, name)} |"
                )
    return "\n".join(rows)


def _number(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return f"{value:.4g}" if isinstance(value, int | float) else ""


def _settings(settings: Mapping[str, Any]) -> str:
    if not settings:
        return "None were found beside the checkpoint."
    rows = ["| setting | value |", "|---|---|"]
    told = {name: str(value).replace("|", "\\|") for name, value in settings.items()}
    told = {name: text for name, text in told.items() if "/" not in text and "\n" not in text}
    return "\n".join([*rows, *(f"| `{name}` | {text} |" for name, text in told.items())])


def _data(datasets: tuple[str, ...], facts: RunFacts) -> str:
    named = [f"[{name}](https://huggingface.co/datasets/{name})" for name in datasets]
    return ", ".join([*named, *facts.data]) or "Not stated."
