"""Tables for the terminal, as Markdown and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table

from spader_slime.evaluation.grids import Grid

_STYLE = """
body { margin: 0 auto; max-width: 1060px; padding: 32px 20px; color: #24292f;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin: 28px 0 0; }
p { color: #57606a; margin: 4px 0; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin-top: 8px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 14px; border-bottom: 1px solid #eaeef2; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
"""


def print_grids(console: Console, notes: Sequence[str], tables: Sequence[Grid]) -> None:
    """Notes, then every table."""
    for grid in tables:
        shown = Table(title=grid.title, caption=grid.note or None, title_justify="left")
        for number, name in enumerate(grid.head):
            shown.add_column(name, justify="right" if number else "left", no_wrap=not number)
        for row in grid.rows:
            shown.add_row(*row)
        console.print(shown)
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def markdown(title: str, notes: Sequence[str], tables: Sequence[Grid]) -> str:
    """One Markdown document."""
    parts = [f"# {title}", *notes]
    for grid in tables:
        parts += [f"## {grid.title}", *([grid.note] if grid.note else []), _pipes(grid)]
    return "\n\n".join(parts) + "\n"


def _pipes(grid: Grid) -> str:
    rule = ["---", *["---:"] * (len(grid.head) - 1)]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (grid.head, rule, *grid.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def page(title: str, notes: Sequence[str], tables: Sequence[Grid]) -> str:
    """One HTML page that fetches nothing."""
    said = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    parts = "\n".join(map(_section, tables))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{said}{parts}\n</body></html>\n"
    )


def _section(grid: Grid) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in grid.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in grid.rows
    )
    note = f"<p>{escape(grid.note)}</p>" if grid.note else ""
    return (
        f"<section><h2>{escape(grid.title)}</h2>{note}<table><tr>{head}</tr>\n{rows}</table>"
        "</section>"
    )
