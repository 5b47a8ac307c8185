"""sparse-bp: equal to dense belief propagation at L = K, exact exclusion of what was stored, active
topics.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.message_driver import Driver, dense_block, planted, shape_of
from tests.reference import bp as twin
from tests.reference.sparse_bp import sweep as plain_sweep
from topicstream.base.errors import UsageError
from topicstream.engines.base import Shape
from topicstream.engines.message import active_topics
from topicstream.engines.message import sparse_messages as kernels
from topicstream.engines.message.sparse_bp import SparseBeliefPropagation, SparseOptions
from topicstream.numeric.kernels.arrays import CellsByWord, RowEntries, sort_by_word
from topicstream.numeric.kernels.select import largest_numbers
from topicstream.training.setup import make_options

Engine = SparseBeliefPropagation


def engine_of(blocks, words, topics, **options):
    return Engine(
        shape_of(blocks, words, topics), Engine.Options(**{"alpha": 0.2, "beta": 0.05, **options})
    )


def stored(driver, b=0):
    """(words, documents, counts, shares [nnz, L]) of a block, in its word-major order."""
    block = driver.blocks[b]
    memory = driver.memory[b]
    width = driver.engine.width
    q = memory["messages"].reshape(-1, width).astype(np.float64) ** 2
    docs = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
    order = np.lexsort((docs, block.words))
    return block.words[order], docs[order], block.counts[order], q / q.sum(1, keepdims=True)


def table_of(driver):
    """The table that the stored messages add up to, float64[W, K]."""
    total = np.zeros_like(driver.phi)
    for b, block in enumerate(driver.blocks):
        words, docs, counts, mu = stored(driver, b)
        topics = driver.memory[b]["topics"].reshape(-1, driver.engine.width).astype(np.int64)[docs]
        for j in range(mu.shape[1]):
            np.add.at(total, (block.vocab[words], topics[:, j]), counts * mu[:, j])
    return total


def started(x, topics, seed=0, cuts=(), **options):
    edges = [0, *cuts, len(x)]
    blocks = [dense_block(x[a:b], i, a) for i, (a, b) in enumerate(itertools.pairwise(edges))]
    engine = engine_of(blocks, x.shape[1], topics, **options)
    seeds = np.random.default_rng(seed).dirichlet(np.ones(x.shape[1]), topics).T
    return Driver(engine, blocks).start(seeds)


def dense_messages(driver, x, topics):
    """The stored messages as [D, W, K]."""
    block = driver.blocks[0]
    words, docs, _, mu = stored(driver)
    active = driver.memory[0]["topics"].reshape(-1, driver.engine.width).astype(np.int64)[docs]
    out = np.zeros((*x.shape, driver.kp))
    for j in range(mu.shape[1]):
        out[docs, block.vocab[words], active[:, j]] += mu[:, j]
    assert np.all(out[:, :, topics:] == 0)
    return out[:, :, :topics]


@pytest.mark.parametrize("topics", [5, 16, 21])
def test_at_full_width_it_is_dense_belief_propagation_in_word_order(topics):
    rng = np.random.default_rng(4)
    x = rng.poisson(0.7, (12, 20))
    x[:, 3] += 1
    x[5] = 0
    driver = started(x, topics, sparsity=topics, message_bits="32", band=-1.0, step=1.0)
    mu = dense_messages(driver, x, topics)
    for _ in range(3):
        driver.sweep()
        mu = twin.asynchronous(x, mu, 0.2, 0.05, "cell", order="words", lam_by="pass")
    np.testing.assert_allclose(dense_messages(driver, x, topics), mu, atol=5e-6)
    np.testing.assert_allclose(driver.phi[:, :topics], twin.sums(x, mu)[1], atol=3e-5)


@pytest.mark.parametrize(("bits", "top"), [(8, 255), (16, 2047)])
def test_rounding_stays_within_the_error_bound(bits, top):
    x, _ = planted(200, 80, 6, 60, 7)
    exact, rounded = (
        started(x, 40, sparsity=32, message_bits=str(b)) for b in (32, bits)
    )  # the same first messages
    np.testing.assert_array_equal(exact.memory[0]["topics"], rounded.memory[0]["topics"])
    mu = stored(exact)[3]
    got = stored(rounded)[3]
    largest = mu.max(1, keepdims=True)
    step = np.sqrt(mu * largest) / top + 0.25 * largest / top**2  # half a step of q, squared
    slack = step.sum(1, keepdims=True)
    bound = (step + mu * slack) / (1 - slack) + 1e-6
    assert np.all(np.abs(got - mu) <= bound)
    assert 0 < np.abs(got - mu).max() < 2.0 / top


@pytest.mark.quick("16-16--1.0")
@pytest.mark.parametrize(("bits", "band"), [(8, 1.0), (8, -1.0), (16, -1.0)])
@pytest.mark.parametrize("sparsity", [16, 32])
def test_after_many_passes_the_table_is_still_the_sum_of_what_is_stored(bits, band, sparsity):
    x, _ = planted(120, 80, 6, 60, 7)
    x[0, 0] = 3000  # a heavy cell
    driver = started(
        x, 48, cuts=(50,), sparsity=sparsity, message_bits=str(bits), band=band, reopen=2
    )
    driver.sweep(60)
    np.testing.assert_allclose(driver.phi, table_of(driver), atol=3e-3)
    np.testing.assert_allclose(driver.phi.sum(1), x.sum(0), rtol=1e-5)
    assert driver.phi.min() > -1e-3
    for b, block in enumerate(driver.blocks):
        memory = driver.memory[b]
        (_, docs, counts, mu) = stored(driver, b)
        theta = np.zeros((block.n_docs, driver.engine.width))
        np.add.at(theta, docs, counts[:, None] * mu)
        np.testing.assert_allclose(memory["theta"].reshape(theta.shape), theta, atol=2e-3)


def test_active_topics_are_distinct_and_do_change():
    x, _ = planted(100, 80, 6, 60, 8)
    driver = started(x, 60, sparsity=16, reopen=1, gain=10.0)
    first = driver.memory[0]["topics"].copy()
    driver.sweep(6)
    for name in ("topics", "wanted"):
        assert all(len(set(row)) == 16 and max(row) < 60 for row in driver.memory[0][name].tolist())
    assert np.any(first != driver.memory[0]["topics"])


@pytest.mark.parametrize(("blocks", "cells"), [(2, 20_000), (40, 2_800_000)])
def test_every_document_looks_outside_once_in_so_many_passes(blocks, cells):
    """Of many blocks, all documents of a block at once."""
    engine = Engine(
        Shape(10 * blocks, 100, cells, float(cells), 20, False),
        Engine.Options(reopen=4, sparsity=16),
    )
    one = dense_block(np.ones((10, 3), np.int64))
    for i in range(blocks):
        looks = np.array(
            [engine._looks(replace(one, index=i, first_doc=10 * i), p) for p in range(1, 5)]
        )
        assert (looks.sum(0) == 1).all()
        assert (looks.all(1) == looks.any(1)).all() == (blocks == 40)


@pytest.mark.parametrize(
    ("docs", "cells", "layout"),
    [
        (200, 49_000, (65_536, 4)),  # one block
        (800, 70_000, (16_384, 1)),  # five rounds
        (3_000, 347_000, (16_384, 2)),
        (40_000, 347_000, (65_536, 4)),  # of short texts
        (20_000, 881_000, (73_416, 4)),
        (99_000, 9_000_000, (393_216, 4)),
    ],
)
def test_small_corpora_have_small_rounds(docs, cells, layout):
    chosen = Engine(Shape(docs, 5_000, cells, 1.3 * cells, 20), Engine.Options()).layout
    assert (chosen.block_cells, chosen.round_blocks) == layout


def test_with_reach_0_all_topics_bid():
    """As those within a ten-thousandth of the strongest, of a table whose entries do not differ
    that much.
    """
    x, _ = planted(60, 40, 4, 40, 8)
    found = []
    for reach in (0.0, 1e-4):
        driver = started(x, 60, sparsity=16, reopen=1, reach=reach, beta=0.3)
        driver.sweep(3)
        found.append(driver.memory[0]["wanted"].copy())
    np.testing.assert_array_equal(*found)


def test_a_document_of_one_cell_learns_nothing_from_itself():
    x = np.array([[4, 0], [0, 3]])
    driver = started(x, 16, sparsity=16, message_bits="32", band=-1.0, step=1.0)
    driver.sweep(1)
    _, _, _, mu = stored(driver)
    start = started(x, 16, sparsity=16, message_bits="32", band=-1.0)
    lam = start.phi.sum(0)[:16]
    for row, (w, d) in enumerate([(0, 0), (1, 1)]):
        own = x[d, w] * dense_messages(start, x, 16)[d, w]
        want = (
            0.2 * 0.05 / (lam - own + 2 * 0.05)
        )  # theta and phi are empty without the cell itself
        np.testing.assert_allclose(mu[row], want / want.sum(), rtol=2e-4)


def test_planted_topics_are_found_with_sixteen_of_forty():
    x, phi = planted(500, 160, 8, 60, 2)
    blocks = [dense_block(x[:250], 0, 0), dense_block(x[250:], 1, 250)]
    engine = engine_of(blocks, 160, 40, alpha=0.05, sparsity=16)
    seeds = (
        x[np.random.default_rng(1).choice(500, 40, replace=False)].T / 60
        + x.sum(0)[:, None] / x.sum()
    )
    driver = Driver(engine, blocks).start(seeds)
    first = driver.sweep()
    last = driver.sweep(30)
    found = driver.phi[:, :40] / np.linalg.norm(driver.phi[:, :40], axis=0)
    match = (phi / np.linalg.norm(phi, axis=1)[:, None]) @ found
    assert last < 0.9 * first and match.max(1).min() > 0.9


@pytest.mark.parametrize("rare", [0, 3, 99])
def test_sweep_equals_the_plain_python_of_it(rare):
    """The vector kernel against scalar NumPy, with documents whose topics changed, bids from
    outside and a heavy row.
    """
    rng = np.random.default_rng(11)
    docs = 9
    words = 13
    topics = 40
    width = 16
    x = rng.poisson(0.8, (docs, words)) + (rng.random((docs, words)) < 0.02) * 50
    block = dense_block(x)
    n = block.n_cells
    columns = 48
    cells = CellsByWord(
        np.zeros(block.n_words + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
    )
    sort_by_word(block.cells, cells)
    ptr, doc, counts = cells
    before = np.array([rng.choice(topics, width, replace=False) for _ in range(docs)]).astype(
        np.uint16
    )
    after = before.copy()
    after[2, 3] = next(k for k in range(topics) if k not in before[2])
    old = rng.integers(0, 256, (n, width)).astype(np.uint8)
    base = np.zeros((words, columns), np.float32)
    q = old.astype(np.float64) ** 2
    mu = q / q.sum(1, keepdims=True)
    for i in range(n):
        u = int(np.searchsorted(ptr, i, "right")) - 1
        np.add.at(base[block.vocab[u]], before[doc[i]].astype(int), counts[i] * mu[i])
    base[:, :topics] += rng.random((words, topics)) * 3
    base[4, :topics] += 9000
    theta = np.zeros((docs, width), np.float32)
    np.add.at(theta, doc, counts[:, None] * mu)
    theta[after != before] = 0
    lam = np.full(columns, np.inf)
    lam[:topics] = base.sum(0)[:topics] + 2.0
    chosen = np.where(np.arange(docs) % 2 == 0, np.arange(docs) // 2, -1).astype(np.int32)
    index = block.vocab.astype(np.int64)
    for band, step, first in (
        (-1.0, 1.0, False),
        (3.0, 1.0, False),
        (-1.0, 1.7, False),
        (-1.0, 1.7, True),
    ):
        args = ptr, doc, counts, base, index, after, after if first else before
        want = plain_sweep(
            *args, theta + 0.1, lam, old, 0.1, 0.01, 255.0, band, step, first, chosen, 0.2, topics
        )
        swept = theta + np.float32(0.1)
        new = np.zeros_like(old)
        scores = np.zeros((5, columns), np.float32)
        likely = np.zeros(n)
        op = np.zeros(block.n_words + 1, np.int64)
        ot = np.zeros(9999, np.uint16)
        ov = np.zeros(9999, np.float32)
        lengths = np.bincount(doc, counts, docs)
        mass = (lengths + 1.6).astype(np.float32)
        f = np.float32
        changed, lanes = np.nonzero(args[-1] != after)
        left = np.searchsorted(changed, np.arange(docs + 1))
        documents = kernels.Documents(
            after, args[-1], left, lanes.astype(np.uint16), swept, lam.astype(f)[after], mass
        )
        bids = kernels.Bids(chosen, scores, (1 / lam).astype(f), f(0.2))
        how = kernels.Step(f(0.1), f(0.01), f(255), f(band), f(step), first, rare)
        rows = kernels.PhiRows(base, index)
        messages = kernels.Messages(old, new, likely)
        kernels.sweep(cells, rows, documents, bids, how, messages, RowEntries(op, ot, ov))
        got = np.zeros((words, columns))
        for u in range(block.n_words):
            cut = slice(op[u], op[u + 1])
            assert len(set(ot[cut].tolist())) == len(ot[cut])
            np.add.at(got[index[u]], ot[cut].astype(int), ov[cut])
        assert (
            np.abs(new.astype(int) - want["new"]).max() <= 1
        )  # a rounding may fall on the other side
        np.testing.assert_allclose(got, want["delta"], atol=0.08)
        np.testing.assert_allclose(swept, want["theta"], atol=0.08)
        np.testing.assert_allclose(likely, want["s"] / (mass[doc] - counts), rtol=2e-3)
        if not first:
            np.testing.assert_allclose(scores, want["scores"], rtol=3e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_largest_is_a_stable_sort_with_ties(seed):
    rng = np.random.default_rng(seed)
    for n in (16, 17, 40, 300):
        values = rng.integers(0, 6, n).astype(np.float32)
        heap = np.empty(16, np.int32)
        largest_numbers(values, n, 16, heap)
        want = np.sort(np.argsort(-values, kind="stable")[:16])
        np.testing.assert_array_equal(heap, want)


def test_choose_exchanges_the_best_newcomer_for_the_weakest():
    topics = np.arange(16, dtype=np.uint16)[None].copy()
    theta = np.arange(1.0, 17.0, dtype=np.float32)[None].copy()
    theta[0, 7] = 0.0
    scores = np.zeros((1, 32), np.float32)
    scores[0, [20, 21, 3]] = 9.0, 30.0, 1000.0  # topic 3 is in already
    wanted = np.empty_like(topics)
    shared = np.zeros(1, np.int32)
    alpha = np.full((1, 30), 0.1, np.float32)
    rule = active_topics.BidRule(np.float32(0.2), np.float32(1.0))
    chosen = np.zeros(1, np.int32)
    active_topics.choose(scores, chosen, topics, theta, (alpha, shared), rule, 30, wanted)
    # 21 bids 3 and takes slot 7 (theta 0); 20 bids 0.9, which slot 0 (theta 1) withstands
    want = topics.copy()
    want[0, 7] = 21
    np.testing.assert_array_equal(wanted, want)


@pytest.mark.parametrize("gain", [0.5, 32.0])
def test_choose_equals_the_plain_python_of_it(gain):
    rng = np.random.default_rng(3)
    docs = 20
    k_all = 40
    width = 16
    topics = np.array([rng.choice(k_all, width, replace=False) for _ in range(docs)]).astype(
        np.uint16
    )
    theta = (rng.random((docs, width)) ** 4 * 20).astype(np.float32)
    chosen = np.where(np.arange(docs) % 3, np.cumsum(np.arange(docs) % 3 > 0) - 1, -1).astype(
        np.int32
    )
    scores = (rng.random((docs, 48)) * 8).astype(np.float32)
    alpha = rng.uniform(0.02, 0.1, k_all)
    want = topics.copy()
    for d in np.flatnonzero(chosen >= 0):
        bids = np.float32(gain) * alpha.astype(np.float32) * scores[chosen[d], :k_all]
        outside = sorted(set(range(k_all)) - set(topics[d].tolist()), key=lambda k: -bids[k])
        for k, j in zip(outside, np.argsort(theta[d], kind="stable"), strict=False):
            if bids[k] <= theta[d, j]:
                break
            want[d, j] = k
    got = np.empty_like(topics)
    shared = np.zeros(docs, np.int32)
    priors = (alpha.astype(np.float32)[None], shared)
    rule = active_topics.BidRule(np.float32(1.0), np.float32(gain))
    active_topics.choose(scores, chosen, topics, theta, priors, rule, k_all, got)
    np.testing.assert_array_equal(got, want)
    assert (got != topics).any()


def test_priors_are_learned_where_none_is_given():
    for given, learned in (
        ({}, True),
        ({"alpha": 0.1}, False),
        ({"beta": 0.1}, False),
        ({"learn_priors": False}, False),
        ({"alpha": 0.1, "learn_priors": True}, True),
    ):
        assert SparseOptions(**given).learn_priors is learned


def test_learned_priors_move_and_stay_in_reach():
    x, _ = planted(300, 120, 5, 60, 3)
    driver = started(x, 20, sparsity=16, learn_priors=True)
    driver.sweep(10)
    alpha = driver.params["alpha"]
    beta = driver.params["beta"][0]
    assert np.all((alpha >= 0.02) & (alpha <= 2.0)) and alpha.std() > 0
    assert 0.005 <= beta <= 0.5 and beta != 0.05


def test_unknown_options_are_refused():
    assert make_options(Engine, {"sparsity": 16}) == Engine.Options(sparsity=16)
    with pytest.raises(UsageError, match="scheduel"):
        make_options(Engine, {"scheduel": "async"})
