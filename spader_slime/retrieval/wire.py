"""The two request and response forms of the search service (documented in `docs/`).

SPADER, `/retrieve`: `{"queries", "top_k" or "topk", "max_chars", "initial_k", "return_scores",
"use_reranker"}` -> `{"result": [{"query", "documents": [{"title", "contents"}]}],
"truncation_warning"?}`. Search-R1, `/search_r1/retrieve`: `{"queries", "topk",
"return_scores"}` -> `{"result": [[{"document": {"contents"}, "score"}]]}`, or bare documents when
scores are not wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from spader_slime.errors import DataError
from spader_slime.retrieval.budget import Shown
from spader_slime.retrieval.passages import Hit

MAX_QUERIES = 64
MAX_TOP_K = 1000


@dataclass(frozen=True)
class Request:
    """A checked request.

    Attributes:
        queries: at most `MAX_QUERIES` strings.
        top_k: documents per query.
        max_chars: characters shared by all documents of the call; None: no limit.
        initial_k: candidates that a reranker sees; None: the service decides.
        return_scores: add a score to every document.
        use_reranker: the caller wants reranking, does not want it, or leaves it to the service.
    """

    queries: tuple[str, ...]
    top_k: int
    max_chars: int | None
    initial_k: int | None
    return_scores: bool
    use_reranker: bool | None = None


def parse_spader(body: bytes) -> Request:
    """Read a SPADER request: top 5, 10,000 characters and no scores unless given.

    Raises:
        DataError: not JSON, wrong types, too many queries; the message is for the caller.
    """
    return _parse(body, top_k=5, max_chars=10_000, return_scores=False)


def parse_search_r1(body: bytes) -> Request:
    """Read a Search-R1 request: top 3, no character limit, no scores unless given.

    Raises:
        DataError: as `parse_spader`.
    """
    return _parse(body, top_k=3, max_chars=None, return_scores=False)


def _parse(body: bytes, top_k: int, max_chars: int | None, return_scores: bool) -> Request:
    fields = _json_object(body)
    return Request(
        queries=_queries(fields.get("queries")),
        top_k=_integer(fields, ("top_k", "topk"), top_k, MAX_TOP_K),
        max_chars=_integer(fields, ("max_chars",), max_chars),
        initial_k=_integer(fields, ("initial_k",), None, MAX_TOP_K),
        return_scores=_flag(fields, "return_scores", return_scores),
        use_reranker=_flag(fields, "use_reranker", None),
    )


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise DataError(f"the body is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise DataError("the body must be a JSON object")
    return fields


def _queries(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(query, str) for query in value):
        raise DataError("'queries' must be a list of strings")
    if len(value) > MAX_QUERIES:
        raise DataError(f"'queries' holds {len(value)} queries; at most {MAX_QUERIES} are allowed")
    return tuple(value)


def _integer(fields: dict[str, Any], names: tuple[str, ...], default: Any, top: int = 2**31) -> Any:
    """The first of `names` that is given and not null, else the default."""
    for name in names:
        value = fields.get(name)
        if value is None:
            continue
        if type(value) is not int or not 1 <= value <= top:
            raise DataError(f"'{name}' must be a whole number from 1 to {top}")
        return value
    return default


def _flag(fields: dict[str, Any], name: str, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise DataError(f"'{name}' must be true or false")
    return value


def spader_response(request: Request, shown: Shown, reranked: bool) -> bytes:
    """The answer of `/retrieve`; says `reranked` to a caller that asked for it."""
    result = [
        {"query": query, "documents": [_spader_document(hit, request) for hit in hits]}
        for query, hits in zip(request.queries, shown.hits, strict=True)
    ]
    answer: dict[str, Any] = {"result": result}
    if shown.note:
        answer["truncation_warning"] = shown.note
    if request.use_reranker:
        answer["reranked"] = reranked
    return orjson.dumps(answer)


def search_r1_response(request: Request, shown: Shown, reranked: bool) -> bytes:
    """The answer of `/search_r1/retrieve`."""
    result = [[_search_r1_document(hit, request) for hit in hits] for hits in shown.hits]
    return orjson.dumps({"result": result})


def _spader_document(hit: Hit, request: Request) -> dict[str, Any]:
    document = {"title": hit.title, "contents": hit.text}
    return {**document, "score": hit.score} if request.return_scores else document


def _search_r1_document(hit: Hit, request: Request) -> dict[str, Any]:
    document = {"contents": f'"{hit.title}"\n{hit.text}'}
    return {"document": document, "score": hit.score} if request.return_scores else document
