"""The small world: "Which cities are in COUNTRY?", one passage per city."""

from __future__ import annotations

from collections.abc import Iterable

from spader_slime.local.world.facts import City, load_cities
from spader_slime.local.world.records import (
    Question,
    World,
    WorldPassage,
    population_prior,
    rank_entities,
    slug,
)
from spader_slime.local.world.subjects import Subject, choose_subjects

SPLITS = {"train": 64, "dev": 24, "test": 60}
ASK = ("Which cities are in", "?")  # around the subject
TELL = ("In", ",", ", near", ".")  # region, country, neighbour, each after its piece; the end


def small_world(seed: int) -> World:
    """A country belongs to one split only, and no city name to two countries.

    Raises:
        DataError: the data package is missing.
    """
    subjects = choose_subjects(load_cities(), sum(SPLITS.values()), seed)
    passages = [passage for subject in subjects for passage in _passages(subject)]
    names = sorted(set(_names(subjects)))
    return World(
        questions=_split(subjects),
        passages=sorted(passages, key=lambda p: (-p.prior, p.id)),
        names=names,
        tokens=names,
        phrases=[*ASK, *TELL],
    )


def _split(subjects: list[Subject]) -> dict[str, list[Question]]:
    left = iter(subjects)
    return {split: [_question(next(left)) for _ in range(n)] for split, n in SPLITS.items()}


def _question(subject: Subject) -> Question:
    before, after = ASK
    return Question(
        qid=f"cities-of-{slug(subject.name)}",
        text=f"{before} {subject.name}{after}",
        answers=tuple(rank_entities([city.name for city in subject.cities])),
        metadata={"relation": "cities of country", "subject": subject.name},
    )


def _passages(subject: Subject) -> list[WorldPassage]:
    return [_passage(*pair) for pair in zip(subject.cities, subject.near, strict=True)]


def _passage(city: City, near: City | None) -> WorldPassage:
    start, then, beside, end = TELL
    clue = f"{beside} {near.name}" if near else ""
    return WorldPassage(
        id=f"{slug(city.country)}__{slug(city.name)}",
        title=city.name,
        text=f"{start} {city.region}{then} {city.country}{clue}{end}",
        prior=population_prior(city.population),
    )


def _names(subjects: list[Subject]) -> Iterable[str]:
    for subject in subjects:
        yield subject.name
        for city in subject.cities:
            yield from (city.name, city.region)
