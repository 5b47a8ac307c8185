"""The invariant of mass: honest corpora pass, lost mass does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests import few_quick
from tests.planted import store
from topicstream.base.errors import TopicsError
from topicstream.base.progress import Shown as Progress
from topicstream.engines import find
from topicstream.engines.base import Shape, TableSpec
from topicstream.numeric.tables.dense import DenseTable
from topicstream.training.course import check_pass
from topicstream.training.loop import train
from topicstream.training.setup import make_options

WORDS = 50_000
TOPICS = 10


def serial(work, n):
    for i in range(n):
        work(i)


def engine(tokens):
    kind = find("atbp")
    return kind(Shape(100, WORDS, WORDS, tokens, TOPICS), make_options(kind, {}))


def equal_rows(n_w):
    """A table in which every word has the same share of each topic: all entries round the
    same way.
    """
    table = DenseTable(TableSpec(mass="row"), WORDS, TOPICS, n_w, None, serial)
    share = np.random.default_rng(1).dirichlet(np.ones(TOPICS))
    table.fill(lambda a, b: np.pad(n_w[a:b, None] * share, ((0, 0), (0, table.width - TOPICS))))
    return table


@pytest.mark.parametrize("count", [1.0, 3.0, 7.0])
def test_equal_counts_that_all_round_one_way_pass(count):
    n_w = np.full(WORDS, count)
    table = equal_rows(n_w)
    worst = table.finish_pass()
    off = abs(table.totals.sum() / n_w.sum() - 1)
    assert off < 2.0**-24
    check_pass(engine(n_w.sum()), {"phi": table.totals}, {"phi": worst}, 1, n_w.sum())


def test_mass_that_is_lost_does_not_pass():
    n_w = np.full(WORDS, 3.0)
    table = equal_rows(n_w)
    worst = table.finish_pass()
    for lost in (1e-7, 1e-3):
        with pytest.raises(TopicsError, match="sums to the tokens only within"):
            check_pass(
                engine(n_w.sum()), {"phi": table.totals * (1 - lost)}, {"phi": worst}, 1, n_w.sum()
            )


@pytest.mark.quick("sparse-bp")
@pytest.mark.parametrize("algo", ["sparse-bp", "atbp"])
def test_hashed_ids_train(algo, tmp_path):
    """Words drawn from a huge space: nearly all stand once or twice."""
    rng = np.random.default_rng(0)
    docs = [np.unique(rng.integers(0, 1 << 17, 180)) for _ in range(1000)]
    used = np.unique(np.concatenate(docs))
    words = [np.searchsorted(used, d).astype(np.int32) for d in docs]
    indptr = np.concatenate(([0], np.cumsum([len(d) for d in docs])))
    cells = np.concatenate(words)
    corpus = store(tmp_path / "c.zarr", indptr, cells, np.ones(len(cells), np.int32), len(used))
    made = train(
        corpus, tmp_path / "m", algo=algo, topics=10, passes=2, tol=0.0, progress=Progress(-1)
    )
    assert made.passes == 2


@pytest.mark.parametrize("algo", few_quick(["sparse-bp", "bp", "mvi", "cvb0"], ["sparse-bp"]))
@pytest.mark.parametrize("topics", few_quick([3, 50], [50]))
def test_equal_documents_whose_sums_all_round_one_way_train(algo, topics, tmp_path):
    """40,000 documents of the same four words, 40 times each: machine-made lines, heartbeats,
    templates.
    """
    n = 40_000
    indptr = np.arange(0, 4 * n + 1, 4)
    cells = np.tile(np.arange(4, dtype=np.int32), n)
    corpus = store(tmp_path / "c.zarr", indptr, cells, np.full(4 * n, 40, np.int32), 4)
    made = train(
        corpus, tmp_path / "m", algo=algo, topics=topics, passes=2, tol=0.0, progress=Progress(-1)
    )
    assert made.passes == 2


@pytest.mark.parametrize(("alpha", "beta"), [(0.01, 1e6), (1e-8, 1e3), (1e6, 1e6)])
@pytest.mark.parametrize(
    "algo",
    few_quick(["sparse-bp", "atbp", "bp", "sibp", "cvb0", "mvi"], ["sparse-bp", "bp", "mvi"]),
)
@pytest.mark.quick("sparse-bp-*", "bp-1e-08*")
def test_extreme_priors_lose_no_mass(algo, alpha, beta, tmp_path):
    """Words that stand once or twice, beside pseudo-counts of which a float32 step is as large as
    they are.
    """
    rng = np.random.default_rng(0)
    docs = [np.unique(rng.integers(0, 3000, 60)).astype(np.int32) for _ in range(150)]
    indptr = np.cumsum([0] + [len(d) for d in docs])
    cells = np.concatenate(docs)
    corpus = store(tmp_path / "c.zarr", indptr, cells, np.ones(len(cells), np.int32), 3000)
    options = {"alpha": alpha, "beta": beta}
    made = train(
        corpus,
        tmp_path / "m",
        algo=algo,
        topics=20,
        passes=3,
        tol=0.0,
        options=options,
        progress=Progress(-1),
    )
    assert made.passes == 3


def test_a_row_that_is_off_by_more_than_rounding_does_not_pass():
    n_w = np.full(WORDS, 3.0)
    table = equal_rows(n_w)
    table.finish_pass()
    kind = engine(n_w.sum())
    totals = {"phi": table.totals}
    for additions in (0, 40_000):
        allowed = 1e-5 + additions * 2.0**-24
        check_pass(
            kind, totals, {"phi": np.array([0.99 * allowed, 0.0, 0.0])}, 1, n_w.sum(), additions
        )
        for worst in ([1.01 * allowed, 0.0, 0.0], [0.0, -1.01 * allowed, 0.0]):
            with pytest.raises(TopicsError, match="does not conserve"):
                check_pass(kind, totals, {"phi": np.array(worst)}, 1, n_w.sum(), additions)
