"""aTBP and sTBP: against the paper's figures cell by cell, at the size where float32 stops
counting, priors, starts.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests import few_quick
from tests.reference import tbp
from tests.visits import out_for, pass_end, unwritten
from topicstream.corpus.block import Block
from topicstream.engines import find
from topicstream.engines.base import Key, Rows, Rule, Shape, Visit, padded


def make_block(docs=40, words=60, seed=0, dtype=np.int32, first_doc=0):
    """A made block with an empty document, a document of one cell and a word seen once."""
    rng = np.random.default_rng(seed)
    indptr = [0]
    ids = []
    counts = []
    weights = 1 / (1 + np.arange(words - 1))
    for d in range(docs):
        n = 0 if d == 3 else 1 if d == 5 else int(rng.integers(2, 25))
        ids.append(np.sort(rng.choice(words - 1, n, replace=False, p=weights / weights.sum())))
        counts.append(rng.integers(1, 6, n))
        indptr.append(indptr[-1] + n)
    w = np.concatenate(ids)
    x = np.concatenate(counts).astype(dtype)
    w[indptr[9] - 1] = words - 1  # the last cell of document 8: the only place of the last word
    present, local = np.unique(w, return_inverse=True)
    return Block(
        0,
        first_doc,
        np.array(indptr),
        local.astype(np.int32),
        x,
        (present * 3).astype(np.int32),
        float(x.sum()),
    )


def make_engine(name, block, topics, **options):
    kind = find(name)
    shape = Shape(block.n_docs, block.n_words, block.n_cells, block.tokens, topics)
    return kind(shape, kind.Options(**options))


def buffers(engine, block):
    out = out_for(engine, block, unwritten(block, padded(engine.shape.topics)))
    for array in out.state.values():
        array[:] = np.nan
    return out


def wide(a):
    out = np.zeros((len(a), padded(a.shape[1])), np.float32)
    out[:, : a.shape[1]] = a
    return out


def random_state(block, topics, seed=1):
    """A consistent phi, theta (rows sum to n_w, n_d) of soft random messages."""
    rng = np.random.default_rng(seed)
    messages = rng.dirichlet(np.full(topics, 0.3), block.n_cells) * block.counts[:, None]
    phi = np.zeros((block.n_words, topics))
    theta = np.zeros((block.n_docs, topics))
    np.add.at(phi, block.words, messages)
    np.add.at(theta, np.repeat(np.arange(block.n_docs), np.diff(block.indptr)), messages)
    return phi, theta


def visit(engine, block, phi, theta, seed=0):
    out = buffers(engine, block)
    table = np.full(
        (3 * len(phi) + 1, padded(phi.shape[1])), np.nan, np.float32
    )  # rows lie apart, as in a big table
    index = np.arange(len(phi)) * 3 + 1
    table[index] = wide(phi)
    memory = {"theta": wide(theta)} if engine.state else {}
    rows = {"phi": Rows(table, index)}
    totals = {"phi": np.append(phi.sum(0), np.zeros(padded(phi.shape[1]) - phi.shape[1]))}
    engine.process(Visit(block, rows, totals, memory, engine.initial_params(), Key(seed, 1)), out)
    return out


@pytest.mark.parametrize("topics", [1, 5, 16, 37])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_atbp_visits_a_block_as_figure_3_does(topics, dtype):
    block = make_block(dtype=dtype)
    engine = make_engine("atbp", block, topics, alpha=0.3, beta=0.05)
    phi, theta = random_state(block, topics)
    out = visit(engine, block, phi, theta)
    phi2 = phi.copy()
    theta2 = theta.copy()
    lam2 = phi.sum(0)
    alpha = np.full(topics, 0.3)
    loglik = tbp.atbp_pass(
        block.indptr, block.words, block.counts.astype(float), phi2, theta2, lam2, alpha, 0.05
    )
    np.testing.assert_allclose(
        out.delta["phi"][:, :topics], phi2 - phi, atol=3e-5 * block.counts.max()
    )
    np.testing.assert_allclose(
        out.state["theta"][:, :topics], theta2, atol=3e-5 * block.counts.max()
    )
    assert out.stats["loglik"][0] == pytest.approx(loglik, rel=1e-5)
    assert out.stats["tokens"][0] == block.tokens
    assert not out.delta["phi"][:, topics:].any() and not out.state["theta"][:, topics:].any()


@pytest.mark.parametrize("topics", [1, 5, 16, 37])
def test_stbp_visits_a_block_as_figure_2_does(topics):
    block = make_block()
    engine = make_engine("stbp", block, topics, alpha=0.3, beta=0.05)
    phi, theta = random_state(block, topics)
    out = visit(engine, block, phi, theta)
    want_phi, want_theta, loglik = tbp.stbp_pass(
        block.indptr,
        block.words,
        block.counts.astype(float),
        phi,
        theta,
        np.full(topics, 0.3),
        0.05,
    )
    assert engine.tables["phi"].rule is Rule.REPLACE
    np.testing.assert_allclose(out.delta["phi"][:, :topics], want_phi, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out.state["theta"][:, :topics], want_theta, rtol=1e-5, atol=1e-5)
    assert out.stats["loglik"][0] == pytest.approx(loglik, rel=1e-6)
    assert not out.delta["phi"][:, topics:].any()


def test_stbp_without_priors_is_nmf_by_divergence():
    """Lee & Seung's multiplicative updates of X ~ T P, both factors from the old ones, divergence
    falling.
    """
    block = make_block()
    topics = 6
    engine = make_engine("stbp", block, topics, alpha=1e-9, beta=1e-9)
    phi, theta = random_state(block, topics)
    x = np.zeros((block.n_docs, block.n_words))
    x[np.repeat(np.arange(block.n_docs), np.diff(block.indptr)), block.words] = block.counts
    there = x > 0
    divergences = []
    for _ in range(5):
        out = visit(engine, block, phi, theta)
        p = (phi / phi.sum(0)).T
        ratio = np.divide(x, theta @ p, out=np.zeros_like(x), where=there)
        divergences.append(
            -(x[there] * np.log((theta @ p)[there])).sum()
        )  # sums of X and T P are the same
        new_theta = theta * (ratio @ p.T)
        new_p = p * (theta.T @ ratio)
        np.testing.assert_allclose(out.state["theta"][:, :topics], new_theta, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(out.delta["phi"][:, :topics], new_p.T, rtol=1e-4, atol=1e-5)
        phi = new_p.T
        theta = new_theta
    assert (np.diff(divergences) < 0).all()


@pytest.mark.parametrize("name", ["atbp", "stbp"])
def test_folded_theta_is_the_twins_fold_in(name):
    block = make_block()
    topics = 7
    phi, theta = random_state(block, topics)
    engine = make_engine(
        name, block, topics, alpha=0.3, beta=0.05, theta="fold-in", fold_sweeps=6, fold_tol=0.02
    )
    assert engine.state == {}
    folded = np.zeros_like(theta)
    for d in range(block.n_docs):
        cells = slice(block.indptr[d], block.indptr[d + 1])
        x = block.counts[cells].astype(float)
        folded[d] = tbp.fold_in(block.words[cells], x, phi, 0.3, 0.05, 6, 0.02)
    out = visit(engine, block, phi, theta)
    kept = make_engine(name, block, topics, alpha=0.3, beta=0.05)
    want = visit(kept, block, phi, folded)
    np.testing.assert_allclose(out.delta["phi"], want.delta["phi"], atol=1e-4)
    assert out.stats["loglik"][0] == pytest.approx(want.stats["loglik"][0], rel=1e-5)


@pytest.mark.parametrize("name", ["atbp", "stbp"])
def test_start_gives_every_token_to_topics(name):
    block = make_block(first_doc=1000)
    topics = 7
    engine = make_engine(name, block, topics)
    out = buffers(engine, block)
    engine.start(Visit(block, {}, {}, {}, engine.initial_params(), Key(5, 0)), out)
    delta = out.delta["phi"]
    theta = out.state["theta"]
    np.testing.assert_array_equal(delta.sum(1), np.bincount(block.words, block.counts))
    assert (delta[:, :topics] % 1 == 0).all() and (delta.sum(0) > 0)[:topics].all()
    # a document's draws hang on its number alone: the second half as a block of its own draws the
    # same
    half = block.n_docs // 2
    cut = block.indptr[half]
    rest = Block(
        1,
        1000 + half,
        block.indptr[half:] - cut,
        block.words[cut:],
        block.counts[cut:],
        block.vocab,
        0.0,
    )
    again = buffers(engine, rest)
    engine.start(Visit(rest, {}, {}, {}, engine.initial_params(), Key(5, 0)), again)
    np.testing.assert_array_equal(again.state["theta"], theta[half:])
    # with seeds: soft shares of the same mass, the words of a topic's own seed lean to it
    seeds = np.full((block.n_words, topics), 1.0)
    seeds[:10, 2] += 50
    totals = {"phi": np.append(seeds.sum(0), np.zeros(padded(topics) - topics))}
    rows = {"phi": Rows(wide(seeds), np.arange(block.n_words))}
    out = buffers(engine, block)
    engine.start(Visit(block, rows, totals, {}, engine.initial_params(), Key(5, 0)), out)
    np.testing.assert_allclose(
        out.delta["phi"].sum(1), np.bincount(block.words, block.counts), rtol=1e-5
    )
    np.testing.assert_allclose(
        out.state["theta"].sum(1),
        np.add.reduceat(np.append(block.counts, 0), block.indptr[:-1])
        * (np.diff(block.indptr) > 0),
        rtol=1e-5,
    )
    assert (out.delta["phi"][:10].argmax(1) == 2).all()


@pytest.mark.parametrize(
    ("n_w", "topics"), few_quick([(5e6, 10), (5e7, 10), (5e6, 37), (5e7, 37)], [])
)
def test_rows_keep_their_mass_at_the_size_of_pubmed(n_w, topics):
    """480 blocks a pass, ten passes, rows of n_w tokens: the correction that the driver's rescale
    would make stays below 1e-5 of the row when nothing is rescaled for all ten passes.
    """
    words = 2
    blocks = 480
    rng = np.random.default_rng(0)
    per_block = n_w / blocks
    cells = 5000  # a cell has 2 or 20 tokens: small beside the row, as in text
    x = np.full(cells * words, int(per_block / cells), np.int32)
    n_true = float(x[0]) * cells * blocks
    indptr = np.arange(cells + 1) * words
    ids = np.tile(np.arange(words, dtype=np.int32), cells)
    block = Block(0, 0, indptr, ids, x, np.arange(words, dtype=np.int32), float(x.sum()))
    kind = find("atbp")
    engine = kind(
        Shape(cells * blocks, words, len(x) * blocks, n_true * words, topics), kind.Options()
    )
    thetas = wide(rng.dirichlet(np.ones(topics), cells) * float(x[0]) * words)
    table64 = np.zeros((words, padded(topics)))
    table64[:, :topics] = rng.dirichlet(np.ones(topics), words) * n_true
    params = engine.initial_params()
    index = np.arange(words)
    before = table64.copy()
    out = buffers(engine, block)
    worst = 0.0
    for _ in range(10):
        start = table64.sum(1)
        for _ in range(blocks):
            table = table64.astype(np.float32)  # as the driver keeps it
            rows = {"phi": Rows(table, index)}
            totals = {"phi": table64.sum(0)}
            engine.process(Visit(block, rows, totals, {"theta": thetas}, params, Key(0, 1)), out)
            thetas = out.state["theta"].copy()
            table64 = table.astype(np.float64) + out.delta["phi"]
        worst = max(worst, np.abs(table64.sum(1) / start - 1).max())
    assert worst < 1e-5
    assert np.abs(table64.sum(1) / n_true - 1).max() < 1e-5
    assert np.abs(table64 - before).max() > 1e-3 * n_true  # and the rows did move
    assert np.abs(thetas.sum(1) / (float(x[0]) * words) - 1).max() < 1e-5


def test_learned_priors_find_the_planted_ones():
    rng = np.random.default_rng(3)
    docs = 3000
    topics = 6
    alpha = np.array([1.5, 0.8, 0.4, 0.2, 0.1, 0.1])
    from topicstream.engines.message.priors import (
        BINS,
        bin_values,
        count_documents,
        document_counts,
        expected_rise,
        pull_by_length,
    )
    from topicstream.numeric.kernels.dirichlet import Histogram, fit_beta
    from topicstream.numeric.kernels.dirichlet import fit_alpha as fit

    def fit_alpha(start, topic_bins, length_bins, low, high, pull=0.0, mean=0.0):
        of_topics, of_lengths = document_counts(topic_bins, length_bins, topics)
        return fit(
            start,
            of_topics,
            of_lengths,
            expected_rise,
            low,
            high,
            pull_by_length(of_lengths, pull, mean),
        )

    lengths = rng.integers(40, 200, docs)
    theta = np.array([rng.multinomial(n, rng.dirichlet(alpha)) for n in lengths])
    topic_bins = np.zeros(topics * BINS)
    length_bins = np.zeros(BINS)
    count_documents(wide(theta), topics, None, topic_bins, length_bins)
    assert topic_bins.sum() == (theta > 0).sum() and length_bins.sum() == docs
    found = np.full(topics, 0.5)
    for _ in range(30):
        found = fit_alpha(found, topic_bins, length_bins, 1e-3, 10.0)
    np.testing.assert_allclose(found, alpha, rtol=0.15)
    assert (fit_alpha(np.full(topics, 0.5), topic_bins, length_bins, 0.45, 0.55) >= 0.45).all()
    held = fit_alpha(alpha, topic_bins, length_bins, 1e-3, 10.0, 2.0, 0.3)
    for _ in range(30):
        held = fit_alpha(held, topic_bins, length_bins, 1e-3, 10.0, 2.0, 0.3)
    # the gradient of the penalised likelihood, from the counts themselves
    many = np.array(
        [[sum(1 / (a + i) for i in range(n)) for n in column] for a, column in zip(held, theta.T)]
    )
    below = sum(sum(1 / (held.sum() + i) for i in range(n)) for n in theta.sum(1))
    np.testing.assert_allclose(
        held * many.sum(1) + docs * 2.0 * 0.3, held * (below + docs * 2.0), rtol=0.05
    )
    assert (np.abs(held - 0.3) < np.abs(alpha - 0.3)).all()
    # documents of two tokens lower alpha almost as they like, and raise it as the pull allows
    few = np.array([rng.multinomial(2, rng.dirichlet(np.full(topics, 0.05))) for _ in range(docs)])
    bins = np.zeros(topics * BINS), np.zeros(BINS)
    count_documents(wide(few), topics, None, *bins)
    free, loose = (
        fit_alpha(np.full(topics, 0.3), *bins, 1e-3, 10.0, pull, 0.3) for pull in (0.0, 1.0)
    )
    assert (loose < 0.1).all() and np.abs(loose / free - 1).max() < 0.2
    raised = fit_alpha(np.full(topics, 0.01), *bins, 1e-3, 10.0, 1.0, 0.01)
    assert (raised < fit_alpha(np.full(topics, 0.01), *bins, 1e-3, 10.0, 0.0, 0.01)).all()
    words = 2000
    beta = 0.2
    phi = np.array(
        [rng.multinomial(50_000, rng.dirichlet(np.full(words, beta))) for _ in range(topics)]
    ).T
    bins = np.zeros(BINS)
    values = bin_values()
    for v in phi[phi > 0]:
        bins[np.abs(np.log(values / v)).argmin()] += 1
    b = 0.05
    for _ in range(20):
        b = fit_beta(
            b,
            Histogram(bins, values),
            1.0,
            phi.sum(0).astype(float),
            words,
            expected_rise,
            1e-4,
            1.0,
        )
    assert b == pytest.approx(beta, rel=0.15)


def test_word_histogram_weighs_a_word_by_its_share_of_the_block():
    from topicstream.engines.message.priors import BINS, SAMPLE, count_words
    from topicstream.numeric.kernels.rng import bits

    block = make_block(docs=80, words=200)
    topics = 4
    phi, _ = random_state(block, topics)
    mine = np.array([int(bits(np.uint64(v))) % int(SAMPLE) == 0 for v in block.vocab])
    assert mine.any() and not mine.all()
    row_bins = np.zeros(BINS)
    sampled = np.zeros(1)
    args = (block.cells, block.vocab, wide(phi) * 2, np.arange(block.n_words), topics)
    count_words(
        *args, np.empty(block.n_words), row_bins, sampled
    )  # rows twice the block: half of each word lies here
    assert sampled[0] == pytest.approx(mine.sum() / 2, rel=1e-5)
    assert row_bins.sum() == pytest.approx((phi[mine] > 0).sum() / 2, rel=1e-5)


@pytest.mark.parametrize("name", ["atbp", "stbp"])
def test_learning_priors_stays_within_bounds_and_reports(name):
    block = make_block(docs=200, words=300)
    topics = 5
    engine = make_engine(name, block, topics, learn_priors=True)
    params = engine.initial_params()
    phi, theta = random_state(block, topics)
    out = visit(engine, block, phi, theta)
    report = engine.end_pass(pass_end(params, out.stats, {"phi": phi.sum(0)}))
    assert (
        report["alpha_sum"] == pytest.approx(params["alpha"].sum())
        and report["beta"] == params["beta"][0]
    )
    assert (params["alpha"] >= 0.04 - 1e-12).all() and (params["alpha"] <= 4).all()
    assert 0.001 <= params["beta"][0] <= 0.1
    assert len(np.unique(params["alpha"])) > 1
    plain = make_engine(name, block, topics)
    assert plain.end_pass(pass_end(plain.initial_params(), {}, {})) == {}


def test_logarithms_of_a_document_match_numpy():
    from topicstream.numeric.kernels.dirichlet import sum_x_log

    rng = np.random.default_rng(0)
    p = np.append(
        np.exp(rng.normal(size=1000) * 12), [1.0, 0.5, 2.0, np.nextafter(1, 0), 1e-300, 1e300]
    )
    x = rng.integers(1, 9, len(p) + 3).astype(np.int32)
    for i, value in enumerate(p):
        one = sum_x_log(p[i : i + 1].copy(), np.ones(1, np.int32), 0, 1, 1.0, 0.0)
        assert one == pytest.approx(np.log(value), abs=1e-12, rel=1e-14)
    assert sum_x_log(p.copy(), x, 3, len(p), 1.0, 0.0) == pytest.approx(
        (x[3:] * np.log(p)).sum(), rel=1e-13
    )
    assert sum_x_log(p.copy(), x, 3, 50, 20.0, 1.0) == pytest.approx(
        (x[3:53] * np.log(p[:50] / (20.0 - x[3:53]))).sum()
    )
    assert sum_x_log(p.copy(), x, 0, 0, 1.0, 0.0) == 0.0
