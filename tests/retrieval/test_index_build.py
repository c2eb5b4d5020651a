"""Builds through the command line, killed and taken up again."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.retrieval.building import build
from spader_slime.retrieval.corpus import Corpus
from spader_slime.retrieval.engines import BuildSettings, open_index
from spader_slime.retrieval.index import TantivyBackend, TantivyWriter
from spader_slime.retrieval.passages import Passage

QUERIES = ("river 17", "town 4 norway", "lake", "river lake 1999")


def corpus_lines(count: int) -> bytes:
    kinds = ("river", "town", "lake")
    records = (
        {"title": f"{kinds[n % 3]} {n}", "text": f"in norway near {kinds[n % 2]} {n // 7}"}
        for n in range(count)
    )
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def run_build(out: Path, corpus: Path, *more: str) -> list[str]:
    build = ["index", "build", "--corpus", str(corpus), "--out", str(out), *more]
    return [sys.executable, "-m", "spader_slime.cli", *build]


def rankings(folder: Path) -> list[list[tuple[str, float]]]:
    """All that is found: which of the equal ones come first may differ."""
    backend = open_index(folder)
    return [
        sorted((h.title, round(h.score, 3)) for h in backend.search(q, len(backend)))
        for q in QUERIES
    ]


def committed(folder: Path) -> int:
    path = folder / "progress.json"
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    return int(entries[0]["passages"]) if len(entries) > 1 else 0


def test_a_killed_build_is_refused_and_goes_on(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl.gz"
    corpus.write_bytes(gzip.compress(b"{}\n" + corpus_lines(60_000), 1))
    out, options = tmp_path / "index", ("--skip-bad", "--commit-every", "1000")
    with subprocess.Popen(run_build(out, corpus, *options), stderr=subprocess.DEVNULL) as process:
        while not committed(out):
            assert process.poll() is None, "it was over too soon to be killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(DataError, match="no complete index"):
        open_index(out)
    done = subprocess.run(run_build(out, corpus, *options), capture_output=True, text=True)
    assert "60,000 passages" in done.stdout and "from an earlier run" in done.stdout, done.stderr
    assert "1 records were left out, the first" in done.stdout
    whole = tmp_path / "whole"
    build(Corpus([corpus], skip_bad=True), whole, "tantivy", TantivyWriter, {})
    assert rankings(out) == rankings(whole)


class Killed(Exception):
    pass


class Fragile(TantivyWriter):
    """Dies at the commit that its name says, before or after it took effect."""

    deaths: tuple[str, ...] = ()

    def commit(self) -> None:
        if Fragile.deaths and Fragile.deaths[0] == "before":
            raise Killed
        super().commit()
        if Fragile.deaths:
            raise Killed


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_a_commit_loses_and_doubles_nothing(tmp_path: Path, when: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\n".join(b"nonsense\n" + corpus_lines(1) for _ in range(25)))
    out = tmp_path / "index"
    for deaths in ((when,), ()):
        Fragile.deaths = deaths
        corpus = Corpus([path], skip_bad=True)
        try:
            built = build(corpus, out, "tantivy", Fragile, {}, commit_every=10)
        except Killed:
            continue
    assert (built.passages, built.bad) == (25, 25)
    assert built.resumed == (10 if when == "after" else 0)
    assert len(open_index(out)) == 25


def test_priors_seen_before_a_kill_still_count(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    heavy = b'{"title": "heavy", "text": "norway", "prior": 1.5}\n'
    path.write_bytes(b'{"title": "light", "text": "norway"}\n' + heavy + corpus_lines(20))
    Fragile.deaths = ("after",)
    with pytest.raises(Killed):
        build(Corpus([path]), tmp_path / "i", "tantivy", Fragile, {}, commit_every=5)
    build(Corpus([path]), tmp_path / "i", "tantivy", TantivyWriter, {}, commit_every=5)
    assert open_index(tmp_path / "i").search("norway heavy light", 1)[0].title == "heavy"


def test_another_corpus_is_refused_until_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, out = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "i"
    first.write_bytes(corpus_lines(3))
    second.write_bytes(corpus_lines(5))
    arguments = ["index", "build", "--out", str(out), "--corpus"]
    assert cli.main([*arguments, str(first)]) == cli.main([*arguments, str(first)]) == 0
    assert "was complete already" in capsys.readouterr().out
    assert cli.main([*arguments, str(second)]) == cli.USER_FAULT
    assert "--overwrite" in capsys.readouterr().err and len(open_index(out)) == 3
    assert cli.main([*arguments, str(second), "--overwrite"]) == 0
    assert len(open_index(out)) == 5


def test_a_folder_that_is_no_index_is_left_alone(tmp_path: Path) -> None:
    path, home = tmp_path / "c.jsonl", tmp_path / "home"
    path.write_bytes(corpus_lines(3))
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="no index"):
            build(Corpus([path]), home, "tantivy", TantivyWriter, {}, overwrite)
    assert [p.name for p in home.iterdir()] == ["thesis.txt"]


def test_several_threads_index_the_same_passages(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(corpus_lines(5000))
    for threads in (1, 3):
        settings = BuildSettings(threads=threads, heap_mb=16)
        folder = tmp_path / str(threads)
        build(Corpus([path]), folder, "tantivy", settings.writer, {}, commit_every=1500)
    assert rankings(tmp_path / "1") == rankings(tmp_path / "3")


def test_info_and_search_say_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "c.jsonl", str(tmp_path / "i")
    path.write_bytes(corpus_lines(30))
    cli.main(["index", "build", "--corpus", str(path), "--out", out, "--text", "text"])
    assert cli.main(["index", "info", out]) == 0
    told = capsys.readouterr().out
    assert "30" in told and "tantivy" in told and str(path) in told
    assert cli.main(["index", "search", "NOT (river*", "--index", out, "-k", "2", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [hit["rank"] for hit in found] == [1, 2] and "river" in found[0]["text"]
    assert cli.main(["index", "search", "", "--index", out]) == 0


def test_wrong_settings_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(corpus_lines(1))
    base = ["index", "build", "--corpus", str(path), "--out", str(tmp_path / "i")]
    for wrong in (["--backend", "x"], ["--backend", "dense"], ["--threads", "0"], ["--title", "a"]):
        assert cli.main([*base, *wrong]) == cli.USER_FAULT
        assert capsys.readouterr().err.count("\n") == 1


def test_a_complete_index_of_the_world_kind_opens_by_name(tmp_path: Path) -> None:
    writer = TantivyWriter(tmp_path)
    writer.add(Passage("a", "b"))
    writer.finish()
    (tmp_path / "manifest.json").write_text('{"format": 2, "passages": 1, "weighted": false}')
    assert isinstance(open_index(tmp_path), TantivyBackend)
