"""Which countries the small world asks about, and which of their cities it knows.

The world is closed: the corpus holds exactly the cities chosen here, so "every city of X" has a
complete answer. A subject's cities are its largest ones in at most `MAX_REGIONS` regions, which
lets a query for a region lead to several of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from spader_slime.local.world.facts import City, contains, distance, words

GOLD_RANGE = (12, 20)  # gold answers per question
MAX_REGIONS = 4


@dataclass(frozen=True)
class Subject:
    """A country and its cities, the most populous first.

    `near[i]` is the clue of `cities[i]`: the nearest larger city of the same subject (None for
    the largest).
    """

    name: str
    cities: tuple[City, ...]
    near: tuple[City | None, ...]


def choose_subjects(cities: Sequence[City], count: int, seed: int) -> list[Subject]:
    """`count` countries in a seeded order, each with 12 to 20 cities; no city name occurs twice.

    Of the countries with enough cities, those whose cities have most inhabitants are taken.

    Args:
        cities: most populous first, as `facts.load_cities` gives them.
    """
    by_country = _without_clashes(cities)
    usable = [mine for mine in by_country.values() if len(mine) >= GOLD_RANGE[0]]
    usable.sort(key=lambda mine: (-sum(city.population for city in mine), mine[0].country))
    rng = random.Random(f"subjects-{seed}")
    subjects = [_subject(mine[: rng.randint(*GOLD_RANGE)]) for mine in usable[:count]]
    rng.shuffle(subjects)
    return subjects


def _without_clashes(cities: Sequence[City]) -> dict[str, list[City]]:
    """By country; of two cities of the same name anywhere, the larger one stays."""
    by_country: dict[str, list[City]] = defaultdict(list)
    taken = {words(country) for country in {city.country for city in cities}}
    for city in cities:
        mine = by_country[city.country]
        if len(mine) < GOLD_RANGE[1] and _in_region(city, mine) and _is_distinct(city, mine, taken):
            taken.add(words(city.name))
            mine.append(city)
    return by_country


def _in_region(city: City, mine: list[City]) -> bool:
    regions = {other.region for other in mine}
    return city.region in regions or len(regions) < MAX_REGIONS


def _is_distinct(city: City, mine: list[City], taken: set[tuple[str, ...]]) -> bool:
    """Whole-word matching must tell the city from its country and from the country's others."""
    name = words(city.name)
    if name in taken or contains(words(city.country), name):
        return False
    others = [words(other.name) for other in mine]
    return not any(contains(name, other) or contains(other, name) for other in others)


def _subject(cities: list[City]) -> Subject:
    return Subject(cities[0].country, tuple(cities), tuple(_neighbours(cities)))


def _neighbours(chosen: list[City]) -> list[City | None]:
    return [None] + [_nearest(city, chosen[:i]) for i, city in enumerate(chosen) if i]


def _nearest(city: City, others: list[City]) -> City:
    return min(others, key=lambda other: distance(city, other))
