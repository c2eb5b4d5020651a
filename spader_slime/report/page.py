"""The HTML page: one file, pictures inside, nothing to fetch."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from omegaconf import OmegaConf

from spader_slime.report.data import RunData
from spader_slime.report.style import DPI
from spader_slime.report.tables import facts, scores

STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f8fa; color: #24292f;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 40px 20px 80px; }
h1 { font-size: 28px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 4px 0 14px; max-width: 70ch; color: #57606a; }
section { background: #fff; border: 1px solid #d8dee4; border-radius: 10px;
  padding: 22px 24px; margin-top: 20px; overflow-x: auto; }
img { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; margin: 6px 0 10px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 14px; border-bottom: 1px solid #eaeef2; }
th { color: #57606a; font-weight: 600; font-size: 13px; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.trained td { font-weight: 600; color: #1f6feb; }
tr.gain td { color: #57606a; font-size: 13px; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 14px; }
.facts div { font-weight: 600; }
.facts span { display: block; font-weight: 400; font-size: 13px; color: #57606a; }
pre { background: #f6f8fa; padding: 14px; border-radius: 6px; overflow-x: auto; font-size: 13px; }
summary { cursor: pointer; color: #57606a; }
footer { margin-top: 24px; font-size: 13px; color: #57606a; }
"""


@dataclass(frozen=True)
class Picture:
    """A plot on the page; `png` holds the file's bytes; `wide` ones scroll sideways."""

    title: str
    caption: str
    png: bytes
    wide: bool = False


def page(run: RunData, pictures: Sequence[Picture]) -> str:
    """The whole document."""
    parts = [
        _heading(run),
        *(_scores(run, split) for split in run.splits),
        *(_section(picture) for picture in pictures),
        _facts(run),
        _config(run),
        _attribution(run),
    ]
    title = escape(f"{run.root.name} - spader_slime")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


def _heading(run: RunData) -> str:
    state = "" if run.result else " The run has not finished yet: this is what is known so far."
    about = f"What a search agent learned in the run <b>{escape(run.root.name)}</b>.{state}"
    return f"<h1>Search until the list is complete</h1>\n<p>{about}</p>"


def _scores(run: RunData, split: str) -> str:
    head, *rows = scores(run, split)
    cells = "".join(f"<th>{escape(name)}</th>" for name in ["", *head[1:]])
    body = "".join(
        f'<tr class="{escape(row[0])}">' + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>"
        for row in rows
    )
    return (
        f"<section><h2>Held-out questions: {escape(split)}</h2>\n<p>Percent, and searches per "
        f"question. The plain query is a script: one search, answered with what it shows.</p>\n"
        f"<table><tr>{cells}</tr>{body}</table></section>"
    )


def _section(picture: Picture) -> str:
    source = f"data:image/png;base64,{b64encode(picture.png).decode()}"
    pixels = int.from_bytes(picture.png[16:20], "big")  # the width in a PNG's header
    shape = f' style="width: {pixels * 96 // DPI}px"' if picture.wide else ""
    return (
        f"<section><h2>{escape(picture.title)}</h2>\n<p>{escape(picture.caption)}</p>\n"
        f'<img{shape} src="{source}" alt="{escape(picture.title)}"></section>'
    )


def _facts(run: RunData) -> str:
    boxes = "".join(
        f"<div><span>{escape(name)}</span>{escape(value)}</div>" for name, value in facts(run)
    )
    return f'<section><h2>The run</h2><div class="facts">{boxes}</div></section>'


def _config(run: RunData) -> str:
    if not run.config:
        return ""
    text = escape(OmegaConf.to_yaml(OmegaConf.create(dict(run.config))))
    return (
        f"<section><details><summary>Configuration</summary><pre>{text}</pre></details></section>"
    )


def _attribution(run: RunData) -> str:
    found = run.world.get("attribution") or []
    lines = [found] if isinstance(found, str) else found
    return f"<footer>{escape('; '.join(lines))}</footer>" if lines else ""
