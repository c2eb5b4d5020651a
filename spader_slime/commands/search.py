"""`index build|info|search` and `serve`: from corpus files to a search service."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    index = commands.add_parser("index", help="build, describe or try a search index")
    actions = index.add_subparsers(metavar="ACTION", required=True)
    _add_build(command(actions, "build", _build, "index corpus files; goes on where it stopped"))
    info = command(actions, "info", _info, "what an index holds and how it was built")
    info.add_argument("index", type=Path, metavar="DIR")
    search = command(actions, "search", _search, "search an index from the command line")
    search.add_argument("query", help="words, never syntax")
    search.add_argument("--index", type=Path, required=True, metavar="DIR")
    search.add_argument("-k", "--top-k", type=int, default=5, metavar="N", help="default 5")
    search.add_argument("--json", action="store_true", help="one JSON object per document")
    about = "serve a search index over HTTP"
    _add_serve(command(commands, "serve", _serve, about, aliases=["search"]))


def _add_build(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "--corpus",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="jsonl, jsonl.gz, tar.gz of these, parquet, or folders of them; read as streams",
    )
    option("--out", type=Path, required=True, metavar="DIR")
    option("--backend", default="tantivy", help="tantivy (default), lucene, dense or hybrid")
    option("--title", metavar="KEY", help="key of the title, dots lead inward (meta.title)")
    option("--text", metavar="KEY", help="key of the text; default: the known corpora's keys")
    option("--skip-bad", action="store_true", help="count records that can't be read, and go on")
    option("--overwrite", action="store_true", help="replace the index that is in DIR")
    option("--threads", type=int, default=1, metavar="N", help="that write; default 1")
    option("--heap-mb", type=int, default=512, metavar="N", help="for each thread; default 512")
    option("--commit-every", type=int, metavar="N", help="passages that a kill can cost")
    option("--encoder", metavar="MODEL", help="sentence-transformers model, for dense and hybrid")
    option("--query-prefix", default="", metavar="TEXT", help="what the encoder wants in front")
    option("--passage-prefix", default="", metavar="TEXT")
    option("--faiss", default="Flat", metavar="FACTORY", help="faiss index factory; default Flat")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--index", type=Path, required=True, metavar="DIR")
    option("--host", default="127.0.0.1", help="default 127.0.0.1; 0.0.0.0 for other machines")
    option("--port", type=int, default=8000, metavar="N", help="default 8000; 0 picks a free one")
    option("--protocol", choices=("spader", "search_r1"), default="spader", help="of /retrieve")
    option("--rerank", default="", metavar="MODEL", help="cross-encoder that orders candidates")
    option("--workers", type=int, default=1, metavar="N", help="processes; default 1")
    option("--threads", type=int, metavar="N", help="that search in each; default: by index size")
    option("--die-with-parent", action="store_true", help=argparse.SUPPRESS)


def _build(options: argparse.Namespace) -> None:
    from spader_slime.errors import ConfigError
    from spader_slime.retrieval.building import build
    from spader_slime.retrieval.corpus import Corpus
    from spader_slime.retrieval.fields import Fields

    if options.title and not options.text:
        raise ConfigError("--text", None, "a key, where --title is given")
    if options.commit_every is not None and options.commit_every < 1:
        raise ConfigError("--commit-every", options.commit_every, "at least 1")
    fields = Fields(options.title or "", options.text) if options.text else None
    settings = _settings(options)
    built = build(
        Corpus(options.corpus, fields, options.skip_bad),
        options.out,
        settings.backend,
        settings.writer,
        settings.lasting(),
        options.overwrite,
        options.commit_every,
    )
    print(built.summary(options.out))


def _settings(options: argparse.Namespace) -> Any:
    from spader_slime.retrieval.engines import BuildSettings
    from spader_slime.retrieval.models import EncoderSettings

    prefixes = options.query_prefix, options.passage_prefix
    return BuildSettings(
        backend=options.backend,
        threads=options.threads,
        heap_mb=options.heap_mb,
        encoder=EncoderSettings(options.encoder, *prefixes) if options.encoder else None,
        factory=options.faiss,
    )


def _info(options: argparse.Namespace) -> None:
    from spader_slime.retrieval.inspection import describe

    for name, value in describe(options.index).items():
        print(f"{name:12} {value}")


def _search(options: argparse.Namespace) -> None:
    from spader_slime.retrieval.engines import open_index
    from spader_slime.retrieval.inspection import show

    hits = open_index(options.index).search(options.query, options.top_k)
    print("\n".join(show(hits, options.json)) or "no passage matches")


def _serve(options: argparse.Namespace) -> None:
    from dataclasses import fields

    from spader_slime.retrieval.serving import ServeOptions, serve

    names = {field.name for field in fields(ServeOptions)}
    serve(ServeOptions(**{n: v for n, v in vars(options).items() if n in names}))
