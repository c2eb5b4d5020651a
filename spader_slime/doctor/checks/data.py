"""Prompt files: columns, prompts, gold answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spader_slime.algorithms.gold import as_gold
from spader_slime.doctor.facts import DataFile, Facts
from spader_slime.doctor.findings import Finding, error, ok, warning
from spader_slime.errors import DataError

TAGS = {"spader": ("<tool_call>", "<answer>"), "search_r1": ("<search>", "<answer>")}
GOLD = "a list of answers, each a list of its aliases"


def check(facts: Facts) -> Iterator[Finding]:
    """Every row can be read, asked and rewarded: the fully-async loop just loses a bad one."""
    if not any(file.name == "train" for file in facts.data):
        yield error("--prompt-data", "not given", "add it: the file with training questions")
    for file in facts.data:
        yield from _file(file, facts)
    yield from _overlap(facts.data)
    yield from _enough(facts)


def _file(file: DataFile, facts: Facts) -> Iterator[Finding]:
    name = f"{file.name} data"
    if file.fault:
        yield error(name, file.path, file.fault)
        return
    if not file.rows:
        yield error(name, file.path, "it has no rows")
        return
    findings = [*_columns(file, name), *_rows(file, name), *_instructions(file, name, facts)]
    seen = f"{len(file.rows):,} rows" + ("" if file.complete else " at its start")
    yield from findings or [ok(name, f"{file.path}: {seen}")]


def _columns(file: DataFile, name: str) -> Iterator[Finding]:
    listed = f"the file has {', '.join(file.columns)}"
    if file.unreadable:
        advice = "slime passes over lines that are not JSON objects: correct them"
        yield error(name, f"{file.unreadable} bad lines", advice)
    if file.label_key is None:
        yield error("--label-key", "not given", f"name the column of the gold answers; {listed}")
    for flag, key in (("--input-key", file.input_key), ("--label-key", file.label_key)):
        if key is not None and key not in file.columns:
            yield error(flag, key, f"{name} has no such column; {listed}")


def _rows(file: DataFile, name: str) -> Iterator[Finding]:
    """One finding per kind of fault: how many rows, which one first, and what is wrong there."""
    kinds: list[tuple[str, Callable[[Any], str], str]] = [
        (file.input_key, _bad_prompt, "a question, or a list of chat messages"),
        (file.metadata_key, _bad_metadata, "an object, or leave it out"),
        (file.tool_key, _bad_tools, "a list: slime takes this column as tools (--tool-key)"),
    ]
    if file.label_key is not None:
        kinds.insert(1, (file.label_key, _bad_label, GOLD))
    for key, fault, wanted in kinds:
        if key not in file.columns:
            continue
        optional = key == file.tool_key
        told = ((n, row) for n, row in enumerate(file.rows) if key in row or not optional)
        faults = [(n, text) for n, row in told if (text := fault(row.get(key)))]
        if faults:
            first, text = faults[0]
            value = f"{len(faults):,} of {len(file.rows):,} rows"
            yield error(f"{name}: {key}", value, f"row {first}: {text}; it has to be {wanted}")


def _bad_prompt(prompt: Any) -> str:
    if isinstance(prompt, str):
        return "" if prompt.strip() else "blank"
    if not isinstance(prompt, list) or not prompt:
        return f"{type(prompt).__name__}, empty or not a chat"
    good = all(isinstance(m, Mapping) and m.get("role") and "content" in m for m in prompt)
    return "" if good else "a message without role or content"


def _bad_label(label: Any) -> str:
    try:
        as_gold(label)
    except DataError as fault:
        return str(fault)
    return ""


def _bad_metadata(metadata: Any) -> str:
    return "" if metadata is None or isinstance(metadata, Mapping) else type(metadata).__name__


def _bad_tools(tools: Any) -> str:
    return "" if isinstance(tools, list | str) else type(tools).__name__


def _instructions(file: DataFile, name: str, facts: Facts) -> Iterator[Finding]:
    """Prompts that slime renders, or that are chats, must tell the model how to search."""
    config = facts.config.value
    tags = TAGS.get(config.agent.protocol, ()) if config is not None else ()
    rendered = facts.flags.on("apply-chat-template")
    bare = [
        number
        for number, row in enumerate(file.rows)
        if (rendered or isinstance(row.get(file.input_key), list))
        and not all(tag in json.dumps(row.get(file.input_key), default=str) for tag in tags)
    ]
    if bare:
        way = (
            "leave out --apply-chat-template and give plain questions"
            if rendered
            else ("give plain questions instead of chats")
        )
        advice = f"row {bare[0]} never shows {' '.join(tags)}: {way}, so that our prompt is used"
        yield warning(f"{name}: {file.input_key}", f"{len(bare):,} prompts", advice)


def _overlap(data: tuple[DataFile, ...]) -> Iterator[Finding]:
    train = {_key(row, file) for file in data if file.name == "train" for row in file.rows}
    for file in data:
        shared = sum(_key(row, file) in train for row in file.rows) if file.name != "train" else 0
        if shared:
            advice = "these questions are trained on: evaluate on others"
            yield warning(f"{file.name} data", f"{shared:,} questions of the training data", advice)


def _key(row: Mapping[str, Any], file: DataFile) -> str:
    return json.dumps(row.get(file.input_key), sort_keys=True, default=str)


def _enough(facts: Facts) -> Iterator[Finding]:
    prompts = facts.flags.integer("rollout-batch-size") or 0
    for file in facts.data:
        if file.name == "train" and file.complete and 0 < len(file.rows) < prompts:
            advice = f"fewer than --rollout-batch-size {prompts}: questions repeat within a batch"
            yield warning("train data", f"{len(file.rows)} rows", advice)
