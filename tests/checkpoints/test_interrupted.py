"""Exports and imports that are killed or run out of disk: nothing under the final name, and the
same command goes on to the right bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.families import save_hf
from support.grids import quick_context

from spader_slime.cli import main

MOMENTS = (0, 4, 20, 50)  # finished files at which the process is killed


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_hf("qwen3-moe", tmp_path_factory.mktemp("model") / "hf")


@pytest.fixture(scope="module")
def checkpoint(hf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checkpoint") / "megatron"
    assert main(import_words(hf, made)) == 0
    return made


def export_words(checkpoint: Path, hf: Path, out: Path, shard: str = "1e-6") -> list[str]:
    """By default every tensor gets a file of its own."""
    folders = ["--checkpoint", checkpoint, "--origin-hf", hf, "--out", out]
    return ["export", *map(str, folders), "--shard-size", shard]


def import_words(hf: Path, out: Path) -> list[str]:
    return ["import", "--hf", str(hf), "--out", str(out)]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def kill_at(words: list[str], out: Path, files: int) -> bool:
    """Run the command in a process, kill -9 it once it has so many files; whether it was alive."""
    part = out.with_name(f".{out.name}.part")
    process = quick_context().Process(target=main, args=(words,))
    process.start()
    while process.is_alive() and not (
        part.exists() and len(list(part.rglob("*.safetensors"))) >= files
    ):
        time.sleep(0.0005)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode == -signal.SIGKILL


def test_killed_exports_go_on(checkpoint: Path, hf: Path, tmp_path: Path) -> None:
    out, part = tmp_path / "out", tmp_path / ".out.part"
    words, kept = export_words(checkpoint, hf, out), {}
    for files in MOMENTS:
        assert kill_at(words, out, files)
        assert not out.exists() and part.is_dir()
        states = {p.name: p.stat().st_mtime_ns for p in part.glob("*.safetensors")}
        assert kept.items() <= states.items(), "finished files were written again"
        kept = states
    assert len(kept) >= MOMENTS[-1]
    assert main(words) == 0
    assert not list(tmp_path.glob(".out*"))
    after = {p.name: p.stat().st_mtime_ns for p in out.glob("*.safetensors")}
    assert kept.items() <= after.items() and len(after) > len(kept)
    assert main(export_words(checkpoint, hf, tmp_path / "at once")) == 0
    assert contents(out) == contents(tmp_path / "at once")


def test_another_export_does_not_go_on_from_it(checkpoint: Path, hf: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kill_at(export_words(checkpoint, hf, out), out, 20)
    other = [*export_words(checkpoint, hf, out), "--dtype", "bfloat16"]
    assert main(other) == 0
    at_once = [*export_words(checkpoint, hf, tmp_path / "at once"), "--dtype", "bfloat16"]
    assert main(at_once) == 0
    assert contents(out) == contents(tmp_path / "at once")


def test_killed_imports_go_on(hf: Path, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kill_at(import_words(hf, out), out, 0)
    assert not out.exists()
    assert main(import_words(hf, out)) == 0
    ours, theirs = contents(out), contents(checkpoint)
    assert ours.keys() == theirs.keys()
    distcp = [name for name in ours if name.endswith(".distcp")]
    assert distcp and all(ours[name] == theirs[name] for name in distcp)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for the weights (318 KB) and not for what lies beside them."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=340k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up(
    small_disk: Path, checkpoint: Path, hf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = small_disk / "out"
    words = export_words(checkpoint, hf, out, shard="1")
    assert main(words) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "spader-slime:" in one]
    assert "no space left" in line and str(small_disk / ".out.part") in line
    assert not out.exists()
    grow = ["mount", "-o", "remount,size=8m", str(small_disk)]
    subprocess.run(grow, check=True)
    assert main(words) == 0 and out.exists()


def test_a_disk_that_is_too_small_from_the_start(
    small_disk: Path, checkpoint: Path, hf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = small_disk / "out"
    (small_disk / "taken").write_bytes(bytes(100_000))
    assert main(export_words(checkpoint, hf, out)) == 2
    assert "GB needed" in capsys.readouterr().err and not out.exists()
    assert main(import_words(hf, out)) == 2
    assert "GB needed" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_quota(command: str, checkpoint: Path, hf: Path, tmp_path: Path) -> None:
    """No file may grow beyond 50 KiB: the weights can't be written."""
    out = tmp_path / "out"
    words = export_words(checkpoint, hf, out, "1")
    words = words if command == "export" else import_words(hf, out)
    limited = ["bash", "-c", 'ulimit -f 50; exec "$@"', "-", sys.executable, "-m"]
    done = subprocess.run([*limited, "spader_slime.cli", *words], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("spader-slime:") and "no space left" in last
    assert not out.exists() and not list(tmp_path.rglob("*.tmp"))
    assert main(words) == 0
