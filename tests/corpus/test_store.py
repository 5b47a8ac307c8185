"""The store's format: what is written is read back, cut into any blocks, by us and by stock zarr;
damage is named.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numcodecs.blosc
import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.small_store import commit, planted
from tests.small_store import store as small_store
from topicstream.base.errors import StoreError
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.files.ownership import claim
from topicstream.corpus import writer as writer_module
from topicstream.corpus.format import (
    CELLS,
    KINDS,
    chunk_path,
    metadata_problems,
    write_array_metadata,
)
from topicstream.corpus.reader import Corpus
from topicstream.corpus.writer import BlockWriter

WORDS = 300


def build(
    folder: Path,
    docs: list[dict[int, float]],
    weighted: bool = False,
    pool=None,
    n_words: int = WORDS,
) -> Corpus:
    """A store of training documents given as {word id: count}."""
    claim(folder, "corpus")
    writer = BlockWriter(folder, "train", 0, weighted, pool)
    indptr = np.concatenate(([0], np.cumsum([len(d) for d in docs]))).astype(np.int64)
    words = np.array([w for d in docs for w in sorted(d)], np.int32)
    counts = np.array([d[w] for d in docs for w in sorted(d)], np.float32 if weighted else np.int64)
    half = len(docs) // 2
    writer.add(indptr[: half + 1], words, counts)
    writer.add(indptr[half:], words, counts)
    writer.close()
    n_w = np.bincount(words, minlength=n_words)
    table = {
        "word": pa.array([f"w{i}" for i in range(n_words)], pa.large_string()),
        "count": n_w,
        "df": n_w,
    }
    return commit(
        folder,
        {"train": writer.entries},
        table,
        [str(d) for d in range(len(docs))],
        "x",
        weighted=weighted,
    )


def read_back(corpus: Corpus, **cut) -> list[dict[int, float]]:
    docs = []
    for block in corpus.blocks(grid=corpus.grid(**cut) if cut else None):
        assert block.first_doc == len(docs)
        assert (np.diff(block.vocab) > 0).all() and len(np.unique(block.words)) == len(block.vocab)
        assert block.tokens == block.counts.sum(dtype=np.float64)
        for d in range(block.n_docs):
            own = slice(block.indptr[d], block.indptr[d + 1])
            assert (np.diff(block.words[own]) > 0).all()
            docs.append(
                dict(zip(block.vocab[block.words[own]].tolist(), block.counts[own].tolist()))
            )
    return docs


documents_of_counts = st.lists(
    st.dictionaries(
        st.integers(0, WORDS - 1),
        st.one_of(st.integers(1, 9), st.integers(65_000, 2**31 - 1)),
        max_size=40,
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=20, deadline=None)
@given(docs=documents_of_counts, cells=st.integers(1, 200), rows=st.integers(1, 30))
def test_round_trip_in_any_cut(docs, cells, rows):
    with TemporaryDirectory() as folder:
        corpus = build(Path(folder) / "c.zarr", docs)
        assert read_back(corpus) == docs
        assert read_back(corpus, cells=cells, docs=rows) == docs
        assert (corpus.n_docs, corpus.n_cells, corpus.n_tokens) == (
            len(docs),
            sum(map(len, docs)),
            sum(sum(d.values()) for d in docs),
        )


@settings(max_examples=15, deadline=None)
@given(
    docs=st.lists(
        st.dictionaries(
            st.integers(0, WORDS - 1), st.floats(2.0**-20, 2.0**20, width=32), max_size=20
        ),
        min_size=1,
        max_size=20,
    )
)
@pytest.mark.product
def test_round_trip_of_weights(docs):
    with TemporaryDirectory() as folder:
        assert read_back(build(Path(folder) / "c.zarr", docs, weighted=True)) == docs


def test_blocks_are_the_same_with_a_pool_and_small_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "CELLS", 500)
    rng = np.random.default_rng(1)
    docs = [
        {int(w): 1 + int(w) % 3 for w in rng.choice(WORDS, rng.integers(0, 60), replace=False)}
        for _ in range(300)
    ]
    with ThreadPoolExecutor(3) as pool:
        corpora = [
            build(tmp_path / "serial.zarr", docs),
            build(tmp_path / "pool.zarr", docs, pool=pool),
        ]
    assert corpora[0].manifest == corpora[1].manifest and len(corpora[0].part().blocks) > 10


@pytest.mark.slow
def test_a_document_wider_than_a_row(tmp_path):
    wide = CELLS + 5000
    docs: list[dict[int, float]] = [
        {3: 1},
        {w: 1 for w in range(wide)},
        {},
        {0: 2, wide - 1: 70_000},
    ]
    corpus = build(tmp_path / "c.zarr", docs, n_words=wide)
    assert [b.rows for b in corpus.part().blocks] == [(0, 1), (1, 3), (3, 4)]
    assert read_back(corpus) == docs
    lengths = zarr.open_array(str(tmp_path / "c.zarr"), path="train/lengths", mode="r")
    assert lengths.shape[0] == 4 and int(np.asarray(lengths[1]).sum()) == wide


def test_shuffled_order_is_a_permutation_of_its_seed(tmp_path):
    docs: list[dict[int, float]] = [{d % WORDS: 1, (d + 7) % WORDS: 2} for d in range(200)]
    corpus = build(tmp_path / "c.zarr", docs)
    grid = corpus.grid(cells=40)
    one, two, other = (grid.order("shuffled", seed, 1) for seed in (1, 1, 2))
    assert sorted(one) == list(range(len(grid))) and (one == two).all() and (one != other).any()
    seen = [
        b.index for b in corpus.blocks("shuffled", grid=grid, seed=1, pass_number=1, prefetch=3)
    ]
    assert seen == one.tolist()


@pytest.mark.parametrize("cells", [60, 479, 1000, 2395])
def test_blocks_of_a_storage_block_are_few_and_of_one_size(tmp_path, cells):
    docs: list[dict[int, float]] = [
        {w: 1 for w in range(1 + d % 7)} for d in range(600)
    ]  # 2,395 cells, one storage block
    grid = build(tmp_path / "c.zarr", docs).grid(cells)
    assert len(grid) == -(-2395 // cells)
    assert grid.cells.max() <= cells + 3 and grid.cells.max() - grid.cells.min() <= 7


def test_nothing_is_read_that_the_manifest_does_not_vouch_for(tmp_path):
    corpus = build(tmp_path / "c.zarr", [{1: 2, 5: 1}, {2: 3}])
    chunk = tmp_path / "c.zarr" / "train" / "counts" / "c" / "0" / "0"
    good = chunk.read_bytes()
    for bad, said in (
        (good[:-3], "bytes long as written"),
        (good[:9] + b"\xff" + good[10:], "checksum"),
        (good + b"x", "bytes long as written"),
    ):
        chunk.write_bytes(bad)
        with pytest.raises(StoreError, match=rf"train/counts/c/0/0.*{said}"):
            list(corpus.blocks())
    chunk.unlink()
    with pytest.raises(StoreError, match="missing"):
        list(corpus.blocks())


def test_other_folders_and_versions_are_refused(tmp_path):
    with pytest.raises(StoreError, match="topics ingest"):
        Corpus.open(tmp_path)
    write_json(tmp_path / "manifest.json", {"kind": "model"})
    with pytest.raises(StoreError, match="not a corpus manifest"):
        Corpus.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"kind": "corpus", "schema": 99}')
    with pytest.raises(StoreError, match="schema 99"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize("weighted", [False, True])
def test_stock_zarr_sees_as_many_rows_as_there_are(tmp_path, weighted):
    claim(tmp_path, "corpus")
    for rows in (3, 5):
        write_array_metadata(tmp_path, {"train": rows, "heldout": 0}, weighted=weighted)
        group = zarr.open_group(str(tmp_path), mode="r")
        assert group["train/counts"].shape == (rows, CELLS) and group["heldout/lengths"].shape == (
            0,
            1 << 16,
        )
        assert group["train/counts"].dtype == (np.float32 if weighted else np.uint32)


def test_a_store_of_shuffled_bits_is_as_good(tmp_path, monkeypatch):
    """Chunks were shuffled by bits before they were by bytes; each chunk says which, and an append
    may mix them.
    """
    docs: list[dict[int, float]] = [{d % WORDS: 1, (d + 7) % WORDS: 2} for d in range(50)]
    new = build(tmp_path / "new.zarr", docs)
    monkeypatch.setattr(numcodecs.blosc, "SHUFFLE", numcodecs.blosc.BITSHUFFLE)
    old = build(tmp_path / "old.zarr", docs)
    assert (
        chunk_path(old.path, "train", "words", 0).read_bytes()
        != chunk_path(new.path, "train", "words", 0).read_bytes()
    )
    for part in ("train", "heldout"):
        for kind in KINDS:
            path = old.path / part / kind / "zarr.json"
            path.write_text(
                path.read_text().replace('"shuffle": "shuffle"', '"shuffle": "bitshuffle"')
            )
            assert "bitshuffle" in path.read_text()
    rows = {
        part: read_json(old.path / part / "words" / "zarr.json")["shape"][0]
        for part in ("train", "heldout")
    }
    assert not list(metadata_problems(old.path, False, rows))
    for a, b in zip(old.blocks(), new.blocks(), strict=True):
        assert (
            (a.words == b.words).all()
            and (a.counts == b.counts).all()
            and (a.indptr == b.indptr).all()
        )


def test_blocks_that_are_kept_keep_their_values(tmp_path):
    counts, _ = planted(3, 90, 40, 4)
    corpus = small_store(tmp_path / "c.zarr", counts, counts[:0], blocks=6)
    for prefetch in (0, 2):
        kept = list(corpus.blocks(grid=corpus.grid(cells=200), prefetch=prefetch))
        again = list(corpus.blocks(grid=corpus.grid(cells=200), prefetch=prefetch))
        dense = np.zeros_like(counts)
        for blocks in (kept, again):
            dense[:] = 0
            for block in blocks:
                for d in range(len(block.indptr) - 1):
                    cells = slice(block.indptr[d], block.indptr[d + 1])
                    dense[block.first_doc + d, block.vocab[block.words[cells]]] = block.counts[
                        cells
                    ]
            np.testing.assert_array_equal(dense, counts)
