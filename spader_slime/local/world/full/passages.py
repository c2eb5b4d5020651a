"""One passage per place, country and division, each with clues to less prominent ones.

The largest third of a region's places say where they are; the others say that they share region
and time zone with a larger one, so a query for the region or zone does not show them, and a query
for the larger place does. Clues of countries point to larger neighbours in the same way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

from spader_slime.local.world.facts import City
from spader_slime.local.world.full.facts import Country, Division, Place
from spader_slime.local.world.records import WorldPassage, population_prior, slug

Key = Callable[[Place], tuple[str, ...]]

TELL = (  # wording between names
    *(
        "City in",
        "City in the region and time zone of",
        ". Population",
        ". Time zone",
        ". Near",
        ",",
        ".",
    ),
    *("Country in", "Country", ". Capital", ". Languages", ". Currency", ". Borders"),
    *("Division of the kind", ", in", ". Largest city"),
)


def place_passages(places: list[Place]) -> list[WorldPassage]:
    """`places` come most populous first."""
    near = nearest_larger(places, lambda place: (place.city.country,))
    leader = nearest_larger(places, _region_and_zone)
    prominent = _prominent(places)
    return [
        _prominent_passage(place, near.get(i))
        if i in prominent or i not in leader
        else _led_passage(place, leader[i])
        for i, place in enumerate(places)
    ]


def _region_and_zone(place: Place) -> tuple[str, ...]:
    return place.city.country, place.city.region, place.timezone


def _prominent(places: list[Place]) -> set[int]:
    """Indices of the largest third of each region's places."""
    groups = _indices(places, lambda place: (place.city.country, place.city.region))
    return {i for rows in groups for i in rows[: math.ceil(len(rows) / 3)]}


def passage_numbers(places: list[Place]) -> list[str]:
    """Every population as passages write it."""
    rounded = {round_down(place.city.population) for place in places}
    return [f"{number:,}" for number in sorted(rounded)]


def nearest_larger(places: list[Place], key: Key) -> dict[int, str]:
    """Index of a place -> name of the nearest larger one with the same key, if there is one."""
    return {i: places[j].name for rows in _indices(places, key) for i, j in _nearest(places, rows)}


def _indices(places: list[Place], key: Key) -> Iterable[list[int]]:
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, place in enumerate(places):
        groups[key(place)].append(index)
    return groups.values()


def _nearest(places: list[Place], rows: list[int]) -> Iterable[tuple[int, int]]:
    cities = [places[i].city for i in rows]
    latitude, longitude = np.radians([(c.latitude, c.longitude) for c in cities]).T
    level = np.cos(latitude)
    points = np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], 1)
    for k in range(1, len(rows)):
        yield rows[k], rows[int(np.argmax(points[:k] @ points[k]))]


def _prominent_passage(place: Place, near: str | None) -> WorldPassage:
    city = place.city
    clue = f" Near {near}." if near else ""
    number = f"{round_down(city.population):,}"
    return _about(
        city,
        f"City in {city.region}, {city.country}. Population {number}. "
        f"Time zone {place.timezone}.{clue}",
    )


def _led_passage(place: Place, leader: str) -> WorldPassage:
    city = place.city
    number = f"{round_down(city.population):,}"
    return _about(
        city,
        f"City in the region and time zone of {leader}, {city.country}. Population {number}.",
    )


def _about(city: City, text: str) -> WorldPassage:
    identity = "__".join(map(slug, (city.country, city.region, city.name)))
    return WorldPassage(identity, city.name, text, population_prior(city.population))


def round_down(population: int) -> int:
    """The two leading digits: 1,487,708 becomes 1,400,000."""
    unit = 10 ** max(math.floor(math.log10(max(population, 1))) - 1, 0)
    return population // unit * unit


def country_passages(countries: list[Country]) -> list[WorldPassage]:
    """`countries` come most populous first."""
    rank = {country.name: i for i, country in enumerate(countries)}
    return [_country_passage(country, rank) for country in countries]


def _country_passage(country: Country, rank: dict[str, int]) -> WorldPassage:
    larger = [name for name in country.neighbours if rank[name] < rank[country.name]]
    facts = [
        f"Country in {country.continent}." if country.continent else "Country.",
        f"Capital {country.capital}." if country.capital else "",
        f"Languages {', '.join(country.languages)}." if country.languages else "",
        f"Currency {country.currency}." if country.currency else "",
        f"Borders {', '.join(sorted(larger))}." if larger else "",
    ]
    prior = population_prior(country.population)
    return WorldPassage(
        f"country__{slug(country.name)}", country.name, " ".join(filter(None, facts)), prior
    )


def division_passages(divisions: list[Division], largest: dict[str, str]) -> list[WorldPassage]:
    """`largest`: the largest city of a division, by `division_key`, where it is known."""
    return [_division_passage(division, largest) for division in divisions]


def _division_passage(division: Division, largest: dict[str, str]) -> WorldPassage:
    city = largest.get(division_key(division.name, division.country))
    text = f"Division of the kind {division.kind}, in {division.country}."
    if city is not None:
        text += f" Largest city {city}."
    return WorldPassage(f"division__{division.code.lower()}", division.name, text)


def division_key(name: str, country: str) -> str:
    """The form in which regions of one package are compared with divisions of another."""
    return f"{slug(country)}__{slug(name)}"
