"""Neural models through sentence-transformers: encoders, and cross-encoders that rerank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from spader_slime.errors import DataError
from spader_slime.retrieval.batcher import Batcher
from spader_slime.retrieval.extras import need
from spader_slime.retrieval.passages import Hit

_EXTRA = "spader_slime[dense]"
_PAIRS = 256  # of query and passage in one batch
_QUERIES = 64


@dataclass(frozen=True)
class EncoderSettings:
    """An encoder and the texts it wants in front (E5: `query: ` and `passage: `)."""

    model: str
    query_prefix: str = ""
    passage_prefix: str = ""


class Encoder:
    """Texts to unit vectors of float32, of `size` numbers.

    Raises:
        DataError: sentence-transformers is missing, or the model can't be loaded.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._model = _load("SentenceTransformer", settings.model, "the dense backend")
        self.size = int(self.passages(["its length"]).shape[1])
        self._queries = Batcher[str, np.ndarray]([self._encode_queries], _QUERIES)

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors, one row for each passage."""
        prefix = self._settings.passage_prefix
        return self._encode(self._model.encode_document, prefix, texts)

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors, one row for each query; encoded together with those of other threads."""
        return np.stack(self._queries.submit(texts).result())

    def _encode_queries(self, texts: list[str]) -> list[np.ndarray]:
        return list(self._encode(self._model.encode_query, self._settings.query_prefix, texts))

    def _encode(self, encode: Any, prefix: str, texts: Sequence[str]) -> np.ndarray:
        prefixed = [prefix + text for text in texts]
        rows = encode(prefixed, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(rows, np.float32)


class Reranker:
    """Scores passages with a cross-encoder, on every visible GPU (without one, on the CPU).

    Args:
        on_batch: told how many pairs each batch holds.

    Raises:
        DataError: sentence-transformers is missing, the model can't be loaded, or it is no
            reranker.
    """

    def __init__(self, model: str, on_batch: Callable[[int], None] = lambda size: None) -> None:
        devices = _devices()
        models = [_load("CrossEncoder", model, "reranking", device=d) for d in devices]
        labels = models[0].model.config.num_labels
        if labels != 1:
            raise DataError(f"{model} gives {labels} scores for a pair; a reranker gives one")
        self.devices = devices
        self._batcher = Batcher[tuple[str, str], float](
            [_predictor(model) for model in models], _PAIRS, on_batch
        )

    def scores(self, query: str, hits: Sequence[Hit]) -> Future[list[float]]:
        """A score for each hit, higher is better; batched with those of other callers."""
        return self._batcher.submit([(query, f"{hit.title}\n{hit.text}") for hit in hits])


def _predictor(model: Any) -> Callable[[list[tuple[str, str]]], list[float]]:
    def predict(pairs: list[tuple[str, str]]) -> list[float]:
        found = model.predict(pairs, batch_size=_PAIRS, show_progress_bar=False)
        return [float(score) for score in found]

    return predict


def _devices() -> list[str | None]:
    torch = need("torch", "reranking", _EXTRA)
    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] or [None]


def _load(kind: str, model: str, purpose: str, **more: Any) -> Any:
    library = need("sentence_transformers", purpose, _EXTRA)
    try:
        return getattr(library, kind)(model, **more)
    except (OSError, ValueError) as error:
        raise DataError(f"{purpose}: the model {model} can't be loaded ({error})") from error
