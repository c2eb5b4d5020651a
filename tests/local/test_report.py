"""The report: from a run's folder to plots and one HTML page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.runs import write_run

from spader_slime.errors import DataError
from spader_slime.local.run_dir import RunDir
from spader_slime.report import write_report
from spader_slime.report.data import load_run
from spader_slime.report.style import smooth
from spader_slime.report.tables import facts, scores
from spader_slime.report.write import PLOTS

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_run(tmp_path_factory.mktemp("runs") / "finished")
    write_report(root)
    return root


class Page(HTMLParser):
    """Collects what a browser would fetch, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words += data + " "


def test_every_plot_is_a_picture_in_the_page_and_a_file(finished: Path) -> None:
    found = Page((finished / "report.html").read_text())
    assert len(found.sources) == len(PLOTS)
    assert all(source.startswith("data:image/png;base64,") for source in found.sources)
    for plot in PLOTS:
        assert (finished / "plots" / f"{plot.name}.png").read_bytes().startswith(PNG)
        assert plot.title in found.words


def test_the_table_says_before_after_and_gain(finished: Path) -> None:
    head, plain, before, after, gain = scores(load_run(finished), "test")
    f1, searches = head.index("F1"), head.index("searches")
    rows = (plain, before, after, gain)
    assert [row[0] for row in rows] == ["plain query", "cold start", "trained", "gain"]
    assert [row[f1] for row in rows] == ["32.0", "28.0", "50.0", "+22.0"]
    assert [row[searches] for row in rows] == ["–", "3.0", "3.0", "+0.0"]


def test_facts_come_from_configuration_result_and_metrics(finished: Path) -> None:
    known = dict(facts(load_run(finished)))
    assert known["gamma"] == "1.0"
    assert known["iterations"] == "60 of 60"
    assert known["time"] == "5.3 minutes"
    assert known["largest log-prob gap"] == "3.1e-06"


def test_a_run_that_goes_on_has_a_report_too(tmp_path: Path) -> None:
    root = write_run(tmp_path / "going", finished=False)
    text = Page(write_report(root).read_text()).words
    assert "has not finished" in text
    assert not (root / "plots" / "overview.png").exists()
    assert (root / "plots" / "learning.png").exists()


def test_missing_keys_leave_plots_out(tmp_path: Path) -> None:
    with RunDir(tmp_path) as run:
        run.metrics.log("train", 0, {"spader/f1": 0.2, "train/entropy": float("nan")})
    write_report(tmp_path)
    assert sorted(p.stem for p in (tmp_path / "plots").iterdir()) == ["learning"]


def test_a_result_without_curves(tmp_path: Path) -> None:
    with RunDir(tmp_path) as run:
        run.metrics.log("eval", 0, {"eval/dev/spader/f1": 0.2})
        run.write_json(run.result, {"after": {"dev": {"f1": 0.2}}})
    write_report(tmp_path)
    assert (tmp_path / "plots" / "overview.png").exists()


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    root = write_run(tmp_path / "<b>run")
    (root / "world").mkdir()
    (root / "world" / "world.json").write_text(json.dumps({"attribution": ["<script>x</script>"]}))
    text = write_report(root).read_text()
    assert "<script>" not in text
    assert "&lt;b&gt;run" in text


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no run"):
        write_report(tmp_path)


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "result.json").write_text("{")
    with pytest.raises(DataError, match=r"result\.json"):
        write_report(root)


def test_the_running_mean_keeps_length_and_level() -> None:
    line = np.arange(20.0)
    assert smooth(line, 2)[2:-2] == pytest.approx(line[2:-2])
    assert smooth(np.full(7, 3.0), 2) == pytest.approx(np.full(7, 3.0))
    assert smooth(np.array([1.0, 2.0]), 4) == pytest.approx([1.5, 1.5])
