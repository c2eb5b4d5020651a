"""The full world: thousands of questions of several relations over one corpus."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from spader_slime.local.world.full.facts import (
    Country,
    Division,
    Place,
    load_countries,
    load_divisions,
    load_places,
)
from spader_slime.local.world.full.passages import (
    TELL,
    country_passages,
    division_key,
    division_passages,
    passage_numbers,
    place_passages,
)
from spader_slime.local.world.full.questions import Draft, all_drafts, question_phrases
from spader_slime.local.world.records import Question, World

SHARES = {"test": 0.15, "dev": 0.1}  # of the questions, at least; the rest is for training
SOURCES = 512  # document numbers with a token of their own


def full_world(seed: int) -> World:
    """Questions that share an owner (a country, or a subject beyond countries) share a split.

    Raises:
        DataError: a data package is missing.
    """
    places, countries, divisions = load_places(), load_countries(), load_divisions()
    passages = [
        *place_passages(places),
        *country_passages(countries),
        *division_passages(divisions, _largest(places)),
    ]
    names = sorted(set(_names(places, countries, divisions)))
    return World(
        questions=_split(all_drafts(places, countries, divisions), seed),
        passages=sorted(passages, key=lambda p: (-p.prior, p.id)),
        names=names,
        tokens=[*names, *passage_numbers(places)],
        phrases=[*question_phrases(), *TELL],
        sources=SOURCES,
    )


def _split(drafts: Sequence[Draft], seed: int) -> dict[str, list[Question]]:
    by_owner: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_owner[draft.owner or draft.subject].append(draft)
    owners = sorted(by_owner)
    rng = random.Random(f"owners-{seed}")
    rng.shuffle(owners)
    chosen: dict[str, list[Draft]] = {}
    for split, share in SHARES.items():
        mine = chosen.setdefault(split, [])
        while len(mine) < share * len(drafts):
            mine += by_owner[owners.pop()]
    chosen["train"] = [draft for owner in owners for draft in by_owner[owner]]
    for mine in chosen.values():
        rng.shuffle(mine)
    return {
        split: [draft.finish() for draft in chosen[split]] for split in ("train", "dev", "test")
    }


def _largest(places: Sequence[Place]) -> dict[str, str]:
    """The largest city of each region."""
    largest: dict[str, str] = {}
    for place in places:
        largest.setdefault(division_key(place.city.region, place.city.country), place.name)
    return largest


def _names(
    places: Iterable[Place], countries: Iterable[Country], divisions: Iterable[Division]
) -> Iterable[str]:
    for place in places:
        yield from (place.name, place.city.region, place.city.country, place.timezone)
    for country in countries:
        named = (country.name, country.continent, country.capital, country.currency)
        yield from filter(None, (*named, *country.languages, *country.neighbours))
    for division in divisions:
        yield from (division.name, division.kind, division.country)
