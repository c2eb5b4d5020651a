"""Relations: each makes the questions it can answer completely from the passages.

A draft's `owner` is the country it is about, or None where it is about no single country. The
split goes by owner, so no country is asked about in two splits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from spader_slime.local.world.facts import words
from spader_slime.local.world.full.facts import Country, Division, Place
from spader_slime.local.world.records import Question, rank_entities, slug

GOLD_RANGE = (3, 60)
THRESHOLDS = [50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000]  # inhabitants

T = TypeVar("T")
ASK = (  # wording before and between names
    *("Which cities are in", "Which cities are in the time zone", "Which countries are in"),
    *("Which countries use the", "Which countries speak", "Which countries border"),
    *("Which divisions are in", ", of the kind", ",", "?"),
)
Named = tuple[str, tuple[str, ...]]  # a name and its aliases


@dataclass(frozen=True)
class Draft:
    """A question before it has a split. `subject` is what a plain query would hold."""

    relation: str
    text: str
    subject: str
    owner: str | None
    answers: tuple[Named, ...]

    def finish(self) -> Question:
        """The question; an alias that names two of its answers is dropped."""
        names, aliases = zip(*self.answers, strict=True)
        qid = f"{slug(self.relation)}__{slug(self.text.removeprefix('Which '))}"
        owner = self.owner or self.subject
        metadata = {"relation": self.relation, "subject": self.subject, "owner": owner}
        entities = rank_entities(names, _unshared(names, aliases))
        return Question(qid, self.text, tuple(entities), metadata)


def question_phrases() -> list[str]:
    """The fixed wording of all questions."""
    return [*ASK, *map(_large, THRESHOLDS)]


def all_drafts(
    places: Sequence[Place], countries: Sequence[Country], divisions: Sequence[Division]
) -> list[Draft]:
    """Every question of every relation with 3 to 60 answers, most prominent answers first."""
    makers = (
        _cities_of_region(places),
        _large_cities(places),
        _cities_of_time_zone(places),
        _countries_by(countries),
        _divisions(divisions),
    )
    drafts = [_without_repeats(draft) for maker in makers for draft in maker]
    low, high = GOLD_RANGE
    return [draft for draft in drafts if low <= len(draft.answers) <= high]


def _cities_of_region(places: Sequence[Place]) -> Iterator[Draft]:
    groups = _grouped((place.city.region, place.city.country, place) for place in places)
    for (region, country), cities in groups.items():
        text = f"Which cities are in {region}, {country}?"
        subject = f"{region}, {country}"
        yield Draft("cities of region", text, subject, country, tuple(map(_named, cities)))


def _large_cities(places: Sequence[Place]) -> Iterator[Draft]:
    by_country = _grouped((place.city.country, "", place) for place in places)
    for (country, _), cities in by_country.items():
        for least in THRESHOLDS:
            large = tuple(_named(place) for place in cities if place.city.population >= least)
            text = f"{_large(least)} {country}?"
            yield Draft("cities by population", text, country, country, large)


def _large(least: int) -> str:
    return f"Which cities of at least {least:,} inhabitants are in"


def _cities_of_time_zone(places: Sequence[Place]) -> Iterator[Draft]:
    groups = _grouped((place.timezone, "", place) for place in places)
    for (zone, _), cities in groups.items():
        countries = {place.city.country for place in cities}
        owner = countries.pop() if len(countries) == 1 else None
        text = f"Which cities are in the time zone {zone}?"
        yield Draft("cities of time zone", text, zone, owner, tuple(map(_named, cities)))


def _countries_by(countries: Sequence[Country]) -> Iterator[Draft]:
    for continent, members in _members(countries, lambda c: [c.continent]).items():
        text = f"Which countries are in {continent}?"
        yield Draft("countries of continent", text, continent, None, members)
    for currency, members in _members(countries, lambda c: [c.currency]).items():
        text = f"Which countries use the {currency}?"
        yield Draft("countries by currency", text, currency, None, members)
    for language, members in _members(countries, lambda c: c.languages).items():
        text = f"Which countries speak {language}?"
        yield Draft("countries by language", text, language, None, members)
    for country, members in _members(countries, lambda c: c.neighbours).items():
        text = f"Which countries border {country}?"
        yield Draft("neighbours of country", text, country, country, members)


def _divisions(divisions: Sequence[Division]) -> Iterator[Draft]:
    groups = _grouped((d.kind, d.country, d) for d in divisions)
    for (kind, country), members in groups.items():
        text = f"Which divisions are in {country}, of the kind {kind}?"
        answers: tuple[Named, ...] = tuple((division.name, ()) for division in members)
        yield Draft(
            "divisions of country", text, f"{country}, of the kind {kind}", country, answers
        )


def _named(place: Place) -> Named:
    return place.name, place.aliases


def _grouped(rows: Iterable[tuple[str, str, T]]) -> dict[tuple[str, str], list[T]]:
    groups: dict[tuple[str, str], list[T]] = defaultdict(list)
    for first, second, item in rows:
        groups[first, second].append(item)
    return groups


def _members(
    countries: Sequence[Country], keys: Callable[[Country], Iterable[str]]
) -> dict[str, tuple[Named, ...]]:
    groups = _grouped((key, "", country) for country in countries for key in keys(country) if key)
    return {
        key: tuple((c.name, c.aliases) for c in members) for (key, _), members in groups.items()
    }


def _without_repeats(draft: Draft) -> Draft:
    """Of answers with the same name, the most prominent stays."""
    kept: dict[tuple[str, ...], Named] = {}
    for name, aliases in draft.answers:
        kept.setdefault(words(name), (name, aliases))
    return replace(draft, answers=tuple(kept.values()))


def _unshared(names: Sequence[str], aliases: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The aliases without those that name another answer of the question, too."""
    uses = Counter(key for row in aliases for key in {words(alias) for alias in row})
    uses.update(words(name) for name in names)
    return [tuple(alias for alias in row if uses[words(alias)] == 1) for row in aliases]
