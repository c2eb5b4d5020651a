"""Head and tail of the gold answers, counted in a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.answers import log_line, write_log

from spader_slime import cli
from spader_slime.errors import DataError
from spader_slime.evaluation import tiers as module
from spader_slime.evaluation.results import results_of
from spader_slime.evaluation.tiers import tiers_of

PASSAGES = [
    ("Norway", "Oslo is the capital; Oslo again."),
    ("Oslo", "A city."),
    ("Towns", "Bjørgvin and Oslo."),
    ("Romania", "Nothing to see, womanly."),
]
GOLD = {
    ("towns", 0): [["Oslo"], ["Bergen", "Bjørgvin"], ["Oman"]],
    ("towns", 1): [["Oslo"], ["Nowhere"], ["Bergen", "Bjørgvin"]],
    ("rare", 0): [["Oman"]],
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    rows = [{"title": title, "text": text} for title, text in PASSAGES]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_the_head_is_the_third_that_most_passages_name(corpus: Path, tmp_path: Path) -> None:
    found = tiers_of(GOLD, [corpus], tmp_path)
    assert found.at_least == {"towns": 3, "rare": 1}
    assert found.of["towns", 0] == ["head", "tail", "tail"]
    assert found.of["rare", 0] == ["tail"]  # what nothing names is never well known
    assert "3 in towns" in found.note


def test_an_index_leads_to_its_corpus(corpus: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert cli.main(["index", "build", "--corpus", str(corpus), "--out", str(index)]) == 0
    assert tiers_of(GOLD, [index], tmp_path).at_least == {"towns": 3, "rare": 1}


def test_an_index_that_a_program_made_is_refused(tmp_path: Path) -> None:
    from spader_slime.retrieval.index import build_index
    from spader_slime.retrieval.passages import Passage

    build_index([Passage("a", "b")], tmp_path / "index")
    with pytest.raises(DataError, match="give the corpus"):
        tiers_of(GOLD, [tmp_path / "index"], tmp_path)


def test_the_corpus_is_read_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tiers_of(GOLD, [corpus], tmp_path)
    monkeypatch.setattr(module, "count_passages", lambda *_: pytest.fail("read again"))
    assert tiers_of(GOLD, [corpus], tmp_path) == before
    with pytest.raises(pytest.fail.Exception, match="read again"):
        tiers_of({("towns", 0): [["Bergen"]]}, [corpus], tmp_path)


def test_counted_tiers_replace_those_of_the_data(corpus: Path, tmp_path: Path) -> None:
    line = log_line(0, ['<answer>["Bergen"]</answer>'], gold=[["Oslo"], ["Bergen"]])
    folder = write_log(tmp_path / "run", [{**line, "tiers": ["tail", "head"]}])
    own, counted = results_of(folder, "ours"), results_of(folder, "ours", [corpus])
    recalls = [
        {tier: r.summary.data_sets[0].estimates[f"recall_{tier}"].mean for tier in ("head", "tail")}
        for r in (own, counted)
    ]
    assert recalls == [{"head": 1.0, "tail": 0.0}, {"head": 0.0, "tail": 1.0}]
