"""One trajectory in the terminal, step by step."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.text import Text

from spader_slime.algorithms.answers import AnswerKey
from spader_slime.algorithms.entities import EntityMatcher
from spader_slime.episode import Document, Episode, Turn, TurnKind

Gold = list[list[str]] | None  # alias lists of the known answers, where they are known
LETTERS = 110  # of a document


def print_trajectory(console: Console, question: str, episode: Episode, gold: Gold = None) -> None:
    """Queries, what they showed, and the answer; with `gold`, what was new and what was right."""
    console.print(f"\n[bold]{escape(question)}[/]")
    matcher = EntityMatcher(gold) if gold else None
    seen: set[int] = set()
    for number, turn in enumerate(episode.turns, start=1):
        found = matcher.find_in_documents(turn.documents) - seen if matcher else set()
        seen |= found
        console.print(Rule(_heading(number, turn, len(found) if matcher else None), align="left"))
        for document in turn.documents:
            console.print(_line(document))
        if turn.search_error:
            console.print(f"[red]search failed: {turn.search_error}[/]")
    _print_answer(console, episode, gold, len(seen))


def _heading(number: int, turn: Turn, new: int | None) -> str:
    if turn.kind is TurnKind.ANSWER:
        return f"{number}  answer"
    if turn.kind is not TurnKind.SEARCH:
        return f"{number}  [red]{turn.kind.value}[/]"
    found = "" if new is None else f"  [cyan]+{new} new[/]" if new else "  [dim]nothing new[/]"
    return f"{number}  [bold]? {escape('; '.join(turn.queries))}[/]{found}"


def _line(document: Document) -> Text:
    line = Text("   ")
    line.append(document.title, style="bold")
    line.append("  " + " ".join(document.text.split()), style="dim")
    line.truncate(LETTERS, overflow="ellipsis")
    return line


def _print_answer(console: Console, episode: Episode, gold: Gold, seen: int) -> None:
    console.print()
    if episode.answer is None:
        reason = f": {escape(episode.error)}" if episode.error else ""
        console.print(f"[red]no answer ({episode.end.value.replace('_', ' ')}{reason})[/]")
        return
    key = AnswerKey(gold) if gold else None
    for name in episode.answer:
        right = key.score([name]).recall > 0 if key else None
        mark = "  " if right is None else "[green]+[/] " if right else "[red]-[/] "
        console.print(f" {mark}{escape(name)}")
    if key and gold:
        score = key.score(episode.answer)
        console.print(
            f"\nF1 {score.f1:.2f}, recall {score.recall:.2f}, precision {score.precision:.2f}; "
            f"{len(gold)} answers are known, the searches showed {seen}"
        )
