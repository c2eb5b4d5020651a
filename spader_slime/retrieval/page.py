"""What the service says about itself: `/docs` (HTML, nothing from elsewhere) and OpenAPI."""

from __future__ import annotations

from typing import Any

from spader_slime.retrieval.asgi import MAX_BODY_BYTES
from spader_slime.retrieval.wire import MAX_QUERIES, MAX_TOP_K

_NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1, "nullable": True}
_FLAG: dict[str, Any] = {"type": "boolean", "nullable": True}
_SPADER: dict[str, dict[str, Any]] = {
    "queries": {
        "type": "array",
        "items": {"type": "string"},
        "maxItems": MAX_QUERIES,
        "description": "Words, never syntax. A long query is cut to 4,096 characters.",
    },
    "top_k": {**_NUMBER, "maximum": MAX_TOP_K, "description": "Documents per query; default 5."},
    "topk": {**_NUMBER, "maximum": MAX_TOP_K, "description": "The same by another name."},
    "max_chars": {
        **_NUMBER,
        "description": "Characters of all titles and texts of the call together; default 10,000. "
        "Filled rank by rank: every query's first document, then every second.",
    },
    "initial_k": {
        **_NUMBER,
        "maximum": MAX_TOP_K,
        "description": "Candidates per query that the reranker sees; default 50.",
    },
    "use_reranker": {
        **_FLAG,
        "description": "false: keep the first ranking. true: say in `reranked` whether it was. "
        "Default: rerank where the service has a reranker.",
    },
    "return_scores": {**_FLAG, "description": "Add `score` to every document; default false."},
}
_SEARCH_R1 = {
    "queries": _SPADER["queries"],
    "topk": {**_NUMBER, "maximum": MAX_TOP_K, "description": "Documents per query; default 3."},
    "return_scores": {
        **_FLAG,
        "description": 'true: `{"document": {"contents"}, "score"}`; default false: '
        '`{"contents"}`.',
    },
}
_ERRORS = {
    "400": "Not JSON, a wrong type, or too many queries; `error` says what.",
    "408": "The body did not arrive in time.",
    "413": f"The body is larger than {MAX_BODY_BYTES} bytes.",
}


def _post(summary: str, answer: str, fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": ["queries"], "properties": fields}
    responses = {"200": {"description": answer}}
    responses |= {status: {"description": text} for status, text in _ERRORS.items()}
    content = {"application/json": {"schema": schema}}
    return {
        "post": {"summary": summary, "requestBody": {"content": content}, "responses": responses}
    }


def _get(summary: str) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}


_SPADER_POST = _post(
    "Search, SPADER's protocol",
    '{"result": [{"query", "documents": [{"title", "contents"}]}], "truncation_warning"?, '
    '"reranked"?}',
    _SPADER,
)
_SEARCH_R1_POST = _post(
    "Search, Search-R1's protocol",
    '{"result": [[{"document": {"contents"}, "score"}]]}, or [[{"contents"}]] without scores',
    _SEARCH_R1,
)
OPENAPI: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "SPADER search service", "version": "1"},
    "paths": {
        "/retrieve": _SPADER_POST,
        "/spader/retrieve": _SPADER_POST,
        "/search_r1/retrieve": _SEARCH_R1_POST,
        "/health": _get("The index is open; says how many passages it has"),
        "/metrics": _get("Prometheus metrics"),
    },
}


def _table(fields: dict[str, Any]) -> str:
    rows = (f"<tr><td><code>{n}</code><td>{f.get('description', '')}" for n, f in fields.items())
    return f"<table>{''.join(rows)}</table>"


HTML = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>SPADER search service</title>
<style>body{{font:15px/1.5 sans-serif;max-width:52em;margin:2em auto;padding:0 1em}}
td{{vertical-align:top;padding:.2em 1em .2em 0}}pre{{background:#f4f4f4;padding:1em;
white-space:pre-wrap}}input{{width:70%}}</style>
<h1>SPADER search service</h1>
<form id="f"><input name="q" placeholder="words to search for"> <button>Search</button></form>
<pre id="out" hidden></pre>
<h2>POST /retrieve, /spader/retrieve</h2>{_table(_SPADER)}
<p>Answers <code>{{"result": [{{"query", "documents": [{{"title", "contents"}}]}}]}}</code>, with
<code>truncation_warning</code> if documents were cut. A service started with
<code>--protocol search_r1</code> answers <code>/retrieve</code> as below.
<h2>POST /search_r1/retrieve</h2>{_table(_SEARCH_R1)}
<h2>Errors</h2><p>Answered as <code>{{"error": "..."}}</code>.
{_table({status: {"description": text} for status, text in _ERRORS.items()})}
<h2>Others</h2><p>GET <a href="health">/health</a>, <a href="metrics">/metrics</a>,
<a href="openapi.json">/openapi.json</a>.
<script>
f.onsubmit = async event => {{
  event.preventDefault();
  const body = JSON.stringify({{queries: [f.q.value], return_scores: true}});
  const reply = await fetch("spader/retrieve", {{method: "POST", body}});
  out.hidden = false;
  out.textContent = JSON.stringify(await reply.json(), null, 2);
}};
</script></html>
"""
