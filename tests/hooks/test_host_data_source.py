"""Prompts come in an order that depends on (seed, position) alone."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from spader_slime.errors import CheckpointError, DataError
from spader_slime.local.data_source import DataSource, read_prompts
from spader_slime.local.sample import Sample


def source(seed: int = 1, shuffle: bool = True, size: int = 7) -> DataSource:
    args = Namespace(n_samples_per_prompt=2, rollout_seed=seed, rollout_shuffle=shuffle)
    return DataSource(args, [Sample(prompt=f"q{i}", label=[["a"]]) for i in range(size)])


def prompts(groups: list[list[Sample]]) -> list[Any]:
    return [group[0].prompt for group in groups]


def test_every_epoch_shows_every_prompt_once_in_its_own_order() -> None:
    shown = prompts(source().get_samples(14))
    assert sorted(shown[:7]) == sorted(shown[7:]) == [f"q{i}" for i in range(7)]
    assert shown[:7] != shown[7:]


def test_the_order_depends_on_the_seed_and_not_on_the_batches() -> None:
    one = source()
    in_pieces = [g for size in (1, 4, 2, 5, 2) for g in one.get_samples(size)]
    assert prompts(in_pieces) == prompts(source().get_samples(14))
    assert prompts(in_pieces) != prompts(source(seed=2).get_samples(14))


def test_peers_are_copies_with_running_numbers() -> None:
    first, second = source(shuffle=False).get_samples(2)
    assert [(s.group_index, s.index) for s in first + second] == [(0, 0), (0, 1), (1, 2), (1, 3)]
    first[0].metadata["x"] = 1
    assert first[1].metadata == {} and first[1].metadata is not first[0].metadata


def test_going_on_from_a_state_gives_what_would_have_come() -> None:
    before = source()
    before.get_samples(5)
    unfinished = before.get_samples(1)
    before.add_samples(unfinished)
    state = json.loads(json.dumps(before.state_dict()))
    after = source()
    after.load_state_dict(state)
    kept, rest = after.get_samples(1), after.get_samples(6)
    assert prompts(kept) == prompts(unfinished)
    assert [g[0].to_dict() for g in rest] == [g[0].to_dict() for g in source().get_samples(12)[6:]]


def test_a_state_of_another_run_is_refused() -> None:
    with pytest.raises(CheckpointError, match="seed"):
        source(seed=2).load_state_dict(source(seed=1).state_dict())
    with pytest.raises(CheckpointError, match="prompts"):
        source(size=6).load_state_dict(source().state_dict())


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_slime_rows_and_qampari_rows(tmp_path: Path) -> None:
    rows = [
        {"prompt": [{"role": "user", "content": "q"}], "label": [["Oslo"]], "metadata": {"id": 3}},
        {
            "qid": "7",
            "question_text": "which?",
            "answer_list": [
                {"answer_text": "Oslo", "aliases": ["Christiania", "Oslo"], "tier": "head"},
                {"answer_text": "Bodø"},
            ],
            "metadata": {"subject": "Norway"},
        },
    ]
    first, second = read_prompts(write(tmp_path / "p.jsonl", rows))
    assert first.prompt[0]["content"] == "q" and first.metadata == {"id": 3}  # type: ignore[index]
    assert second.prompt == "which?" and second.label == [["Oslo", "Christiania"], ["Bodø"]]
    assert second.metadata == {"qid": "7", "subject": "Norway", "tiers": ["head", None]}


def test_a_slice_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [{"prompt": f"q{i}", "label": [["a"]]} for i in range(5)])
    assert [s.prompt for s in read_prompts(path + "@[1:3]")] == ["q1", "q2"]
    assert [s.prompt for s in read_prompts(path + "@[3:]")] == ["q3", "q4"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"prompt": "q", "label": "Oslo"}',
        '{"prompt": "q", "label": []}',
        "{broken\n",
        "[1]\n",
        '{"prompt": "q"}\n',
        '{"question_text": "q", "answer_list": null}',
    ],
)
def test_broken_files_say_where(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"p\.jsonl"):
        read_prompts(str(tmp_path / "p.jsonl"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.jsonl"):
        read_prompts(str(tmp_path / "nowhere.jsonl"))
