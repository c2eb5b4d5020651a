"""Chats into a fine-tuning file for slime, and the check of such a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spader_slime.data.question import BadRecord, LeftOut
from spader_slime.data.reading import Record, count_records, read_records
from spader_slime.data.sft_messages import Chat, Message, read_chat
from spader_slime.data.sft_render import ChatRenderer, Rendered
from spader_slime.data.sft_report import SftReport
from spader_slime.data.sft_rows import read_row, sft_row, sft_schema
from spader_slime.data.writing import writer
from spader_slime.errors import DataError

TRIMMED = "messages after the last assistant turn were taken off"
SHARED = "consecutive tool messages: slime v0.3.1's own SFT rollout makes separate turns of them"


@dataclass(frozen=True)
class SftOptions:
    """How chats are taken.

    Attributes:
        observation_tag: blocks of this tag inside assistant turns are not learned; "": none.
        source: replaces the rows' source.
        renderer: of the model's tokenizer; None: rows are not rendered.
        max_tokens: longer rows are left out; needs a renderer.
        strict: end at the first broken row.
    """

    observation_tag: str = "information"
    source: str | None = None
    renderer: ChatRenderer | None = None
    max_tokens: int | None = None
    strict: bool = False


def convert_chats(inputs: Sequence[Path], out: Path, options: SftOptions) -> SftReport:
    """Write sound chats to `out` (.parquet or .jsonl), and a report beside it.

    Raises:
        DataError: unreadable files, a broken row under `strict`, or nothing to write.
    """
    if out.resolve() in [path.resolve() for path in inputs]:
        raise DataError(f"{out} is also an input")
    report = SftReport()
    with writer(out, sft_schema() if out.suffix == ".parquet" else None) as write:
        for record in _records(inputs):
            report.rows_in += 1
            try:
                write(_converted(record, out, options, report))
            except BadRecord as why:
                report.lost(record.place, why)
                if options.strict and not isinstance(why, LeftOut):
                    raise DataError(f"{record.place}: {why}") from why
        if not report.rows_out:
            raise DataError("no row is left to write; " + "; ".join(report.lines()))
    report.write(out.with_name(out.name + ".report.json"))
    return report


def check_chats(
    path: Path,
    renderer: ChatRenderer,
    max_tokens: int | None = None,
    seen: Callable[[str, Rendered], None] = lambda place, rendered: None,
) -> SftReport:
    """Render every row of a written file as training will.

    Args:
        seen: gets the place of every sound row, and what it became.

    Raises:
        DataError: a file that can't be read at all.
    """
    report = SftReport()
    for record in _records([path]):
        report.rows_in += 1
        try:
            row = read_row(record)
            rendered = _rendered(renderer, row.messages, row.tools, row.observation_tag, max_tokens)
        except BadRecord as why:
            report.lost(record.place, why)
            continue
        seen(record.place, rendered)
        turns = sum(message["role"] == "assistant" for message in row.messages)
        report.kept(turns, row.source, rendered)
        report.notes.update(remarks(row.messages))
    return report


def load_renderer(folder: str | Path) -> ChatRenderer:
    """The renderer of a model folder's tokenizer.

    Raises:
        DataError: transformers is missing, no tokenizer in the folder, or none with a template.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise DataError("needs transformers: pip install 'spader_slime[local]'") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise DataError(f"no tokenizer in {folder}: {error!s:.200}") from error
    if not tokenizer.chat_template:
        raise DataError(f"the tokenizer in {folder} has no chat template")
    return ChatRenderer(tokenizer)


def remarks(messages: Sequence[Message]) -> list[str]:
    """What is worth knowing about a sound chat."""
    roles = [message["role"] for message in messages]
    return [SHARED] if ("tool", "tool") in pairwise(roles) else []


def _records(inputs: Sequence[Path]) -> Iterator[Record]:
    for path in inputs:
        records = read_records(path)
        yield from tqdm(
            records, desc=path.name, unit=" rows", total=count_records(path),
            disable=None, leave=False,
        )  # fmt: skip


def _converted(record: Record, out: Path, options: SftOptions, report: SftReport) -> dict[str, Any]:
    if record.value is None:
        raise BadRecord("unreadable", record.fault)
    chat = read_chat(record.value)
    row = sft_row(replace(chat, source=options.source or chat.source), out, options.observation_tag)
    rendered = None
    if options.renderer:
        tag = row["metadata"]["observation_tag"]
        rendered = _rendered(options.renderer, row["messages"], chat.tools, tag, options.max_tokens)
    report.kept(chat.turns, row["metadata"]["source_name"], rendered)
    report.notes.update(_chat_remarks(chat))
    return row


def _chat_remarks(chat: Chat) -> list[str]:
    return [*remarks(chat.messages), *([TRIMMED] if chat.trimmed else [])]


def _rendered(
    renderer: ChatRenderer,
    messages: Sequence[Message],
    tools: Sequence[Any],
    tag: str,
    max_tokens: int | None,
) -> Rendered:
    rendered = renderer.render(messages, tools, tag)
    if max_tokens is not None and len(rendered.ids) > max_tokens:
        raise LeftOut(f"longer than {max_tokens} tokens", f"{len(rendered.ids)} tokens")
    return rendered
