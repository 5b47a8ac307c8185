"""The memory promise over shapes of input: a piece stays small however short, empty or repeated its
documents are.
"""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topicstream.base.errors import DoesNotFit
from topicstream.base.memory import MemoryLimit, Room
from topicstream.corpus import documents
from topicstream.corpus.manifest import store_file
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import RECORD_BYTES, content_kind, document_cells
from topicstream.ingestion.parts.tasks import pieces

pytestmark = pytest.mark.slow

LARGE = 8 << 20
SMALL = 1 << 12


def lines(rng):
    return "a.txt", "".join(
        rng.choice(["\n", "a\n", "b c\n", "a longer line\n"]) for _ in range(20_000)
    )


def csv(rng):
    rows = ["a,%d\n", '"x\n\n\n\ny",%d\n', '"",%d\n']
    return "a.csv", "text,id\n" + "".join(rng.choice(rows) % i for i in range(10_000))


def matrix(rng):
    docs = sorted(rng.sample(range(1, 300_000), 9000))
    cells = "".join(f"{d} {d % 10 + 1} 2\n" for d in docs)
    return (
        "a.mtx",
        f"%%MatrixMarket matrix coordinate integer general\n300000 10 {len(docs)}\n{cells}",
    )


def one_cell_at_the_end(rng):
    return "a.mtx", "%%MatrixMarket matrix coordinate integer general\n300000 10 1\n299999 3 2\n"


@pytest.mark.parametrize("make", [lines, csv, matrix, one_cell_at_the_end])
def test_pieces_hold_few_documents_and_all_are_the_same_in_any(make, tmp_path):
    name, text = make(random.Random(1))
    path = tmp_path / name
    path.write_text(text)

    def read(size: int) -> tuple[list[str], list[str], list[bytes], int]:
        ids = []
        sources = []
        contents = []
        most = 0
        for task in pieces([str(path)], ReadOptions(piece_bytes=size)):
            batch, _ = task.run()
            assert not task.rejects.records
            most = max(most, len(batch))
            ids += map(str, batch.column(0).to_pylist())
            sources += batch.column(1).to_pylist()
            if content_kind(batch) == "text":
                contents += [text.encode() for text in batch.column(2).to_pylist()]
            else:
                cells = document_cells(batch)
                pairs = np.stack((cells.words, cells.counts)).T
                contents += [pairs[a:b].tobytes() for a, b in pairwise(cells.indptr)]
        return ids, sources, contents, most

    *large, most_large = read(LARGE)
    *small, most = read(SMALL)
    assert small == large
    assert most <= SMALL // RECORD_BYTES < most_large <= LARGE // RECORD_BYTES


def test_parquet_is_cut_by_what_it_decodes_to(tmp_path):
    """Few long values in a dictionary, each in many rows; a list of them, too; and what the readers
    give is the same.
    """
    texts = [" ".join(f"word{i}x{j}" for j in range(400)) for i in range(3)]
    which = np.random.default_rng(1).integers(0, 3, 3000)
    labels = pa.ListArray.from_arrays(
        pa.array(np.arange(3001, dtype=np.int32)), pa.array([f"l{w}" * 50 for w in which])
    )
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([texts[w] for w in which]), "labels": labels}), path)
    size = 1 << 16
    assert path.stat().st_size < size < sum(len(texts[w]) for w in which) // 100
    found = []
    told = []
    for task in pieces([str(path)], ReadOptions(piece_bytes=size, meta={"labels": "labels"})):
        batch, _ = task.run()
        found += batch["text"].to_pylist()
        assert sum(map(len, found[-len(batch) :])) <= size
        told += batch["labels"].to_pylist()
    assert found == [texts[w] for w in which]
    assert told == [[f"l{w}" * 50] for w in which]


def test_row_groups_of_documents_hold_few_bytes_and_are_the_same_however_they_come(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(documents, "BYTES_OF_GROUP", 20_000)
    rows = 300
    labels = [[f"label{i}x{j}" for j in range(i % 40)] for i in range(rows)]
    table = pa.table(
        {
            "id": [str(i) for i in range(rows)],
            "labels": pa.array(labels, pa.list_(pa.large_string())),
        }
    )
    files = []
    for i, step in enumerate((1, 7, rows)):
        writer = documents.DocumentsWriter(
            tmp_path / str(i), documents.schema_of({"labels": "list"}), 0
        )
        for at in range(0, rows, step):
            writer.add(table.slice(at, step))
        writer.close()
        files.append(writer.files[0])
    assert len({path.read_bytes() for path in files}) == 1
    found = pq.ParquetFile(files[0])
    assert found.num_row_groups > 3 and found.read()["labels"].to_pylist() == labels


def test_reading_documents_holds_a_row_group_however_many_documents_are_asked_for(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(documents, "BYTES_OF_GROUP", 1 << 18)
    writer = documents.DocumentsWriter(tmp_path, documents.schema_of({"labels": "list"}), 0)
    lists = pa.list_(pa.large_string())
    for d in range(120):
        labels = pa.array([[f"label{d}x{i}" for i in range(15_000)]], lists)
        writer.add(pa.table({"id": [str(d)], "labels": labels}))
    writer.close()
    before = pa.total_allocated_bytes()
    most = 0
    found = 0
    for _, batch in documents.read_documents(
        tmp_path, [store_file(tmp_path, writer.files[0].name)]
    ):
        most = max(most, pa.total_allocated_bytes() - before)
        found = found + len(batch)
    assert found == 120 and most < 40 << 18, most  # all of it: 140 times 2^18


def test_a_vocabulary_too_large_for_the_limit_is_refused_before_it_is_made(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 3:1 16777216:2\n")
    with pytest.raises(
        DoesNotFit, match=r"a\.svm: a vocabulary of 16,777,216 words takes about 2\.5 GB"
    ):
        list(pieces([str(path)], ReadOptions(room=Room(MemoryLimit(1 << 30), 700 << 20))))
    assert (
        sum(
            len(t.run()[0])
            for t in pieces([str(path)], ReadOptions(room=Room(MemoryLimit(4 << 30), 3 << 30)))
        )
        == 1
    )
