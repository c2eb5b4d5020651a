"""What is evaluated with what: options of the command line, completed from a run's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spader_slime.errors import ConfigError
from spader_slime.evaluation.endpoint import (
    Endpoint,
    chat_endpoint,
    engine_of,
    native_endpoint,
    weights_of,
)
from spader_slime.evaluation.questions import read_data_sets
from spader_slime.evaluation.settings import Plan, agent_settings, ask_settings, run_defaults

APIS = ("sglang", "chat")


@dataclass(frozen=True)
class Sources:
    """Where everything comes from.

    Attributes:
        data: name -> file.
        endpoint: address of a served policy; else `checkpoint` gets an engine of its own.
        api: protocol of the engine, one of `APIS`.
        model: name that a chat endpoint serves it by.
        tokenizer: folder or name; None: what the endpoint says.
        checkpoint: a Hugging Face folder, or the folder of a run of `spader-slime train`.
        search_urls: of running search services; else `index` is served.
        config: YAML file with the key `spader:`.
        template: arguments of the chat template.
        ask: chosen fields of `AskSettings`.
        threads, running: of the engine for `checkpoint`: threads, sequences sampled at once.
    """

    data: Mapping[str, Path] = field(default_factory=dict)
    endpoint: str | None = None
    api: str = "sglang"
    model: str | None = None
    tokenizer: str | None = None
    api_key: str | None = None
    checkpoint: Path | None = None
    search_urls: Sequence[str] = ()
    index: Path | None = None
    config: Path | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    ask: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    running: int = 192


def completed(sources: Sources) -> tuple[Sources, dict[str, Any]]:
    """Sources with what a run's folder knows filled in, and that run's evaluation settings.

    Raises:
        ConfigError: not exactly one policy or search, or nothing to ask.
    """
    if (sources.endpoint is None) == (sources.checkpoint is None):
        raise ConfigError("--endpoint", sources.endpoint, "either this or --checkpoint")
    if sources.search_urls and sources.index is not None:
        raise ConfigError("--index", str(sources.index), "either this or --search-url")
    defaults: dict[str, Any] = {}
    root = sources.checkpoint
    if root is not None and (root / "hf" / "config.json").is_file():
        sources, defaults = _of_run(sources, root)
    if not sources.data:
        raise ConfigError("--data", None, "NAME=FILE, at least one")
    if not sources.search_urls and sources.index is None:
        raise ConfigError("--search-url", None, "an address, or --index with what to search")
    return sources, defaults


def _of_run(sources: Sources, root: Path) -> tuple[Sources, dict[str, Any]]:
    from spader_slime.local.run_dir import RunDir
    from spader_slime.local.settings import load_config
    from spader_slime.local.world.build import open_world

    run = RunDir(root)
    known = load_config(run.config)
    needs_world = not sources.data or not (sources.search_urls or sources.index)
    if needs_world:
        files = open_world(Path(known.world.path) if known.world.path else run.world)
        index = None if sources.search_urls else sources.index or files.index
        data = sources.data or {"test": files.questions("test")}
        sources = replace(sources, data=data, index=index)
    filled = replace(
        sources,
        checkpoint=run.hf,
        config=sources.config or run.config,
        threads=known.engine.threads,
        running=known.engine.max_running,
    )
    return filled, run_defaults(known)


def plan_of(sources: Sources, defaults: Mapping[str, Any]) -> Plan:
    """What is asked and how.

    Raises:
        ConfigError: bad settings. DataError: bad data.
    """
    return Plan(
        ask=ask_settings(sources.ask, defaults),
        spader=agent_settings(sources.config, sources.search_urls),
        data=read_data_sets(sources.data),
        template=sources.template,
    )


@contextmanager
def servers(sources: Sources, plan: Plan) -> Iterator[str]:
    """Start what is not running yet; the engine's address. The plan gets the search address.

    Raises:
        EngineError, SearchError: a server did not start.
    """
    with ExitStack() as stack:
        if not sources.search_urls:
            from spader_slime.retrieval.launch import SearchProcess

            assert sources.index is not None
            plan.spader.search.urls = [stack.enter_context(SearchProcess(sources.index)).url]
        if sources.endpoint is not None:
            yield sources.endpoint
            return
        assert sources.checkpoint is not None
        options = (plan.ask.max_context, sources.threads, sources.running)
        yield stack.enter_context(engine_of(sources.checkpoint, *options))


async def endpoint_at(url: str, sources: Sources) -> Endpoint:
    """The policy served at `url`.

    Raises:
        EngineError: it can't be reached. ConfigError: model or tokenizer have to be named.
    """
    own = None if sources.checkpoint is None else str(sources.checkpoint)
    tokenizer = sources.tokenizer or own
    if sources.api == "chat":
        found = await chat_endpoint(url, sources.model, tokenizer, sources.api_key)
    else:
        found = await native_endpoint(url, tokenizer)
    identity = {"api": sources.api, **found.identity}
    if sources.checkpoint is not None:
        path = sources.checkpoint.resolve()
        identity |= {"model_path": str(path), "weights": weights_of(path)}
        identity.pop("weight_version", None)
    return replace(found, identity=identity)
