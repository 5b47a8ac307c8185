"""Part files of an ingest: what is written is read back, also after a run that was killed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from topicstream.base.errors import StoreError
from topicstream.base.files.ownership import claim
from topicstream.ingestion.parse.documents import DocumentCells
from topicstream.ingestion.parts.part_files import (
    ALL,
    CountedDocuments,
    PartWriter,
    read_part,
    read_words,
)
from topicstream.ingestion.parts.working_folder import IngestState, WorkingFolder, read_state
from topicstream.ingestion.tokens.wordtable import WordTable


def piece(ids, words, counts=np.int32, gone=(), **columns):
    """A document for each id, with one word each."""
    text = pa.large_string()
    metadata = pa.record_batch(
        {"id": pa.array(ids, text), "source": pa.array(ids, text)}
        | {name: pa.array(values, text) for name, values in columns.items()}
    )
    cells = DocumentCells(
        np.arange(len(ids) + 1, dtype=np.int64),
        np.arange(len(ids), dtype=np.int32),
        np.ones(len(ids), counts),
    )
    return CountedDocuments(metadata, pa.array(gone, text), pa.array(words, text), cells)


def rows_of(folder: WorkingFolder) -> list[tuple]:
    """Id, word and count of each document, in order."""
    found = []
    for words, pieces in folder.pieces_by_part(*ALL_COLUMNS):
        for rows in pieces:
            cells = rows.cells
            names = words.take(pa.array(cells.words)).to_pylist()
            found += zip(rows.documents["id"].to_pylist(), names, cells.counts.tolist())
    return found


ALL_COLUMNS = ("id", "words", "counts")


def test_a_part_holds_documents_withdrawals_and_words(tmp_path):
    part = PartWriter(tmp_path / "p.arrow", tmp_path / "w.arrow", 1 << 20)
    part.add(piece(["a", "b"], ["x", "y"], date=["1", "2"]))
    part.add(piece(["c", "d"], ["y", "z"], gone=["a", "q"]))  # no date: a null
    assert not part.accepts(piece(["e"], ["x"], other=["new column"]))
    assert not part.accepts(piece(["e"], ["x"], counts=np.float32))
    part.finish()
    first, second = read_part(tmp_path / "p.arrow", ALL)
    words = read_words(tmp_path / "w.arrow")
    assert words.to_pylist() == ["x", "y", "z"]
    assert [first.cells.words.tolist(), second.cells.words.tolist()] == [[0, 1], [1, 2]]
    assert second.metadata.to_pydict() == {
        "id": ["c", "d"],
        "source": ["c", "d"],
        "date": [None, None],
    }
    assert second.withdrawn["id"].to_pylist() == ["a", "q"] and not len(first.withdrawn)
    assert pa.ipc.open_file(str(tmp_path / "p.arrow")).read_all().num_rows == 6
    with open(tmp_path / "p.arrow", "r+b") as file:
        file.truncate(100)
    with pytest.raises(StoreError, match=r"p\.arrow: is damaged .*--force"):
        list(read_part(tmp_path / "p.arrow"))


@pytest.mark.parametrize(("apart", "batches"), [(False, [3, 1, 1]), (True, [1, 1, 1, 1, 1])])
def test_small_pieces_become_one_batch_in_order(apart, batches, tmp_path):
    part = PartWriter(tmp_path / "p.arrow", tmp_path / "w.arrow", 1 << 20, apart=apart)
    part.add(piece(["a"], ["x"], date=["1"]))
    part.add(piece(["b"], ["y"]))  # no date: a null
    part.add(piece(["c"], ["x"], date=["3"]))
    part.add(piece(["d"], ["z"], gone=["a"]))  # what is withdrawn stays last in its batch
    part.add(piece(["e"], ["y"]))
    part.finish()
    rows = list(read_part(tmp_path / "p.arrow", ALL))
    assert [len(some.documents) for some in rows] == batches
    words = read_words(tmp_path / "w.arrow")
    read = []
    for some in rows:
        names = words.take(pa.array(some.cells.words)).to_pylist()
        columns = [some.documents[name].to_pylist() for name in ("id", "date")]
        read += zip(*columns, names, strict=True)
    dates = {"a": "1", "c": "3"}
    assert read == [(name, dates.get(name), word) for name, word in zip("abcde", "xyxzy")]
    assert [some.withdrawn["id"].to_pylist() for some in rows if len(some.withdrawn)] == [["a"]]


def test_words_that_find_no_room_begin_a_new_part(tmp_path):
    claim(tmp_path, "ingest")
    folder = WorkingFolder(tmp_path, IngestState(key={}), None, 1 << 20)
    expected = []
    for n in range(8):
        ids = [f"{n}-{i}" for i in range(5000)]
        words = [f"word number {n % 7} {i}" for i in range(5000)]
        folder.add(piece(ids, words), b"")
        expected += [(name, word, 1) for name, word in zip(ids, words)]
    folder.commit(0.0, done=True)
    assert folder.state.parts > 1
    assert rows_of(folder) == expected
    folder.close()


def test_what_was_not_committed_is_written_again(tmp_path):
    claim(tmp_path, "ingest")
    folder = WorkingFolder(tmp_path, IngestState(key={"key": 1}), None, 1 << 20)
    folder.add(piece(["a"], ["x"]), b"first\n")
    folder.state.pieces = 1
    folder.commit(0.0, done=False)
    folder.add(piece(["lost"], ["y"]), b"lost\n")
    folder.close()  # as a kill leaves it
    again = WorkingFolder(tmp_path, IngestState(key={"key": 1}), read_state(tmp_path), 1 << 20)
    assert again.resumed and rows_of(again) == [("a", "x", 1)]
    again.add(piece(["b"], ["z"]), b"second\n")
    again.commit(0.0, done=True)
    assert rows_of(again) == [("a", "x", 1), ("b", "z", 1)]
    assert b"".join(again.rejects()) == b"first\nsecond\n"
    again.remove()
    assert not tmp_path.exists()


def test_words_are_numbered_as_they_are_met():
    rng = np.random.default_rng(3)
    table = WordTable()
    known: dict[str, int] = {}
    for _ in range(30):
        words = ["w" * int(n % 23) + str(n) for n in rng.integers(0, 4000, 700)] + ["", "é" * 9]
        expected = [known.setdefault(word, len(known)) for word in words]
        assert table.number(pa.array(words, pa.large_string())).tolist() == expected
        assert table.words.to_pylist() == list(known)
