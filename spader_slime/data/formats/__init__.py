"""The public formats by name; each module reads one record of its format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spader_slime.data.formats.mintaka import read_mintaka
from spader_slime.data.formats.qampari import read_qampari
from spader_slime.data.formats.quest import read_quest
from spader_slime.data.formats.search_r1 import read_search_r1
from spader_slime.data.formats.spader import read_spader
from spader_slime.data.formats.webqsp import read_webqsp
from spader_slime.data.question import Question

FORMATS: dict[str, Callable[[dict[str, Any]], Question]] = {
    "qampari": read_qampari,
    "quest": read_quest,
    "mintaka": read_mintaka,
    "webqsp": read_webqsp,
    "search_r1": read_search_r1,
    "spader": read_spader,
}
