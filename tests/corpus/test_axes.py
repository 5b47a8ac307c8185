"""Axes: authors, labels and links as id columns of a store, through appends and removals."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topicstream
from tests.cgroup import memory_cgroup, run_in
from tests.ingest_tools import digest, words_of, write_jsonl
from topicstream.base.errors import DoesNotFit, StoreError
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.files.marker import list_paths
from topicstream.base.memory import MemoryLimit, Room
from topicstream.corpus import axis_build
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import PARTS
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus

META = {"authors": "authors", "labels": "labels", "links": "links"}
NAMES = ["Ann", "Bob", "Zoë", "李雷", "Ó Cadhain", "naïve", "x" * 300]


def docs(
    n: int, seed: int = 1, prefix: str = "d", targets: int | None = None
) -> list[dict[str, Any]]:
    """n documents with authors, labels and links to d0 .. d<targets - 1> (some of them not there,
    some repeated).
    """
    rng = random.Random(seed)
    return [
        {
            "id": f"{prefix}{i}",
            "text": " ".join(words_of(rng, rng.randint(0, 30))),
            "authors": rng.sample(NAMES, rng.randint(0, 3))
            + ([f"{prefix}-own {i}"] if i % 3 == 0 else []),
            "labels": "; ".join(rng.choices(["red", "green", " blue "], k=rng.randint(0, 3))),
            "links": [f"d{rng.randrange(targets or 2 * n)}" for _ in range(rng.randint(0, 4))]
            if n
            else [],
        }
        for i in range(n)
    ]


def ingest(
    tmp_path: Path, found: list[dict[str, Any]], name: str = "a.jsonl", **options: Any
) -> dict[str, Any]:
    options = {"meta": META, "min_df": 1, "stopwords": "none", "workers": 1} | options
    return topicstream.ingest(
        str(write_jsonl(tmp_path / name, found)), tmp_path / "c.zarr", **options
    )


def table(corpus: Corpus) -> list[dict[str, Any]]:
    """The documents' table, each with its number within its part, removed ones marked."""
    gone = set(corpus.removed()[:, 0].tolist())
    rows = []
    seen = {p: 0 for p in PARTS}
    for _, batch in read_documents(corpus.path, corpus.manifest.docs):
        for row in batch.to_pylist():
            rows.append(row | {"own": seen[row["part"]], "gone": len(rows) in gone})
            seen[row["part"]] += 1
    return rows


def names_by_document(corpus: Corpus, axis: str) -> dict[tuple[str, int], list[int]]:
    """(part, number) -> ids, by way of blocks of any cut."""
    out = {}
    for heldout, part in enumerate(PARTS):
        grid = corpus.grid(cells=97, docs=5, heldout=bool(heldout), axes=[axis, "words"])
        shape = grid.axes[axis]
        most_rows = most_entries = longest = 0
        for block in corpus.blocks(grid=grid, heldout=bool(heldout), axes=[axis]):
            ids, indptr, local = block.rows(axis)
            assert ids.dtype == np.int32 and indptr.dtype == np.int64 and local.dtype == np.int32
            assert len(indptr) == block.n_docs + 1 and (np.diff(ids) > 0).all()
            most_rows = max(most_rows, len(ids))
            most_entries = max(most_entries, len(local))
            for d in range(block.n_docs):
                own = local[indptr[d] : indptr[d + 1]]
                longest = max(longest, len(own))
                assert (np.diff(own) > 0).all()
                out[part, block.first_doc + d] = ids[own].tolist()
        assert (shape.rows, shape.entries, shape.longest) == (most_rows, most_entries, longest)
        assert max(1, grid.axes["words"].rows) == grid.max_words or not len(
            grid
        )  # 1 of documents without a word
    return out


def check(corpus: Corpus) -> None:
    """The axes hold what the documents' table says, document by document."""
    rows = table(corpus)
    for axis in ("authors", "labels"):
        names = corpus.axes[axis].names().to_pylist()
        assert len(set(names)) == len(names) == corpus.axes[axis].size
        found = names_by_document(corpus, axis)
        docs_with: dict[str, int] = defaultdict(int)
        for row in rows:
            wanted = set(row.get(axis) or []) if not row["gone"] else set()
            assert {names[i] for i in found[row["part"], row["own"]]} == wanted
            for name in wanted if row["part"] == "train" else ():
                docs_with[name] += 1
        assert [docs_with[n] for n in names] == corpus.axes[axis].docs().tolist()
        assert corpus.axes[axis].find(pa.array([*names[::-1], "nobody"])).tolist() == [
            *range(len(names) - 1, -1, -1),
            -1,
        ]
        assert corpus.axes[axis].names(1, 3).to_pylist() == names[1:3]
    check_links(corpus, rows)
    assert list(verify(corpus)) == []


def check_links(corpus: Corpus, rows: list[dict[str, Any]]) -> None:
    by_id = {r["id"]: r for r in rows if not r["gone"]}
    wanted: dict[tuple[str, int], set[int]] = {(r["part"], r["own"]): set() for r in rows}
    told = dict.fromkeys(("given", "repeats", "self", "dangling", "between_heldout"), 0)
    for r in by_id.values():
        targets = r.get("links") or []
        told["given"] += len(targets)
        told["repeats"] += len(targets) - len(set(targets))
        for target in set(targets):
            t = by_id.get(target)
            told["dangling"] += t is None
            told["self"] += t is r
            if t is None or t is r:
                continue
            told["between_heldout"] += r["part"] == t["part"] == "heldout"
            for a, b in ((r, t), (t, r)):
                if b["part"] == "train":
                    wanted[a["part"], a["own"]].add(b["own"])
    found = names_by_document(corpus, "links")
    assert found == {k: sorted(v) for k, v in wanted.items()}
    figures = corpus.axes["links"].figures
    assert {k: figures[k] for k in told} == told
    assert figures["training"] * 2 == sum(len(v) for (p, _), v in wanted.items() if p == "train")
    assert figures["heldout"] == sum(len(v) for (p, _), v in wanted.items() if p == "heldout")
    assert corpus.axes["links"].size == corpus.part().docs
    train = [r["id"] for r in rows if r["part"] == "train"]
    assert corpus.axes["links"].names().to_pylist() == train
    assert corpus.axes["links"].names(2, 5).to_pylist() == train[2:5]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(0, 60),
    st.sampled_from(["0", "30%"]),
    st.sampled_from([20, 4096]),
)
def test_axes_say_what_the_documents_say(tmp_path_factory, seed, n, heldout, rows):
    tmp = tmp_path_factory.mktemp("axes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("topicstream.corpus.axis_build.BATCH", 7)
        patch.setattr("topicstream.base.relations.ROWS", rows)
        found = [
            *docs(n, seed),
            {
                "id": "last",
                "text": "one word",
                "authors": ["Ann"],
                "labels": "red",
                "links": ["d0"],
            },
        ]
        ingest(tmp, found, heldout=heldout)
        check(Corpus.open(tmp / "c.zarr"))
        more = [
            *docs(max(n // 2, 1), seed + 1, "e", 2 * n + 5),
            *docs(3, seed + 2),
        ]  # three replace earlier ones
        ingest(tmp, more, "b.jsonl", append=True, grow_vocab=True, on_duplicate="replace")
        check(Corpus.open(tmp / "c.zarr"))


def test_an_append_that_was_killed_leaves_chunks_of_axes_that_stop_nothing(tmp_path):
    ingest(tmp_path, docs(40))
    left = tmp_path / "c.zarr" / "axes" / "authors-0002"
    shutil.copytree(tmp_path / "c.zarr" / "axes" / "authors", left)
    list_paths(*(p for p in left.rglob("*") if p.is_file()))
    ingest(tmp_path, docs(30, 2, "e"), "b.jsonl", append=True)
    appended = digest(tmp_path / "c.zarr")
    shutil.rmtree(tmp_path / "c.zarr")
    ingest(tmp_path, docs(40))
    ingest(tmp_path, docs(30, 2, "e"), "b.jsonl", append=True)
    assert digest(tmp_path / "c.zarr") == appended


def test_a_dangling_link_comes_alive_and_dies_again(tmp_path):
    def neighbours() -> dict[str, set[str]]:
        corpus = Corpus.open(tmp_path / "c.zarr")
        names = corpus.axes["links"].names().to_pylist()
        found = names_by_document(corpus, "links")
        return {
            names[d]: {names[i] for i in ids}
            for (p, d), ids in found.items()
            if p == "train" and ids
        }

    def doc(name: str, *links: str) -> dict[str, Any]:
        return {
            "id": name,
            "text": "some words here",
            "authors": [],
            "labels": [],
            "links": list(links),
        }

    summary = ingest(tmp_path, [doc("a", "c", "a", "c"), doc("b", "a")], heldout="0")
    assert summary["links"] == {
        "given": 4,
        "repeats": 1,
        "self": 1,
        "dangling": 1,
        "between_heldout": 0,
        "training": 1,
        "heldout": 0,
    }
    assert neighbours() == {"a": {"b"}, "b": {"a"}}
    reader = Corpus.open(tmp_path / "c.zarr")
    _ = reader.axes
    ingest(tmp_path, [doc("c")], "b.jsonl", append=True)
    assert neighbours() == {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}
    assert [len(ids) for ids in names_by_document(reader, "links").values()] == [1, 1], (
        "an open reader sees what it saw"
    )
    ingest(tmp_path, [doc("a", "b")], "c.jsonl", append=True, on_duplicate="replace")
    assert neighbours() == {"a": {"b"}, "b": {"a"}}


def test_training_sees_no_link_to_documents_held_out_or_removed(tmp_path):
    found = docs(200, 5, targets=200)
    ingest(tmp_path, found, heldout="40%")
    ingest(
        tmp_path,
        [d | {"links": []} for d in found[::7]],
        "b.jsonl",
        append=True,
        on_duplicate="replace",
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    rows = table(corpus)
    live = {r["own"]: r for r in rows if r["part"] == "train" and not r["gone"]}
    linked = {(p, i) for (p, _), ids in names_by_document(corpus, "links").items() for i in ids}
    assert linked and {i for _, i in linked} <= set(live)
    assert any(p == "heldout" for p, _ in linked), (
        "a held-out document knows its training neighbours"
    )
    check(corpus)


def test_ids_stay_when_names_are_added(tmp_path):
    ingest(tmp_path, docs(50, 1))
    before = Corpus.open(tmp_path / "c.zarr").axes["authors"].names().to_pylist()
    ingest(tmp_path, docs(50, 2, "e"), "b.jsonl", append=True)
    after = Corpus.open(tmp_path / "c.zarr").axes["authors"].names().to_pylist()
    assert after[: len(before)] == before and len(after) > len(before)


def test_columns_that_come_with_an_append(tmp_path):
    plain = [{"id": f"p{i}", "text": "some words here"} for i in range(9)]
    ingest(tmp_path, plain, meta={})
    assert list(Corpus.open(tmp_path / "c.zarr").axes) == ["words"]
    ingest(
        tmp_path,
        [*docs(20), *[{"id": "z", "text": "words", "links": ["p1"]}]],
        "b.jsonl",
        append=True,
    )
    check(Corpus.open(tmp_path / "c.zarr"))
    ingest(
        tmp_path,
        [{"id": f"q{i}", "text": "some words"} for i in range(9)],
        "c.jsonl",
        append=True,
        meta={},
    )
    check(Corpus.open(tmp_path / "c.zarr"))


def test_the_same_bytes_for_any_number_of_workers(tmp_path):
    digests = set()
    for workers in (1, 3):
        ingest(tmp_path, docs(300), workers=workers, piece_bytes=4096, force=True)
        digests.add(digest(tmp_path / "c.zarr"))
    assert len(digests) == 1


@pytest.mark.parametrize(
    "file",
    ["axes/authors.parquet", "axes/authors/train/ids/c/0/0", "axes/links/train/lengths/c/0/0"],
)
def test_damage_is_told(tmp_path, file):
    ingest(tmp_path, docs(30))
    path = tmp_path / "c.zarr" / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert any(file in problem for problem in verify(corpus))
    with pytest.raises(StoreError, match=r"checksum|decoded"):
        for axis in ("authors", "links"):
            corpus.axes[axis].names()
            names_by_document(corpus, axis)


def test_stock_zarr_reads_the_arrays(tmp_path):
    zarr = pytest.importorskip("zarr")
    ingest(tmp_path, docs(30))
    group = zarr.open_group(str(tmp_path / "c.zarr"), mode="r")
    corpus = Corpus.open(tmp_path / "c.zarr")
    lengths, ids = corpus.lists("authors", 0)
    assert group["axes/authors/train/lengths"][0, : len(lengths)].tolist() == lengths.tolist()
    assert group["axes/authors/train/ids"][0, : len(ids)].tolist() == ids.tolist()


def test_a_store_without_an_index_of_its_lists_is_refused_in_a_line(tmp_path):
    ingest(tmp_path, docs(12))
    manifest = tmp_path / "c.zarr" / "manifest.json"
    value = read_json(manifest)
    value["axes"].pop("labels")
    write_json(manifest, value)
    corpus = Corpus.open(tmp_path / "c.zarr")
    with pytest.raises(StoreError, match="its index of labels is not that of its documents"):
        _ = corpus.axes


def test_no_such_axis(tmp_path):
    ingest(tmp_path, docs(3), meta={})
    with pytest.raises(StoreError, match="no axis 'authors'"):
        _ = Corpus.open(tmp_path / "c.zarr").axes["authors"]


@pytest.mark.slow
def test_a_million_authors_keep_the_limit(tmp_path):
    """A fifth of a million documents, a million authors from a side file, in a cgroup of 512 MB
    (about a minute). The limit holds for kernels that are compiled, so the same work is done on a
    few documents first.
    """
    for n, name in ((50, "few"), (200_000, "many")):
        (tmp_path / name).mkdir()
        with (
            open(tmp_path / name / "a.jsonl", "w") as docs_,
            open(tmp_path / name / "authors.tsv", "w") as side,
        ):
            for i in range(n):
                docs_.write(f'{{"id":"d{i}","text":"word{i % 5000} other{i * 7 % 5000}"}}\n')
                side.write(
                    f"{i + 1}\t" + "\t".join(f"Author Number {5 * i + k}" for k in range(5)) + "\n"
                )
    work = (
        "import json, sys, topicstream; f = sys.argv[1];"
        "print(json.dumps(topicstream.ingest(f + '/a.jsonl', f + '/c.zarr', meta_files=f + "
        "'/authors.tsv:row,authors',"
        " key='row', mem_limit='512M', min_df=1)))"
    )
    subprocess.run(
        [sys.executable, "-c", work, str(tmp_path / "few")], check=True, capture_output=True
    )
    with memory_cgroup(512 << 20) as group:
        done = run_in(group, [sys.executable, "-c", work, str(tmp_path / "many")])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["axes"] == {"authors": 5 * n}
    corpus = Corpus.open(tmp_path / "many" / "c.zarr")
    assert int(corpus.axes["authors"].docs().sum()) == 5 * corpus.n_docs


def test_too_many_names_are_refused_with_the_limit_that_would_do(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "topicstream.ingestion.plan.IngestPlan.words", Room(MemoryLimit(512 << 20), 2000)
    )
    found = [{"id": str(i), "text": "word", "authors": [f"a{i}"]} for i in range(100)]
    with pytest.raises(
        DoesNotFit,
        match=r"a list of 100 authors takes about .* of --mem-limit 512 MB; \d+M would do",
    ):
        ingest(tmp_path, found)
    assert not (tmp_path / "c.zarr").exists()


def test_names_are_written_as_they_come(tmp_path, monkeypatch):
    """The names of an axis are never in memory together."""
    monkeypatch.setattr(axis_build, "ROWS_OF_NAMES", 1 << 10)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    held = []
    write = pq.ParquetWriter.write_table

    def measure(writer, some):
        held.append(pool.bytes_allocated() - before)
        write(writer, some)

    def names():
        for first in range(0, 20_000, 700):
            some = [f"a name of some length {n}" for n in range(first, min(20_000, first + 700))]
            yield pa.record_batch({"name": pa.array(some, pa.large_string())})

    monkeypatch.setattr(pq.ParquetWriter, "write_table", measure)
    counts = np.arange(40_000).reshape(2, 20_000)
    path = tmp_path / "names.parquet"
    axis_build._write_names(path, axis_build._attach_counts(names(), counts))
    assert len(held) == 20 and max(held) < 700_000  # all of them have 800,000 bytes
    table = pq.read_table(path)
    assert table["name"].to_pylist() == [f"a name of some length {n}" for n in range(20_000)]
    assert table["docs"].to_pylist() == [*range(20_000)]
    assert table["heldout"].to_pylist() == [*range(20_000, 40_000)]


def test_links_are_the_same_in_any_number_of_parts(tmp_path, monkeypatch):
    """Repeats are removed from some links at a time, as millions do not fit a hash table."""
    write_jsonl(tmp_path / "a.jsonl", docs(300, targets=80))
    digests = set()
    for at_once in (1 << 20, 50):
        monkeypatch.setattr(axis_build, "DISTINCT_AT_ONCE", at_once)
        out = tmp_path / f"{at_once}.zarr"
        summary = topicstream.ingest(
            tmp_path / "a.jsonl", out, meta=META, min_df=1, heldout="10%", progress=False
        )
        assert summary["links"]["repeats"] > 0
        digests.add(digest(out))
    assert len(digests) == 1
