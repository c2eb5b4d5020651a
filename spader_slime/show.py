"""`spader-slime show`: the peers of one prompt side by side, one row for each decision step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spader_slime.episode import Turn, TurnKind
from spader_slime.errors import ConfigError
from spader_slime.local.dumps import Group, Peer, read_dump


def show(dump: Path, number: int = 0, width: int = 4, console: Console | None = None) -> None:
    """Print group `number` (from 0) of a rollout dump, `width` peers next to each other.

    Raises:
        DataError: the dump can't be read.
        ConfigError: there is no such group, or `width` is not positive.
    """
    groups = read_dump(dump)
    if not 0 <= number < len(groups):
        raise ConfigError("--group", number, f"0 to {len(groups) - 1}")
    if width < 1:
        raise ConfigError("--peers", width, "at least 1")
    console = console or Console()
    group = groups[number]
    console.print(_heading(group, number, len(groups)))
    for start in range(0, len(group.peers), width):
        console.print(peer_table(group.peers[start : start + width], start))


def _heading(group: Group, number: int, total: int) -> str:
    seen = {e for peer in group.peers for e in peer.credit.seen}
    missed = [name for i, name in enumerate(group.gold) if i not in seen]
    nobody = f"; nobody saw {escape(', '.join(missed))}" if missed else ""
    return (
        f"[bold]{escape(group.question)}[/]  prompt {number} of {total}, {len(group.peers)} peers\n"
        f"{len(group.gold)} answers, {len(seen)} seen by some peer{nobody}"
    )


def peer_table(peers: Sequence[Peer], first: int) -> Table:
    """Rows are decision steps, columns are peers; `first` is the number of the first one."""
    table = Table(show_lines=True, expand=True)
    table.add_column("step", justify="right", no_wrap=True)
    for offset, peer in enumerate(peers):
        table.add_column(_title(first + offset, peer), ratio=1, overflow="fold")
    for step in range(max(len(peer.episode.turns) for peer in peers)):
        table.add_row(str(step + 1), *(_cell(peer, step) for peer in peers))
    return table


def _title(number: int, peer: Peer) -> str:
    score = peer.credit.score
    ended = peer.episode.end.value.replace("_", " ")
    left_out = "" if peer.credit.included else ", left out"
    return f"peer {number}\n{ended}{left_out}\nF1 {score.f1:.2f}  recall {score.recall:.2f}"


def _cell(peer: Peer, step: int) -> str:
    if step >= len(peer.episode.turns):
        return ""
    turn, credit = peer.episode.turns[step], peer.credit
    parts = [_action(peer, turn)]
    if turn.search_error:
        parts.append(f"[red]search failed: {turn.search_error}[/]")
    if peer.new_S[step]:
        parts.append(f"[cyan]+{len(peer.new_S[step])} {escape(', '.join(peer.new_S[step]))}[/]")
    advantage = credit.advantages_S[step]
    color = "green" if advantage > 0 else "red" if advantage < 0 else "dim"
    parts.append(f"reward {credit.rewards_S[step]:.2f}  [{color}]adv {advantage:+.2f}[/]")
    return "\n".join(parts)


def _action(peer: Peer, turn: Turn) -> str:
    if turn.kind is TurnKind.SEARCH:
        return escape("\n".join(f"? {query}" for query in turn.queries))
    if turn.kind is TurnKind.ANSWER:
        return f"[bold]answer[/] {escape(', '.join(peer.episode.answer or []))}"
    return f"[red]{turn.kind.value}[/]"
