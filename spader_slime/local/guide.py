"""What a scripted searcher knows of a world: its training questions, and what a query shows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spader_slime.algorithms.answers import normalize
from spader_slime.config import SearchConfig
from spader_slime.episode import Document
from spader_slime.local.data_source import read_prompts
from spader_slime.retrieval.budget import share
from spader_slime.retrieval.corpus import read_passages
from spader_slime.retrieval.index import TantivyBackend

if TYPE_CHECKING:
    from spader_slime.local.world.build import WorldFiles

_CACHED = 50_000  # queries


@dataclass(frozen=True)
class Question:
    """A training question: its text, its subject (a plain query) and its gold names, normalized."""

    text: str
    subject: str
    gold: frozenset[str]

    def wants(self, document: Document) -> bool:
        """Whether the document's title is one of the answers."""
        return normalize(document.title) in self.gold


class Guide:
    """Searches a world as the search service would.

    Args:
        files: the world.
        search: `top_k` and `max_chars` of the service.
    """

    def __init__(self, files: WorldFiles, search: SearchConfig) -> None:
        self._backend = TantivyBackend(files.index)
        self._settings = search
        self.questions = [_question(s) for s in read_prompts(str(files.questions("train")))]
        self.documents = [Document(p.title, p.text) for p in read_passages([files.corpus])]
        self.search = lru_cache(_CACHED)(self._search)

    def _search(self, query: str) -> tuple[Document, ...]:
        """What one query shows."""
        found = self._backend.search(query, self._settings.top_k)
        [hits] = share([found], self._settings.max_chars).hits
        return tuple(Document(hit.title, hit.text) for hit in hits)


def name_tokens(tokenizer: Any) -> dict[str, int]:
    """Tokens of a world's tokenizer that stand for names: a space, then more than one character."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return {piece: i for piece, i in vocabulary.items() if piece[0] == " " and len(piece) > 2}


def _question(sample: Any) -> Question:
    gold = frozenset(normalize(alias) for aliases in sample.label for alias in aliases)
    return Question(sample.prompt, sample.metadata["subject"], gold)
