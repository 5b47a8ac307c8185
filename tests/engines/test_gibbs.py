"""GS and SparseLDA: the same conditional, exact counts, running sums, the joint distribution,
refusals.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tests import few_quick
from tests.gibbs_driver import draw, make, pack_rows, pack_tight, random_block, table_of, visit
from tests.reference.gibbs import buckets, conditional, joint_loglik, sweep
from tests.visits import out_for, pass_end
from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Rows, Shape, Visit, padded
from topicstream.engines.gibbs import buckets as kernels
from topicstream.engines.gibbs.gs import GibbsSampling
from topicstream.engines.gibbs.sparselda import SparseLDA
from topicstream.numeric.kernels.packed import READ_PAST, slack_starts, topic_bits
from topicstream.training.setup import make_options

BOTH = pytest.mark.parametrize("kind", [GibbsSampling, SparseLDA], ids=["gs", "sparselda"])


def state(seed: int, topics: int, docs: int = 12, words: int = 30, length: int = 40):
    block = random_block(seed, docs, words, length)
    z = np.random.default_rng(seed + 1).integers(0, topics, int(block.tokens)).astype(np.uint8)
    return block, z, table_of(block, z, topics)


@pytest.mark.quick("*-7", "*-200")
@pytest.mark.parametrize("topics", [1, 2, 7, 40, 200])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sparselda_draws_what_the_dense_twin_draws(topics, seed):
    block, z, n_wt = state(seed, topics)
    alpha = np.random.default_rng(seed).uniform(0.02, 0.6, topics)
    beta = 0.07
    engine = make(SparseLDA, block, topics, 30)
    params = {"alpha": alpha, "beta": np.array([beta])}
    for number in (1, 2):
        _, ptr, tight = pack_tight(n_wt)
        m = topic_bits(topics)
        entries = tight.astype(np.int64)
        lists = [[[e >> m, e & (1 << m) - 1] for e in entries[a:b]] for a, b in pairwise(ptr)]
        twin = sweep(
            block.indptr,
            block.words,
            block.counts,
            z,
            lists,
            30,
            alpha,
            beta,
            5,
            number,
            block.first_doc,
        )
        assert twin.nearest > 1e-12  # else the draw itself is a matter of rounding
        z, n_wt, out = visit(engine, block, z, n_wt, params, Key(5, number))
        np.testing.assert_array_equal(z, twin.z)
        np.testing.assert_array_equal(n_wt, table_of(block, z, topics))
        np.testing.assert_array_equal(out.stats["draws"], twin.draws)
        z = z.copy()


@pytest.mark.product
@BOTH
def test_one_token_is_drawn_from_the_conditional(kind):
    """Chi-square of the first token's topic over 1000 draws, from each of 6 fixed states."""
    draws = 1000
    statistic = 0.0
    freedom = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        topics = int(rng.integers(2, 12))
        block, z, n_wt = state(seed, topics, docs=3, words=12, length=15)
        alpha = rng.uniform(0.05, 1.0, topics)
        beta = float(rng.uniform(0.01, 0.5))
        first = int(z[0])
        word = int(block.words[0])
        in_doc = np.bincount(
            z[: int(block.counts[: block.indptr[1]].sum())], minlength=topics
        ).astype(float)
        row = n_wt[word].astype(float)
        n_t = n_wt.sum(0).astype(float)
        for counts in (in_doc, row, n_t):
            counts[first] -= 1
        p = conditional(in_doc, row, n_t, alpha, beta, 12)
        p /= p.sum()
        engine = make(kind, block, topics, 12)
        params = {"alpha": alpha, "beta": np.array([beta])}
        found = np.zeros(topics)
        rows = pack_rows(n_wt)
        for i in range(draws):
            found[
                draw(engine, block, z, rows, n_wt.sum(0), params, Key(seed, i)).state["z"][0]
            ] += 1
        statistic += float(((found - draws * p) ** 2 / (draws * p)).sum())
        freedom += topics - 1
    assert 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-4


@BOTH
def test_counts_are_conserved_exactly(kind):
    block, z, n_wt = state(3, 9, docs=40, words=50, length=80)
    engine = make(kind, block, 9, 50)
    params = engine.initial_params()
    for number in range(1, 6):
        z, new, out = visit(engine, block, z, n_wt, params, Key(0, number))
        np.testing.assert_array_equal(new, table_of(block, z, 9))
        np.testing.assert_array_equal(new.sum(1), n_wt.sum(1))
        assert out.stats["tokens"][0] == block.tokens
        n_wt = new
        z = z.copy()


def test_running_sums_equal_those_from_scratch():
    """s, r and q after the last of 20,000 tokens of one document, and the list of every word,
    against the counts.
    """
    rng = np.random.default_rng(0)
    words = 60
    topics = 30
    counts = rng.integers(100, 600, words).astype(np.int32)
    block = Block(
        0,
        0,
        np.array([0, words]),
        np.arange(words, dtype=np.int32),
        counts,
        np.arange(words, dtype=np.int32),
        float(counts.sum()),
    )
    z = rng.integers(0, topics, int(block.tokens)).astype(np.uint8)
    n_wt = table_of(block, z, topics)
    alpha = rng.uniform(0.05, 0.5, topics)
    beta = 0.03
    rows = pack_rows(n_wt)
    tokens = np.empty(words, np.int32)
    start = np.empty(words, np.int64)
    length = rows.length.copy()
    arena = np.zeros(
        slack_starts(block.words, counts, length, topics, tokens, start) + READ_PAST, np.uint32
    )
    rows.copy(0, words, start, arena)
    n_t = n_wt.sum(0).astype(float)
    real = np.empty((2, topics))
    whole = np.empty((3, topics), np.int64)
    found = np.zeros(12)
    stray = kernels.sweep_tokens(
        block.cells,
        z,
        kernels.WordRows(start, length, arena, rows.bits),
        kernels.Topics(n_t, real[0], real[1]),
        kernels.DocumentTopics(whole[0], whole[1], whole[2]),
        kernels.Priors(alpha[None], np.zeros(1, np.int32), beta, beta * words),
        kernels.Draws(0, 1, 0),
        kernels.Results(np.zeros(0), np.zeros(192), found),
    )
    assert stray == -1
    n_wt = table_of(block, z, topics)
    np.testing.assert_array_equal(n_t, n_wt.sum(0))
    for u in range(words):
        row = arena[start[u] : start[u] + length[u]].astype(np.int64)
        assert (np.diff(row >> rows.bits) <= 0).all()
        assert len(set(row & 31)) == len(row) == (n_wt[u] > 0).sum()
        np.testing.assert_array_equal(n_wt[u, row & 31], row >> rows.bits)
    s, r, q = buckets(n_wt.sum(0), n_wt[-1], n_t, alpha, beta, words)
    np.testing.assert_allclose(found[9:12], [s.sum(), r.sum(), q.sum()], rtol=1e-10)


def test_block_memory_of_another_table_is_noticed():
    block, z, n_wt = state(4, 6)
    engine = make(SparseLDA, block, 6, 30)
    other = np.zeros_like(n_wt)
    other[:, 0] = n_wt.sum(1)
    with pytest.raises(TopicsError, match="do not belong together"):
        visit(engine, block, z, other, engine.initial_params(), Key(0, 1))


@BOTH
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), topics=st.sampled_from([1, 3, 17, 33]), passes=st.integers(1, 3))
def test_any_corpus_keeps_its_counts(kind, seed, topics, passes):
    block, z, n_wt = state(seed, topics, docs=5, words=8, length=int(seed % 50) + 1)
    engine = make(kind, block, topics, 8, alpha=0.01 + (seed % 7) / 5, beta=0.001 + (seed % 3) / 4)
    for number in range(1, passes + 1):
        z, n_wt, _ = visit(engine, block, z, n_wt, engine.initial_params(), Key(seed, number))
        z = z.copy()
    np.testing.assert_array_equal(n_wt, table_of(block, z, topics))


@pytest.mark.product
@pytest.mark.parametrize("kind", few_quick([GibbsSampling, SparseLDA], [SparseLDA]))
def test_the_joint_distribution_is_kept(kind):
    """Geweke 2004: drawing (w, z) from the prior, and alternating a sweep of z with a draw of w
    given z, must give the same distribution. Compared: four functions of the counts, by z-scores
    with batch means.
    """
    docs = 4
    words = 4
    topics = 3
    length = 6
    n = 3000
    alpha = np.array([0.4, 0.8, 1.3])
    beta = 0.5
    rng = np.random.default_rng(11)

    def functions(w, z):
        n_td = np.zeros((docs, topics))
        n_wt = np.zeros((words, topics))
        np.add.at(n_td, (np.repeat(np.arange(docs), length), z), 1)
        np.add.at(n_wt, (w, z), 1)
        return [(n_td**2).sum(), (n_wt**2).sum(), (n_wt.sum(0) ** 2).sum(), n_td[:, 0].sum()]

    def draw_words(z):
        phi = rng.dirichlet(np.full(words, beta), topics)
        u = rng.random(len(z))
        return np.minimum((u[:, None] > np.cumsum(phi, 1)[z]).sum(1), words - 1)

    def draw_words_given(w, z):
        """w | z and phi, phi | w and z: one Gibbs step over phi and w."""
        n_wt = np.zeros((words, topics))
        np.add.at(n_wt, (w, z), 1)
        phi = np.stack([rng.dirichlet(beta + n_wt[:, t]) for t in range(topics)])
        u = rng.random(len(z))
        return np.minimum((u[:, None] > np.cumsum(phi, 1)[z]).sum(1), words - 1)

    def draw_topics():
        theta = rng.dirichlet(alpha, docs).repeat(length, 0)
        return np.minimum((rng.random((docs * length, 1)) > np.cumsum(theta, 1)).sum(1), topics - 1)

    forward = []
    for _ in range(n):
        z = draw_topics()
        forward.append(functions(draw_words(z), z))
    z = draw_topics()
    w = draw_words(z)
    chain = []
    engine = None
    for i in range(n):
        order = np.lexsort((w, np.repeat(np.arange(docs), length)))
        w = w[order]
        z = z[order].astype(np.uint8)
        cells, counts = np.unique(
            np.repeat(np.arange(docs), length) * words + w, return_counts=True
        )
        indptr = np.concatenate(
            ([0], np.cumsum(np.bincount(cells // words, minlength=docs)))
        ).astype(np.int64)
        block = Block(
            0,
            0,
            indptr,
            (cells % words).astype(np.int32),
            counts.astype(np.int32),
            np.arange(words, dtype=np.int32),
            float(len(w)),
        )
        engine = engine or make(kind, block, topics, words)
        z = visit(
            engine,
            block,
            z,
            table_of(block, z, topics),
            {"alpha": alpha, "beta": np.array([beta])},
            Key(1, i),
        )[0]
        z = z.astype(np.int64)
        w = draw_words_given(w, z)
        chain.append(functions(w, z))
    a = np.array(forward)
    b = np.array(chain)
    batches = b.reshape(60, -1, b.shape[1]).mean(1)
    error = np.sqrt(a.var(0) / n + batches.var(0, ddof=1) / 60)
    scores = (a.mean(0) - b.mean(0)) / error
    assert np.abs(scores).max() < 4.0, scores


@BOTH
def test_statistics_are_what_they_say(kind):
    block, z, n_wt = state(8, 6)
    engine = make(kind, block, 6, 30, alpha=0.3, beta=0.05)
    params = engine.initial_params()
    z, n_wt, out = visit(engine, block, z, n_wt, params, Key(2, 1))
    lengths = [int(block.counts[a:b].sum()) for a, b in zip(block.indptr, block.indptr[1:])]
    z_docs = np.split(z.astype(np.int64), np.cumsum(lengths)[:-1])
    values, times = np.unique(n_wt[n_wt > 0], return_counts=True)
    totals = np.zeros(padded(6))
    totals[:6] = n_wt.sum(0)
    found = dict(out.stats) | {"phi.counts": values.astype(float), "phi.times": times.astype(float)}
    found["phi.bytes"] = np.array([640.0])
    told = engine.end_pass(pass_end(params, found, {"phi": totals}))
    assert told["joint_loglik"] == pytest.approx(
        joint_loglik(z_docs, n_wt, params["alpha"], 0.05), rel=1e-12
    )
    assert told["topics_per_word"] == pytest.approx((n_wt > 0).sum() / 30)
    assert told["topics_per_document"] == pytest.approx(
        np.mean([len(set(d)) for d in z_docs if len(d)])
    )
    if kind is SparseLDA:
        assert told["draws_s"] + told["draws_r"] + told["draws_q"] == pytest.approx(1)
    with pytest.raises(TopicsError, match="tokens were drawn"):
        engine.end_pass(pass_end(params, found | {"tokens": found["tokens"] - 1}, {"phi": totals}))


@BOTH
def test_starts_give_every_token_a_topic_and_count_it(kind):
    block = random_block(5, 30, 40, 50)
    engine = make(kind, block, 5, 40)

    def begin(rows, totals):
        out = out_for(engine, block, {})
        out.state["z"][:] = 255
        engine.start(Visit(block, rows, totals, {}, engine.initial_params(), Key(3, 0)), out)
        delta = out.delta["phi"]
        n_wt = np.zeros((40, 5), np.int64)
        np.add.at(n_wt, (np.repeat(np.arange(40), np.diff(delta.ptr)), delta.topic), delta.value)
        np.testing.assert_array_equal(n_wt, table_of(block, out.state["z"], 5))
        return out.state["z"], n_wt

    z, _ = begin({}, {})
    assert np.bincount(z, minlength=5).min() > block.tokens / 5 * 0.7
    seeds = np.full((40, padded(5)), 1e-3, np.float32)
    owner = np.arange(40) % 5
    seeds[np.arange(40), owner] = 1.0
    base = {"phi": Rows(seeds, np.arange(40, dtype=np.int64))}
    _, n_wt = begin(base, {"phi": seeds.sum(0, dtype=np.float64)})
    assert n_wt[np.arange(40), owner].sum() > 0.9 * block.tokens


@BOTH
def test_refusals_say_what_to_do(kind):
    options = kind.Options()
    with pytest.raises(
        InputError, match=r"real-valued cells; train it with a message-passing engine"
    ):
        kind(Shape(10, 10, 50, 70.5, 3, weighted=True), options)
    for name in ("alpha", "beta"):
        with pytest.raises(UsageError, match=f"{name} must be above 0"):
            make_options(kind, {name: 0.0})


def test_memory_takes_the_smallest_integer():
    shapes = [(200, "uint8"), (256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "uint32")]
    for topics, dtype in shapes:
        engine = SparseLDA(Shape(10, 10, 50, 70, topics), SparseLDA.Options())
        assert engine.state["z"].dtype == dtype


def test_counts_that_do_not_fit_32_bits_are_drawn_from_wider_entries():
    block, z, n_wt = state(6, 7)
    n_wt = n_wt.copy()
    n_wt[0, 3] += 1 << 30  # 3 bits of topic leave 29 of count
    engine = make(SparseLDA, block, 7, 30)
    out = draw(
        engine,
        block,
        z,
        pack_rows(n_wt, np.uint64),
        n_wt.sum(0),
        engine.initial_params(),
        Key(0, 1),
    )
    delta = out.delta["phi"]
    moved = table_of(block, out.state["z"], 7) - table_of(block, z, 7)
    changed = np.zeros_like(moved)
    np.add.at(
        changed, (np.repeat(np.arange(block.n_words), np.diff(delta.ptr)), delta.topic), delta.value
    )
    np.testing.assert_array_equal(changed, moved)


def test_samples_and_priors_come_when_asked():
    block, z, n_wt = state(9, 6)
    engine = make(
        SparseLDA,
        block,
        6,
        30,
        samples=3,
        burn_in=20,
        sample_every=10,
        learn_after=2,
        learn_every=2,
    )
    assert list(engine.tables["phi"].samples) == [20, 30, 40]
    default = make(SparseLDA, block, 6, 30).tables["phi"]
    assert list(default.samples) == [-100, -75, -50, -25, 0]
    assert not make(SparseLDA, block, 6, 30, samples=0).tables["phi"].samples
    params = engine.initial_params()
    learned = []
    for number in range(1, 7):
        z, n_wt, out = visit(engine, block, z, n_wt, params, Key(0, number))
        z = z.copy()
        values, times = np.unique(n_wt[n_wt > 0], return_counts=True)
        totals = np.zeros(padded(6))
        before = params["alpha"].copy()
        totals[:6] = n_wt.sum(0)
        found = dict(out.stats) | {
            "phi.counts": values.astype(float),
            "phi.times": times.astype(float),
        }
        engine.end_pass(pass_end(params, found | {"phi.bytes": np.array([1.0])}, {"phi": totals}))
        learned.append(bool((params["alpha"] != before).any()))
        assert (params["alpha"] >= 1e-5).all() and params["beta"][0] >= 1e-5
    assert learned == [False, False, False, True, False, True]
