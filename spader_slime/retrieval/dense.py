"""Optional backend: nearest vectors (faiss) of a sentence-transformers encoder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spader_slime.errors import DataError
from spader_slime.retrieval.backend import GivenUpError
from spader_slime.retrieval.extras import need
from spader_slime.retrieval.manifest import read_manifest
from spader_slime.retrieval.models import Encoder, EncoderSettings
from spader_slime.retrieval.passages import Hit, Passage
from spader_slime.retrieval.store import Store, StoreWriter

FLAT = "Flat"
_BATCH = 1024  # passages encoded together
_SLICE = 65_536  # vectors handed to faiss at once
_TRAINING = 1_000_000  # vectors that a trained index (IVF, PQ) learns from
_PROBES = 64  # lists of an IVF index that a query looks into; faiss's own default is 1
_VECTORS, _INDEX = "vectors.f32", "faiss.index"


def _faiss() -> Any:
    return need("faiss", "the dense backend", "spader_slime[dense]")


class DenseWriter:
    """Encodes passages into `folder` (see `backend.Writer`).

    Args:
        factory: faiss's description of the index. `Flat` compares with every vector and keeps all
            in memory; for tens of millions see `docs/search.md`.
    """

    def __init__(self, folder: Path, encoder: EncoderSettings, factory: str = FLAT) -> None:
        self._library = _faiss()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._encoder, self._factory = folder, Encoder(encoder), factory
        self._row = 4 * self._encoder.size  # bytes
        self._vectors = (folder / _VECTORS).open("ab")
        self._store = StoreWriter(folder)
        self.facts: dict[str, Any] = {}
        self._texts: list[str] = []
        self.done = self._vectors.tell() // self._row
        self.keep(self.done)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` passages."""
        self._vectors.truncate(count * self._row)
        self._store.keep(count)
        self.done = self._added = count

    def add(self, passage: Passage) -> None:
        self._store.add(passage)
        self._texts.append(f"{passage.title}\n{passage.text}")
        self._added += 1
        if len(self._texts) >= _BATCH:
            self._encode()

    def commit(self) -> None:
        self._store.sync()
        self._encode()
        self._vectors.flush()
        os.fsync(self._vectors.fileno())
        self.done = self._added

    def finish(self) -> None:
        self.commit()
        if self.done:
            vectors = np.memmap(self._folder / _VECTORS, np.float32, mode="r")
            index = self._fill(vectors.reshape(self.done, self._encoder.size))
            self._library.write_index(index, str(self._folder / _INDEX))

    def _fill(self, vectors: np.ndarray) -> Any:
        faiss = self._library
        index = faiss.index_factory(vectors.shape[1], self._factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            step = -(-len(vectors) // _TRAINING)
            index.train(np.ascontiguousarray(vectors[::step]))
        for start in range(0, len(vectors), _SLICE):
            index.add(np.ascontiguousarray(vectors[start : start + _SLICE]))
        return index

    def _encode(self) -> None:
        if self._texts:
            self._vectors.write(self._encoder.passages(self._texts).tobytes())
            self._texts = []


class DenseBackend:
    """Opens what `DenseWriter` filled (see `backend.Backend`).

    Raises:
        DataError: no complete index in `folder`; faiss, sentence-transformers or the encoder is
            missing.
    """

    def __init__(self, folder: Path) -> None:
        self._index = _faiss().read_index(str(folder / _INDEX))
        lists = _faiss().try_extract_index_ivf(self._index)
        if lists is not None:
            lists.nprobe = min(_PROBES, lists.nlist)
        self._store = Store(folder)
        self._encoder = Encoder(EncoderSettings(**read_manifest(folder)["settings"]["encoder"]))
        if self._encoder.size != self._index.d:
            raise DataError(
                f"{folder}: the index holds vectors of {self._index.d} numbers, the encoder gives "
                f"{self._encoder.size}"
            )

    def __len__(self) -> int:
        return len(self._store)

    def search(self, query: str, limit: int) -> list[Hit]:
        return self.search_all([query], limit, lambda: False)[0]

    def search_all(
        self, queries: Sequence[str], limit: int, given_up: Callable[[], bool]
    ) -> list[list[Hit]]:
        found: list[list[Hit]] = [[] for _ in queries]
        asked = [number for number, query in enumerate(queries) if query.strip()]
        if not asked or limit < 1:
            return found
        vectors = self._encoder.queries([queries[number] for number in asked])
        if given_up():
            raise GivenUpError("the caller is gone")
        scores, numbers = self._index.search(vectors, min(limit, len(self)))
        for asker, row, score in zip(asked, numbers, scores, strict=True):
            pairs = zip(row.tolist(), score.tolist(), strict=True)
            found[asker] = self._store.hits([pair for pair in pairs if pair[0] >= 0])  # -1: no more
        return found
