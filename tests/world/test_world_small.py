from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spader_slime.errors import DataError
from spader_slime.local.world.build import WorldFiles, build_world, open_world
from spader_slime.local.world.facts import contains, words

SPLITS = ("train", "dev", "test")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def subject(question: dict[str, Any]) -> str:
    return str(question["metadata"]["subject"])


def gold(question: dict[str, Any]) -> list[str]:
    return [answer["answer_text"] for answer in question["answer_list"]]


@pytest.fixture(scope="module")
def questions(small_files: WorldFiles) -> dict[str, list[dict[str, Any]]]:
    return {split: rows(small_files.questions(split)) for split in SPLITS}


@pytest.fixture(scope="module")
def corpus(small_files: WorldFiles) -> list[dict[str, Any]]:
    return rows(small_files.corpus)


def test_enough_questions_for_a_fair_comparison(questions: dict[str, Any]) -> None:
    assert len(questions["train"]) >= 64 and len(questions["dev"]) >= 20
    assert len(questions["test"]) >= 60


def test_qampari_form(questions: dict[str, Any]) -> None:
    for question in questions["test"]:
        assert {"qid", "question_text", "answer_list"} <= set(question)
        assert subject(question) in question["question_text"]
        for rank, answer in enumerate(question["answer_list"], 1):
            assert answer["answer_text"] in answer["aliases"] and answer["rank"] == rank
            assert {"aid", "proof"} <= set(answer)


def test_head_is_the_first_third(questions: dict[str, Any]) -> None:
    for question in questions["train"]:
        tiers = [answer["tier"] for answer in question["answer_list"]]
        assert tiers == sorted(tiers) and 3 * tiers.count("head") in range(
            len(tiers), len(tiers) + 3
        )


def test_splits_share_no_subject_and_no_answer(questions: dict[str, Any]) -> None:
    everything = [question for split in SPLITS for question in questions[split]]
    subjects = [subject(question) for question in everything]
    names = [words(name) for question in everything for name in gold(question)]
    assert len(set(subjects)) == len(subjects)
    assert len(set(names)) == len(names)


def test_the_world_is_closed(questions: dict[str, Any], corpus: list[dict[str, Any]]) -> None:
    """Passages that name a subject as the country are about its gold answers, and all of them."""
    for split in SPLITS:
        for question in questions[split]:
            marker = f", {subject(question)}"
            named = {
                p["meta"]["title"]
                for p in corpus
                if p["meta"]["content"].split(", near")[0].rstrip(".").endswith(marker)
            }
            assert named == set(gold(question))


def test_clues_name_gold_answers_of_the_same_country(
    questions: dict[str, Any], corpus: list[dict[str, Any]]
) -> None:
    country = {n: subject(q) for split in SPLITS for q in questions[split] for n in gold(q)}
    clues = [p["meta"] for p in corpus if ", near " in p["meta"]["content"]]
    assert len(clues) == len(corpus) - len(set(country.values()))
    for meta in clues:
        near = meta["content"].split(", near ")[1].rstrip(".")
        assert country[near] == country[meta["title"]]


def test_no_answer_is_named_inside_another_of_its_question(questions: dict[str, Any]) -> None:
    for question in questions["test"]:
        names = [words(name) for name in gold(question)]
        inside = [a for a in names for b in names if a != b and contains(b, a)]
        assert inside == [] and not any(contains(words(subject(question)), n) for n in names)


@pytest.mark.parametrize("split", SPLITS)
def test_a_plain_query_shows_the_head_and_clues_lead_on(
    small_files: WorldFiles, split: str
) -> None:
    figures = json.loads(small_files.figures.read_text())["splits"][split]
    assert 0.15 < figures["plain"] < 0.3
    assert figures["plain_head"] > 0.45 and figures["plain_tail"] < 0.08
    assert figures["plain"] + 0.2 < figures["random_clues"] < figures["oracle"] - 0.1
    assert 0.6 < figures["oracle"] < 0.9


def contents(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file() and "index" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_the_same_seed_gives_the_same_bytes(small_files: WorldFiles, tmp_path: Path) -> None:
    again = build_world("small", tmp_path / "again", seed=0)
    first, second = contents(small_files.root), contents(again.root)
    assert {"train.jsonl", "corpus.jsonl", "world.json", "tokenizer/tokenizer.json"} <= set(first)
    assert first == second


def test_another_seed_gives_another_split(small_files: WorldFiles, tmp_path: Path) -> None:
    other = build_world("small", tmp_path / "other", seed=1)
    first, second = (rows(files.questions("test")) for files in (small_files, other))
    assert {subject(q) for q in first} != {subject(q) for q in second}


def test_an_incomplete_world_is_not_opened(small_files: WorldFiles, tmp_path: Path) -> None:
    assert open_world(small_files.root) == small_files
    with pytest.raises(DataError, match="no complete world"):
        open_world(tmp_path)


def test_an_unknown_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="small"):
        build_world("huge", tmp_path)
