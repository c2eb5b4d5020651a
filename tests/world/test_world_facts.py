from __future__ import annotations

import pytest

from spader_slime.errors import DataError
from spader_slime.local.world.facts import (
    City,
    contains,
    distance,
    is_plain,
    load_cities,
    package_folder,
    words,
)


def place(latitude: float, longitude: float) -> City:
    return City("x", "y", "z", 1000, latitude, longitude)


def test_distance_in_kilometres() -> None:
    paris, new_york = place(48.857, 2.352), place(40.713, -74.006)
    assert distance(paris, new_york) == pytest.approx(5837, abs=15)
    assert distance(paris, paris) == 0
    assert distance(place(0, 179.5), place(0, -179.5)) == pytest.approx(111.2, abs=0.5)


@pytest.mark.parametrize("name", ["Oslo", "São Tomé", "St. John's", "Port-au-Prince", "N’Djamena"])
def test_plain_names(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize("name", ["", '"A"', "A, B", "A [x]", "District 9", "A/B", " A", "x" * 33])
def test_names_that_could_break_a_list_are_left_out(name: str) -> None:
    assert not is_plain(name)


def test_contains_compares_whole_words() -> None:
    assert contains(words("New South Wales"), words("south wales"))
    assert not contains(words("Romania"), words("Oman"))
    assert not contains(words("A"), words("A B"))


def test_cities_come_largest_first_and_complete() -> None:
    cities = load_cities()
    assert len(cities) > 100_000
    sizes = [city.population for city in cities]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] >= 1000
    assert all(city.name and city.region and city.country for city in cities[:5000])


def test_a_missing_package_is_named() -> None:
    with pytest.raises(DataError, match="pip install no_such_package"):
        package_folder("no_such_package")
