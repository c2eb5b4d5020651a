"""`spader-slime ask`: a trained agent answers one question, and shows how it searched."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from spader_slime.episode import Episode
from spader_slime.errors import ConfigError
from spader_slime.trajectory import Gold, print_trajectory


def ask(
    question: str, run_dir: Path | None = None, temperature: float = 0.0, seed: int = 0
) -> None:
    """Start search service and engine on the run's checkpoint, and print one trajectory.

    Where the question is one of the run's world, its known answers are marked.

    Args:
        run_dir: a finished run; by default the one in `runs/` that was finished last.
        temperature: 0 always takes the likeliest token.

    Raises:
        ConfigError: no such run, or it has no checkpoint yet.
        SpaderError: a server did not start, or failed.
    """
    root = run_dir or _newest(Path("runs"))
    if not (root / "hf" / "config.json").exists():
        raise ConfigError("--run", str(root), "the folder of a finished run")
    console = Console()
    with console.status("starting search service and engine"):
        episode, gold = _answer(question, root, temperature, seed)
    print_trajectory(console, question, episode, gold)


def _newest(runs: Path) -> Path:
    found = [path.parents[1] for path in runs.glob("*/hf/config.json")]
    if not found:
        raise ConfigError("--run", None, "the folder of a finished run (there is none in runs/)")
    return max(found, key=lambda root: (root / "hf" / "config.json").stat().st_mtime)


def _answer(question: str, root: Path, temperature: float, seed: int) -> tuple[Episode, Gold]:
    from transformers import AutoTokenizer

    from spader_slime import hooks
    from spader_slime.local.data_source import DataSource
    from spader_slime.local.host import RolloutHost
    from spader_slime.local.reinforce import arguments
    from spader_slime.local.run_dir import RunDir
    from spader_slime.local.sample import Sample
    from spader_slime.local.services import services
    from spader_slime.local.settings import load_config
    from spader_slime.local.state import sampling_params, seeded
    from spader_slime.local.world.build import open_world
    from spader_slime.record import episode_of

    run = RunDir(root)
    config = load_config(run.config, [f"run.seed={seed}"])
    files = open_world(Path(config.world.path) if config.world.path else run.world)
    asked = Sample(index=0, prompt=question)
    with services(config, files, run.hf) as at:
        args = arguments(config, files, at)
        source = DataSource(args, [asked])
        with RolloutHost(args, AutoTokenizer.from_pretrained(run.hf), source) as host:
            params = {**seeded(args, asked, sampling_params(args)), "temperature": temperature}
            host.loop.run_until_complete(hooks.generate(args, asked, params, evaluation=True))
    return episode_of(asked), _gold(
        question, [files.questions(s) for s in ("test", "dev", "train")]
    )


def _gold(question: str, paths: list[Path]) -> Gold:
    from spader_slime.local.data_source import read_prompts

    for path in paths:
        for known in read_prompts(str(path)):
            if known.prompt == question:
                gold: list[list[str]] = known.label
                return gold
    return None
