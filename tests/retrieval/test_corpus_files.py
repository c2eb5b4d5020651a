from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from spader_slime.errors import DataError
from spader_slime.retrieval.corpus import Corpus
from spader_slime.retrieval.fields import Fields
from spader_slime.retrieval.passages import Passage

QAMPARI = {
    "id": "12__0",
    "contents": "Oslo It lies in Norway.",
    "meta": {"title": "Oslo", "content": "It lies in Norway.", "url": "u", "chunk_id": 0},
}
QUEST = {"title": "Up (1966 film)", "text": "A film.", "metadata": None}
WIKI18 = {"id": "7", "contents": '"Lima"\nCapital of Peru.\nOn the coast.'}
TITLED = {"title": "Rome", "contents": "Capital of Italy."}
RECORDS = [QAMPARI, QUEST, WIKI18, TITLED]
PASSAGES = [
    Passage("Oslo", "It lies in Norway."),
    Passage("Up (1966 film)", "A film."),
    Passage("Lima", "Capital of Peru.\nOn the coast."),
    Passage("Rome", "Capital of Italy."),
]


def lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def write_jsonl(path: Path, records: list[Any]) -> Path:
    path.write_bytes(lines(records))
    return path


def write_gzip(path: Path, records: list[Any]) -> Path:
    path.write_bytes(gzip.compress(lines(records)))
    return path


def write_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_every_layout_is_recognized(tmp_path: Path) -> None:
    assert list(Corpus([write_jsonl(tmp_path / "a.jsonl", RECORDS)]).passages()) == PASSAGES


def test_gzip_and_tar_read_like_plain_files(tmp_path: Path) -> None:
    zipped = write_gzip(tmp_path / "a.jsonl.gz", RECORDS[:2])
    members = {
        "x/chunks_2.jsonl": lines(RECORDS[2:3]),
        "x/README.txt": b"not json",
        "x/._chunks_2.jsonl": b"\x00\x05\x16\x07 left by macOS",
        "x/chunks_3.jsonl.gz": gzip.compress(lines(RECORDS[3:])),
    }
    tar = write_tar(tmp_path / "b.tar.gz", members)
    corpus = Corpus([zipped, tar])
    assert list(corpus.passages()) == PASSAGES
    assert corpus.position == corpus.size == zipped.stat().st_size + tar.stat().st_size
    bare = write_tar(tmp_path / "c.tar", members, "w")
    assert list(Corpus([bare]).passages()) == PASSAGES[2:]


def test_parquet_rows_nested_or_flat(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    nested = [{"id": str(n), "meta": {"title": f"t{n}", "content": "c"}} for n in range(2500)]
    pq.write_table(pa.Table.from_pylist(nested), tmp_path / "a.parquet", row_group_size=700)
    pq.write_table(pa.Table.from_pylist([{"title": None, "text": "x"}]), tmp_path / "b.parquet")
    corpus = Corpus([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    found = list(corpus.passages())
    assert found == [*(Passage(f"t{n}", "c") for n in range(2500)), Passage("", "x")]
    assert corpus.position == corpus.size
    (tmp_path / "c.parquet").write_bytes(b"PAR1 nothing more")
    with pytest.raises(DataError, match=r"c\.parquet: damaged"):
        list(Corpus([tmp_path / "c.parquet"]).passages())


def test_folders_are_read_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_jsonl(tmp_path / f"chunks_{number}.jsonl", [{"title": str(number), "text": ""}])
    (tmp_path / "notes.txt").write_text("not a corpus")
    assert [p.title for p in Corpus([tmp_path]).passages()] == ["1", "2", "10"]


def test_named_keys_come_first(tmp_path: Path) -> None:
    record = {"title": "no", "text": "no", "page": {"head": "yes", "body": "words"}}
    path = write_jsonl(tmp_path / "a.jsonl", [record])
    found = list(Corpus([path], Fields("page.head", "page.body")).passages())
    assert found == [Passage("yes", "words")]
    assert list(Corpus([path], Fields("", "page.body")).passages()) == [Passage("", "words")]
    with pytest.raises(DataError, match=r"a\.jsonl:1: .*'page\.foot'"):
        list(Corpus([path], Fields("page.head", "page.foot")).passages())


BAD = [
    b"{",
    b"\xff\xfe",
    b'["title", "text"]',
    b'{"title": "a"}',
    b'{"title": 1, "text": "b"}',
    b'{"title": "a", "text": null}',
    b'{"meta": {"title": "a", "content": 3}, "id": 1}',
    b'{"title": "a", "text": "b", "prior": 0.5}',
    b'{"title": "\\ud800", "text": "b"}',
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_record_is_named_or_counted(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "a.jsonl"
    good = json.dumps(QUEST).encode()
    path.write_bytes(b"\n".join([good, b"  ", bad, good, b""]))
    with pytest.raises(DataError, match=r"a\.jsonl:3: "):
        list(Corpus([path]).passages())
    corpus = Corpus([path], skip_bad=True)
    assert list(corpus.passages()) == [PASSAGES[1]] * 2
    assert corpus.bad == 1 and "a.jsonl:3" in corpus.first_bad and corpus.read == 3


def test_reading_goes_on_after_the_records_skipped(tmp_path: Path) -> None:
    path = write_gzip(tmp_path / "a.jsonl.gz", [*RECORDS, {}, QUEST])
    corpus = Corpus([path], skip_bad=True)
    assert list(corpus.passages(skip=3)) == [PASSAGES[3], PASSAGES[1]]
    assert corpus.read == 6 and corpus.bad == 1


def test_damaged_files_are_named(tmp_path: Path) -> None:
    zipped = write_gzip(tmp_path / "a.jsonl.gz", RECORDS * 500)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(zipped.read_bytes()[:-20])
    tar = write_tar(tmp_path / "b.tar.gz", {"x.jsonl": lines(RECORDS * 500)})
    cut_tar = tmp_path / "cut.tgz"
    cut_tar.write_bytes(tar.read_bytes()[: tar.stat().st_size // 2])
    plain = write_jsonl(tmp_path / "plain.jsonl.gz", RECORDS)
    for path in (cut, cut_tar, plain):
        with pytest.raises(DataError, match=path.name):
            list(Corpus([path]).passages())


@pytest.mark.parametrize("name", ["none.jsonl", "a.csv", "empty"])
def test_what_is_no_corpus_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("title,text\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=name):
        Corpus([tmp_path / name])
