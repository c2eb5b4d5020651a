"""A corpus that reads like an encyclopedia to a search engine, and queries for it, from a seed.

Words follow Zipf's law: the commonest 33 are the English stop words, the rest are made up. A
passage has a topic, which gives a third of its words, a title of one to three words of the topic
that its text begins with, and about 100 words. The first N passages are the same whatever the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson

_STOP = (
    "the of and in to a is was for as on with by that it at an are be this or not but they their "
    "there these then such will if into no"
)
STOP = _STOP.split()
VOCABULARY, TOPICS, TOPIC_WORDS, COMMON = 500_000, 5_000, 3_000, 20_000
BATCH = 5_000  # passages from one seed
_ONSETS = "b c d f g h j k l m n p r s t v w z br ch dr gr pl st tr"
_VOWELS, _CODAS = "a e i o u ai ea", ["", "", "", "n", "r", "l", "s"]
_SYLLABLE = (_ONSETS.split(), _VOWELS.split(), _CODAS)

Record = tuple[str, str]  # title, text


def make_words() -> np.ndarray:
    """The vocabulary, commonest first; short words are common."""
    draw = np.random.default_rng(0)
    words = dict.fromkeys(STOP)
    while len(words) < VOCABULARY:
        syllables = 1 + (len(words) > 300) + (len(words) > 300_000)
        parts = (kind[draw.integers(len(kind))] for _ in range(syllables) for kind in _SYLLABLE)
        words["".join(parts)] = None
    return np.array(list(words), dtype=object)


def zipf(count: int) -> np.ndarray:
    """Cumulative probabilities of ranks, each 1 / (rank + 1)."""
    weights = 1 / (1.0 + np.arange(count))
    return np.cumsum(weights / weights.sum())


class Generator:
    """Makes batches of passages.

    Args:
        seed: another one gives other passages.
    """

    def __init__(self, seed: int = 0) -> None:
        self._words, self._seed = make_words(), seed
        self._all, self._topical = zipf(VOCABULARY), zipf(TOPIC_WORDS)

    def batch(self, number: int) -> list[Record]:
        """Passages `number * BATCH` and following."""
        draw = np.random.default_rng([self._seed, number])
        topics, lengths = draw.integers(TOPICS, size=BATCH), draw.integers(60, 141, size=BATCH)
        ends = np.cumsum(lengths)
        ids = np.searchsorted(self._all, draw.random(ends[-1]))
        topical = draw.random(ends[-1]) < 1 / 3
        ranks = np.searchsorted(self._topical, draw.random(topical.sum()))
        ids[topical] = _of_topic(np.repeat(topics, lengths)[topical], ranks)
        titles = _of_topic(topics[:, None], np.searchsorted(self._topical, draw.random((BATCH, 3))))
        sizes = draw.integers(1, 4, size=BATCH)
        return [
            self._record(titles[n, : sizes[n]], ids[ends[n] - lengths[n] : ends[n]])
            for n in range(BATCH)
        ]

    def _record(self, title_ids: np.ndarray, ids: np.ndarray) -> Record:
        title = " ".join(self._words[title_ids]).title()
        return title, f"{title} {' '.join(self._words[ids])}."

    def records(self, count: int) -> Iterator[Record]:
        """The first `count` passages."""
        for number in range(-(-count // BATCH)):
            yield from self.batch(number)[: count - number * BATCH]

    def queries(self, count: int, passages: int, draw_seed: int = 1) -> list[tuple[str, Record]]:
        """Queries, each with the passage it was made from.

        A query has a word of the title, two to five other words of the text that are among the
        `COMMON` commonest and no stop words, and in half of the cases a stop word, in any order.
        """
        draw = np.random.default_rng([self._seed, draw_seed])
        batches = draw.choice(-(-passages // BATCH), min(20, -(-passages // BATCH)), replace=False)
        pool = [r for b in batches for r in self.batch(int(b))[: passages - int(b) * BATCH]]
        chosen = (pool[int(n)] for n in draw.choice(len(pool), count, replace=len(pool) < count))
        common = set(self._words[len(STOP) : COMMON])
        return [(_query(record, common, draw), record) for record in chosen]


def _of_topic(topics: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Numbers of a topic's words: scattered over the vocabulary, without the commonest."""
    return 300 + (topics * 7_919 + ranks * 104_729) % (VOCABULARY - 300)


def _query(record: Record, common: set[str], draw: np.random.Generator) -> str:
    title, text = record
    plain = [word for word in text.rstrip(".").split() if word in common] or title.split()
    words = [str(draw.choice(title.split())), *draw.choice(plain, int(draw.integers(2, 6)))]
    if draw.random() < 0.5:
        words.append(str(draw.choice(STOP)))
    return " ".join(map(str, draw.permutation(words)))


def write_corpus(path: Path, count: int) -> None:
    """`count` passages as JSON lines, unless they are there."""
    if path.is_file():
        return
    scratch = path.with_suffix(".part")
    with scratch.open("wb") as file:
        for title, text in Generator().records(count):
            file.write(orjson.dumps({"title": title, "text": text}) + b"\n")
    scratch.replace(path)
