"""Dense and hybrid indexes: built, killed and taken up again, refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.dense import QUERIES, RECORDS, built, passage_of
from support.tiny_models import tiny_bert

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.retrieval.dense import DenseWriter
from spader_slime.retrieval.engines import BuildSettings, open_index
from spader_slime.retrieval.index import TantivyBackend, TantivyWriter
from spader_slime.retrieval.models import EncoderSettings


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("backend", "victim"),
    [("dense", DenseWriter), ("hybrid", DenseWriter), ("hybrid", TantivyWriter)],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_build_goes_on(
    corpus: Path,
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    victim: type[Any],
    when: str,
) -> None:
    settings = BuildSettings(backend, encoder=EncoderSettings(str(models / "encoder")))
    with monkeypatch.context() as patch:
        patch.setattr(victim, "commit", _dying(victim.commit, when))
        with pytest.raises(Killed):
            built(corpus, tmp_path / "i", settings)
    again = built(corpus, tmp_path / "i", settings)
    assert again.passages == len(RECORDS) and again.resumed in (10, 20)
    built(corpus, tmp_path / "whole", settings, commit_every=1000)
    for part in ("words", "vectors") if backend == "hybrid" else ("",):
        cut, whole = (open_index(tmp_path / name / part) for name in ("i", "whole"))
        for query in QUERIES:
            scores = [{passage_of(h): h.score for h in b.search(query, 36)} for b in (cut, whole)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def _dying(commit: Callable[[Any], None], when: str) -> Callable[[Any], None]:
    """The second commit dies, before or after it took effect."""
    calls = []

    def dying(self: Any) -> None:
        calls.append(when)
        if len(calls) == 2 and when == "before":
            raise Killed
        commit(self)
        if len(calls) == 2:
            raise Killed

    return dying


def test_what_is_wrong_with_an_encoder_is_said(corpus: Path, models: Path, tmp_path: Path) -> None:
    missing = BuildSettings("dense", encoder=EncoderSettings(str(tmp_path / "nothing")))
    with pytest.raises(DataError, match="nothing can't be loaded"):
        built(corpus, tmp_path / "x", missing)
    home = shutil.copytree(models / "encoder", tmp_path / "encoder")
    built(corpus, tmp_path / "i", BuildSettings("dense", encoder=EncoderSettings(str(home))))
    shutil.rmtree(home)
    tiny_bert(home, width=8)
    with pytest.raises(DataError, match="vectors of 16 numbers, the encoder gives 8"):
        open_index(tmp_path / "i")


def test_a_hybrid_index_from_the_command_line(
    corpus: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, encoder = str(tmp_path / "i"), str(models / "encoder")
    options = ["--backend", "hybrid", "--encoder", encoder, "--out", out]
    assert cli.main(["index", "build", "--corpus", str(corpus), *options]) == 0
    assert cli.main(["index", "info", out]) == 0
    told = capsys.readouterr().out
    assert "hybrid" in told and encoder in told and "Flat" in told
    assert cli.main(["index", "search", "lima", "--index", out, "-k", "3", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert isinstance(open_index(tmp_path / "i" / "words"), TantivyBackend)
