"""`evaluate`, `evaluate score`, `evaluate compare`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from spader_slime.commands.base import command

SCORINGS = ("ours", "authors", "official")
ASKED = ("samples", "temperature", "top_p", "top_k", "max_tokens", "max_context", "seed")


def add(commands: Any) -> None:
    """Declare the commands of this group."""
    about = "ask a policy benchmark questions in the loop of training; goes on where it stopped"
    evaluate = command(commands, "evaluate", _evaluate, about, allow_abbrev=False)
    _add_policy(evaluate.add_argument_group("policy"))
    _add_asking(evaluate.add_argument_group("questions and search"))
    _add_sampling(evaluate.add_argument_group("sampling and limits"))
    actions = evaluate.add_subparsers(metavar="ACTION", required=False)
    score = command(actions, "score", _score, "score answers again, without asking")
    score.add_argument("out", type=Path, metavar="DIR", help="folder of an evaluation")
    _add_scoring(score)
    _add_corpus(score)
    compare = command(actions, "compare", _compare, "two evaluations, paired by question")
    compare.add_argument("first", type=Path, metavar="A")
    compare.add_argument("second", type=Path, metavar="B")
    compare.add_argument(
        "--out", type=Path, metavar="DIR", help="write comparison.json, .md and .html there"
    )
    _add_scoring(compare)


def _add_policy(group: Any) -> None:
    option = group.add_argument
    option("--endpoint", metavar="URL", help="a served policy")
    option("--api", choices=("sglang", "chat"), default="sglang",
           help="SGLang's /generate (default), or OpenAI's /v1/chat/completions")  # fmt: skip
    option("--model", metavar="NAME", help="of the model, for --api chat with several")
    option("--tokenizer", metavar="DIR", help="folder or name; default: what the endpoint says")
    option("--checkpoint", type=Path, metavar="DIR",
           help="in place of --endpoint: a Hugging Face folder, or the folder of a run, with an "
           "embedded engine; a run also knows its questions, search and settings")  # fmt: skip
    option("--chat-template-kwargs", type=_mapping, metavar="JSON",
           help='for example {"enable_thinking": false}')  # fmt: skip


def _add_asking(group: Any) -> None:
    option = group.add_argument
    option("--data", nargs="+", action="extend", default=[], metavar="NAME=FILE",
           help="slime rows, or a public format as it is")  # fmt: skip
    option("--search-url", action="append", default=[], metavar="URL",
           help="of /retrieve; may be given several times")  # fmt: skip
    option("--index", type=Path, metavar="DIR", help="in place of --search-url: serve this index")
    option("--config", type=Path, metavar="YAML", help="agent and search under the key spader:")
    option("--out", type=Path, metavar="DIR", help="where answers and results go (required)")
    option("--limit", type=int, metavar="N", help="only the first N questions of each file")
    option("--concurrency", type=int, default=64, metavar="N", help="trajectories in flight")
    _add_scoring(group)
    _add_corpus(group)


def _add_scoring(parser: Any) -> None:
    parser.add_argument("--scoring", choices=SCORINGS, default="ours", help="default ours")


def _add_corpus(parser: Any) -> None:
    parser.add_argument(
        "--corpus", type=Path, nargs="+", default=[], metavar="PATH",
        help="corpus files or an index of them: tell head from tail by the passages that name "
        "an answer",
    )  # fmt: skip


def _add_sampling(group: Any) -> None:
    option = group.add_argument
    option("--samples", type=int, metavar="N", help="trajectories per question; default 1")
    option("--temperature", type=float, metavar="T", help="default 0: the likeliest token")
    option("--top-p", type=float, metavar="P", help="default 1")
    option("--top-k", type=int, metavar="K", help="default -1: all tokens")
    option("--max-tokens", type=int, metavar="N",
           help="response tokens of a trajectory, observations included; default 8192")  # fmt: skip
    option("--max-context", type=int, metavar="N",
           help="context length of the engine; default: what it says")  # fmt: skip
    option("--seed", type=int, metavar="N", help="default 0")


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return found


def _evaluate(options: argparse.Namespace) -> None:
    from rich.console import Console

    from spader_slime.errors import ConfigError, TooManyFailuresError
    from spader_slime.evaluation.run import evaluate

    if options.out is None:
        raise ConfigError("--out", None, "a folder")
    results, missing = evaluate(
        _sources(options), options.out, options.scoring, options.concurrency, options.limit,
        options.corpus,
    )  # fmt: skip
    results.show(Console())
    print(f"written: {options.out}/results.md, .html, .json, .jsonl")
    if missing:
        raise TooManyFailuresError(
            f"{missing} answers are missing from the tables: engine or search service failed; "
            "the same command asks for them again"
        )


def _sources(options: argparse.Namespace) -> Any:
    from spader_slime.errors import ConfigError
    from spader_slime.evaluation.questions import named_file
    from spader_slime.evaluation.sources import Sources

    named = [named_file(text) for text in options.data]
    data = dict(named)
    if len(data) < len(named):
        raise ConfigError("--data", " ".join(options.data), "a different name for each file")
    return Sources(
        data=data,
        endpoint=options.endpoint,
        api=options.api,
        model=options.model,
        tokenizer=options.tokenizer,
        api_key=os.environ.get("OPENAI_API_KEY") if options.api == "chat" else None,
        checkpoint=options.checkpoint,
        search_urls=options.search_url,
        index=options.index,
        config=options.config,
        template=options.chat_template_kwargs or {},
        ask={name: getattr(options, name) for name in ASKED},
    )


def _score(options: argparse.Namespace) -> None:
    from rich.console import Console

    from spader_slime.evaluation.results import results_of

    results = results_of(options.out, options.scoring, options.corpus)
    results.write()
    results.show(Console())


def _compare(options: argparse.Namespace) -> None:
    from rich.console import Console

    from spader_slime.evaluation.compare import compare

    found = compare(options.first, options.second, options.scoring)
    found.show(Console())
    if options.out is not None:
        found.write(options.out)
