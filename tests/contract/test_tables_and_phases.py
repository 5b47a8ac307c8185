"""What the core promises beyond words x topics: tables over other axes and with rules of their own,
ragged state, phases, and visits that run anywhere.
"""

from __future__ import annotations

import random
import signal
from itertools import pairwise

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests import few_quick
from tests.contract.small_engines import (
    Linked,
    Phased,
    StepsFirst,
    linked_twin,
    phased_twin,
)
from tests.ingest_tools import write_jsonl
from tests.planted import draw, store
from tests.plugin_package.topicstream_example.executor import Processes
from topicstream.base.errors import StoreError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.model.topic_model import TopicModel
from topicstream.training import setup
from topicstream.training.loop import Interrupted, train
from topicstream.training.state.checkpoint import list_checkpoints, read_checkpoint

TOPICS = 4
DOCS = 60
OURS = {"linked": Linked, "phased": Phased, "steps-first": StepsFirst}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(setup, "find", lambda name: OURS.get(name) or find(name))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A store with links, some of them dangling, some to documents set aside."""
    rng = random.Random(5)
    documents = [
        {
            "id": f"d{i}",
            "text": " ".join(f"word{rng.randrange(30)}x" for _ in range(rng.randint(0, 40))),
            "links": [f"d{rng.randrange(DOCS + 10)}" for _ in range(rng.randint(0, 4))],
        }
        for i in range(DOCS)
    ]
    folder = tmp_path_factory.mktemp("linked")
    given = {
        "meta": {"links": "links"},
        "min_df": 1,
        "stopwords": "none",
        "workers": 1,
        "heldout": 8,
    }
    topicstream.ingest(str(write_jsonl(folder / "in.jsonl", documents)), folder / "c.zarr", **given)
    return folder / "c.zarr"


def dense(path):
    found = Corpus.open(path)
    rows = found.part().blocks
    x = np.zeros((sum(b.docs for b in rows), found.n_words))
    neighbours = []
    for block in found.blocks(axes=["links"]):
        for d in range(block.n_docs):
            cells = slice(block.indptr[d], block.indptr[d + 1])
            x[block.first_doc + d, block.vocab[block.words[cells]]] = block.counts[cells]
        links = block.rows("links")
        neighbours += [links.ids[links.local[a:b]].tolist() for a, b in pairwise(links.indptr)]
    return x, neighbours


def run(path, folder, algo, **given):
    settings = {
        "topics": TOPICS,
        "passes": 3,
        "tol": 0.0,
        "block_cells": 60,
        "round_blocks": 3,
        "threads": 1,
        "seed": 1,
    }
    return train(path, folder, algo=algo, progress=Progress(-1), **{**settings, **given})


def table_of(folder, name, rows, columns, dtype=np.float32):
    """A dense table out of the last checkpoint."""
    raw = np.fromfile(list_checkpoints(folder / "checkpoints")[-1] / f"{name}.rows", dtype)
    return raw.reshape(rows, -1)[:, :columns]


@pytest.mark.quick("1-memory", "3-disk")
@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("threads", [1, 3])
def test_two_tables_with_two_rules_and_ragged_state(corpus, tmp_path, where, threads):
    run(corpus, tmp_path / "m", "linked", tables=where, threads=threads)
    x, neighbours = dense(corpus)
    assert sum(map(len, neighbours)) > 20
    phi, theta = linked_twin(x, neighbours, TOPICS, 3)
    np.testing.assert_array_equal(table_of(tmp_path / "m", "phi", x.shape[1], TOPICS), phi)
    np.testing.assert_array_equal(table_of(tmp_path / "m", "theta", len(x), TOPICS), theta)


def test_a_model_stores_named_tables(corpus, tmp_path):
    run(corpus, tmp_path / "m", "linked")
    x, neighbours = dense(corpus)
    theta = linked_twin(x, neighbours, TOPICS, 3)[1]
    model = TopicModel.open(tmp_path / "m")
    table = model.table("theta")
    assert (table.n_rows, table.columns, table.axis) == (len(x), TOPICS, "documents")
    np.testing.assert_array_equal(table.gather(np.arange(len(x))[::-1]), theta[::-1])
    np.testing.assert_allclose(table.totals, theta.sum(0))
    np.testing.assert_array_equal(model.table("last").gather(np.arange(1)), [[3.0]])
    with pytest.raises(StoreError, match="has no table of authors; it has last, theta"):
        model.table("authors")
    run(
        corpus, tmp_path / "m", "linked", passes=5
    )  # a save over an older one takes the other names and drops the old
    again = TopicModel.open(tmp_path / "m")
    np.testing.assert_array_equal(
        again.table("theta").gather(np.arange(len(x))), linked_twin(x, neighbours, TOPICS, 5)[1]
    )
    assert sorted(p.name for p in (tmp_path / "m").glob("table-*")) == [
        "table-last-2",
        "table-theta-2",
    ]
    chunk = next((tmp_path / "m" / "table-theta-2").glob("c/*/0"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")
    # an older handle is open, too: either may have met it
    with pytest.raises(StoreError, match=r"checksum; .* or open the model again"):
        again.table("theta").gather(np.arange(3))


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_phases_with_a_rewriting_end_and_steps(corpus, tmp_path, where):
    made = run(corpus, tmp_path / "m", "phased", passes=5, tables=where, threads=2)
    x, _ = dense(corpus)
    sums, phi = phased_twin(x, TOPICS)
    np.testing.assert_array_equal(table_of(tmp_path / "m", "sums", x.shape[1], 7), sums)
    np.testing.assert_array_equal(table_of(tmp_path / "m", "phi", x.shape[1], TOPICS), phi)
    assert table_of(tmp_path / "m", "steps", 3, 2, np.float64).tolist() == [[2.0, 2.0]] * 3
    assert made.last["phase"] == "spread" and made.last["running_perplexity"] is None
    assert made.last["objective"]["mean square"] > 0


@pytest.mark.parametrize("algo", ["linked", "phased"])
@pytest.mark.parametrize("stop", few_quick([1, 4, 9, 13], [1, 9]))
def test_a_stop_anywhere_ends_in_the_same_bits(algo, stop, corpus, tmp_path, monkeypatch):
    run(corpus, tmp_path / "whole", algo, passes=5)
    from topicstream.training import passes

    enter = passes.PassRunner._apply
    rounds = 0

    def stopping(self, *a):
        nonlocal rounds
        enter(self, *a)
        rounds += 1
        if rounds == stop:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(passes.PassRunner, "_apply", stopping)
    with pytest.raises(Interrupted):
        run(corpus, tmp_path / "cut", algo, passes=5, tables="disk")
    monkeypatch.setattr(passes.PassRunner, "_apply", enter)
    run(corpus, tmp_path / "cut", algo, passes=5)
    assert content_hash(tmp_path / "cut") == content_hash(tmp_path / "whole")


@pytest.mark.quick("1-phased", "3-steps-first")
@pytest.mark.parametrize("algo", ["phased", "steps-first"])
@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_a_run_resumed_behind_any_pass_has_the_state_and_the_bits(algo, first, corpus, tmp_path):
    run(corpus, tmp_path / "cut", algo, passes=first)
    run(corpus, tmp_path / "cut", algo, passes=5, threads=2, tables="disk")
    run(corpus, tmp_path / "whole", algo, passes=5)
    assert content_hash(tmp_path / "cut") == content_hash(tmp_path / "whole")


def test_steps_before_the_first_visit(corpus, tmp_path):
    run(corpus, tmp_path / "m", "steps-first", passes=5)
    x, _ = dense(corpus)
    np.testing.assert_array_equal(
        table_of(tmp_path / "m", "phi", x.shape[1], TOPICS), phased_twin(x, TOPICS)[1]
    )


def test_checkpoints_stand_between_phases(corpus, tmp_path):
    run(corpus, tmp_path / "steps", "phased", passes=1)
    state = read_checkpoint(list_checkpoints(tmp_path / "steps" / "checkpoints")[-1])
    assert (
        state.passes == 1 and state.arrays["param.ended"][0] == 1
    )  # the phase has ended before the checkpoint
    run(corpus, tmp_path / "steps", "phased", passes=5)
    run(corpus, tmp_path / "whole", "phased", passes=5)
    assert content_hash(tmp_path / "steps") == content_hash(tmp_path / "whole")


@pytest.mark.parametrize(
    "algo",
    few_quick(
        [
            "linked",
            "phased",
            "atbp",
            "sparse-bp",
            "gs",
            "sparselda",
            "stbp",
            "mvi",
            "ovb",
            "bp",
            "anchors",
            "fdm",
        ],
        ["linked", "phased", "sparse-bp"],
    ),
)
def test_visits_in_other_processes_give_the_same_bits(algo, corpus, tmp_path):
    if algo not in OURS:
        _, indptr, words, counts = draw(docs=120, words=60, topics=3, length=40, seed=3)
        corpus = store(tmp_path / "c.zarr", indptr, words, counts, 60)
    run(corpus, tmp_path / "here", algo, block_cells=600)
    run(corpus, tmp_path / "there", algo, block_cells=600, executor=Processes)
    assert content_hash(tmp_path / "there") == content_hash(tmp_path / "here")
