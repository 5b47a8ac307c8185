"""The local steps against NumPy twins, bounds against their definition, selection against sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import variational as twin
from tests.visits import out_for, unwritten
from topicstream.corpus.block import Block
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Key, Rows, Shape, Visit, padded, workspace_bytes
from topicstream.engines.variational import bounds, statistics, svi
from topicstream.engines.variational.mvi import Memoized
from topicstream.engines.variational.ovb import OnlineVariationalBayes
from topicstream.engines.variational.svi import StochasticSparse
from topicstream.engines.variational.vb import VariationalBayes
from topicstream.numeric.kernels.arrays import RowEntries
from topicstream.numeric.kernels.select import keep_top
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.rounds import RoundSpace
from topicstream.numeric.tables.spec import SparseDelta, TableSpec

W = 60
K = 37
D = 12


def corpus(seed: int = 0, docs: int = D, words: int = W, longest: int = 40) -> Block:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, docs)
    lengths[0] = 0
    lengths[1] = 1
    cells = [np.sort(rng.choice(words, n, replace=False)) for n in lengths]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    counts = rng.integers(1, 6, indptr[-1]).astype(np.int32)
    ids = np.concatenate(cells).astype(np.int32)
    return Block(0, 0, indptr, ids, counts, np.arange(words, dtype=np.int32), float(counts.sum()))


def table(seed: int = 1, words: int = W, topics: int = K) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = np.zeros((words, padded(topics)), np.float32)
    out[:, :topics] = rng.gamma(0.1, 30.0, (words, topics))
    return out


def make(kind, **options):
    return kind(Shape(D, W, 200, 1000.0, K), kind.Options(**options))


def visit(engine, block, phi, memory=None, starting=False):
    out = out_for(engine, block, unwritten(block, phi.shape[1]))
    totals = {"phi": phi.sum(0, dtype=np.float64)}
    rows = {"phi": Rows(phi, np.arange(block.n_words, dtype=np.int64))}
    params = engine.initial_params()
    if starting:
        engine.start(Visit(block, rows, totals, {}, params, Key(0, 0)), out)
    else:
        engine.process(Visit(block, rows, totals, memory or {}, params, Key(0, 1)), out)
    return out


def dense_delta(out, width):
    d = out.delta["phi"]
    if isinstance(d, np.ndarray):
        return d
    full = np.zeros((len(d.ptr) - 1, width))
    np.add.at(full, (np.repeat(np.arange(len(d.ptr) - 1), np.diff(d.ptr)), d.topic), d.value)
    return full


def documents(block):
    for d in range(block.n_docs):
        s = slice(block.indptr[d], block.indptr[d + 1])
        if s.stop > s.start:
            yield block.words[s], block.counts[s].astype(np.float64)


@pytest.mark.parametrize("point", ["dirichlet", "point"])
@pytest.mark.parametrize("beta", [0.1, 0.01, 0.001])
def test_dense_step_equals_algorithm_2(point, beta):
    engine = make(VariationalBayes, phi=point, beta=beta, inner_tol=0.0, inner_max=7)
    block = corpus()
    phi = table()
    out = visit(engine, block, phi)
    log_phi = twin.expected_log(phi[:, :K], beta, point == "point")
    alpha = engine.initial_params()["alpha"]
    want = np.zeros((W, K))
    total = 0.0
    for words, x in documents(block):
        r, _ = twin.dense_document(log_phi[words], x, alpha, 7)
        want[words] += x[:, None] * r
        total += twin.bound(log_phi[words], x, alpha, r)
    np.testing.assert_allclose(out.delta["phi"][:, :K], want, atol=2e-4 * block.counts.max())
    assert (out.delta["phi"][:, K:] == 0).all()
    assert out.stats["bound"][0] == pytest.approx(total, rel=1e-6)
    assert out.delta["phi"].sum(dtype=np.float64) == pytest.approx(block.tokens, rel=1e-6)


def test_seed_topics_are_smoothed_by_a_hundredth_of_their_mean_entry():
    """The weights of words are those of point estimates, whatever unit the seeds come in."""
    engine = make(VariationalBayes)
    block = corpus()
    for unit in (1.0, 1000.0):
        phi = table() * np.float32(unit)
        out = out_for(engine, block, unwritten(block, phi.shape[1]))
        totals = {"phi": phi.sum(0, dtype=np.float64)}
        rows = {"phi": Rows(phi, np.arange(block.n_words, dtype=np.int64))}
        seeds = Visit(block, rows, totals, {}, engine.initial_params(), Key(0, 0))
        found = engine.weigh_words(seeds, out, True)
        beta = 0.01 * float(phi.sum(dtype=np.float64)) / (K * W)
        p = (phi[:, :K] + beta) / (totals["phi"][:K] + W * beta)
        weights = found.e[:, :K] * np.exp(found.log_scale)[:, None]
        np.testing.assert_allclose(weights, p, rtol=1e-4)


def test_documents_without_a_word_are_not_counted():
    block = corpus()
    assert (np.diff(block.indptr) == 0).sum() >= 1
    out = visit(make(VariationalBayes), block, table())
    assert out.stats["docs"][0] == np.count_nonzero(np.diff(block.indptr)) < block.n_docs
    assert out.stats["tokens"][0] == block.tokens


def test_cells_that_float32_cannot_hold_are_done_in_logarithms():
    phi = np.zeros((W, padded(K)), np.float32)
    phi[np.arange(W), np.arange(W) % K] = (
        50.0  # every word belongs to one topic; beta = 0.001 says e**-1000 elsewhere
    )
    engine = make(VariationalBayes, beta=0.001, alpha=0.002, inner_tol=0.0, inner_max=6)
    block = corpus(3)
    out = visit(engine, block, phi)
    log_phi = twin.expected_log(phi[:, :K], 0.001)
    alpha = np.full(K, 0.002)
    want = np.zeros((W, K))
    total = 0.0
    for words, x in documents(block):
        r, _ = twin.dense_document(log_phi[words], x, alpha, 6)
        want[words] += x[:, None] * r
        total += twin.bound(log_phi[words], x, alpha, r)
    np.testing.assert_allclose(out.delta["phi"][:, :K], want, atol=1e-3)
    assert out.stats["bound"][0] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("most", [1, 2, 4, 8, 20])
@pytest.mark.parametrize(
    ("inner", "leave"), [(2, 0.011), (4, 0.0), (4, 0.011), (9, 0.011), (23, 0.0), (23, 0.011)]
)
def test_sparse_step_equals_algorithm_2(most, inner, leave):
    engine = make(
        StochasticSparse, sparsity=most, restarts=0, inner_tol=0.0, inner_max=inner, leave=leave
    )
    block = corpus(5)
    phi = table(7)
    out = visit(engine, block, phi)
    log_phi = twin.expected_log(phi[:, :K], 0.1)
    alpha = engine.initial_params()["alpha"]
    want = np.zeros((W, K))
    total = 0.0
    for words, x in documents(block):
        r, _ = twin.sparse_document(log_phi[words], x, alpha, most, inner, leave)
        want[words] += x[:, None] * r
        total += twin.bound(log_phi[words], x, alpha, r)
    np.testing.assert_allclose(out.delta["phi"][:, :K], want, atol=5e-3)
    assert out.stats["bound"][0] == pytest.approx(total, rel=1e-5)


def test_l_equal_to_k_is_dense_and_l_1_is_hard():
    block = corpus(2)
    phi = table(3)
    options = {"restarts": 2, "alpha": 0.02, "beta": 0.1}
    want = visit(make(OnlineVariationalBayes, **options), block, phi)
    for most in (K, K + 5):
        got = visit(make(StochasticSparse, sparsity=most, **options), block, phi)
        np.testing.assert_allclose(got.delta["phi"], want.delta["phi"], rtol=0, atol=1e-10)
        assert got.stats["bound"][0] == pytest.approx(want.stats["bound"][0], abs=1e-10)
    hard = visit(make(StochasticSparse, sparsity=1, **options), block, phi).delta["phi"]
    np.testing.assert_allclose(hard, np.round(hard), atol=1e-5)  # whole tokens only


@pytest.mark.parametrize(
    ("kind", "options"), [(VariationalBayes, {}), (StochasticSparse, {"sparsity": 4})]
)
def test_restarts_never_lower_a_document_s_bound(kind, options):
    block = corpus(4, docs=60)
    phi = table(9)
    tried = accepted = 0.0
    for d in range(2, 60):
        s = slice(block.indptr[d], block.indptr[d + 1])
        if s.stop == s.start:
            continue
        indptr = np.array([0, s.stop - s.start], np.int64)
        one = Block(
            0, 0, indptr, block.words[s], block.counts[s], block.vocab, float(block.counts[s].sum())
        )
        before = visit(make(kind, restarts=0, alpha=0.02, **options), one, phi).stats["bound"][0]
        after = visit(make(kind, restarts=6, alpha=0.02, **options), one, phi).stats
        assert after["bound"][0] >= before - 1e-9 * abs(before)
        tried = tried + after["tried"][0]
        accepted = accepted + after["accepted"][0]
    assert 0 < accepted <= tried


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_top_l_selection_equals_sort_with_ties(data):
    width = data.draw(st.sampled_from([16, 32, 48, 160]))
    values = data.draw(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0]), min_size=width, max_size=width)
    )
    if data.draw(st.booleans()):
        values = np.array(values) + np.random.default_rng(data.draw(st.integers(0, 99))).gamma(
            0.2, 1.0, width
        )
    p = np.array(values, np.float32)
    p[p < 1e-37] = 0
    most = data.draw(st.integers(1, 40))
    got = p.copy()
    total = keep_top(got, 0, width, most, np.empty(width + 16, np.float32))
    best = np.sort(p[p > 0])[::-1][:most]
    np.testing.assert_array_equal(np.sort(got[got > 0])[::-1], best)
    assert ((got == 0) | (got == p)).all()
    assert total == pytest.approx(best.sum(dtype=np.float64), rel=1e-5)
    order = np.argsort(-p, kind="stable")[:most]  # the first of equal weights stay
    np.testing.assert_array_equal(np.flatnonzero(got), np.sort(order[p[order] > 0]))


@pytest.mark.parametrize("most", [1, 8, K])
def test_memoized_statistics_equal_a_fresh_sum_and_the_bound_its_definition(most):
    engine = make(Memoized, sparsity=most, restarts=2)
    blocks = [corpus(s) for s in (10, 11, 12)]
    phi = np.zeros((W, padded(K)), np.float32)
    seeds = table(20) + 0.1
    seeds[:, K:] = 0
    memory = [None] * len(blocks)
    statistic = [np.zeros((W, K)) for _ in blocks]
    last = -np.inf
    for number in range(5):
        local = 0.0
        for b, block in enumerate(blocks):
            out = visit(
                engine, block, seeds if number == 0 else phi, memory[b], starting=number == 0
            )
            delta = dense_delta(out, phi.shape[1])
            statistic[b] += delta[:, :K]
            memory[b] = {name: value.copy() for name, value in out.state.items()}
            local += out.stats["local_bound"][0]
            if number > 0:
                phi += delta.astype(np.float32)
        if number == 0:
            phi[:, :K] = sum(statistic)
            continue
        fresh = np.zeros((W, K))
        for m in memory:
            if most >= K:
                fresh += m["statistic"].reshape(W, K)
            else:
                np.add.at(
                    fresh, (np.repeat(np.arange(W), np.diff(m["ptr"])), m["topic"]), m["value"]
                )
        np.testing.assert_allclose(phi[:, :K], fresh, atol=1e-4)
        assert phi.sum(dtype=np.float64) == pytest.approx(sum(b.tokens for b in blocks), rel=1e-6)
        value = evidence(phi, local)
        assert np.isfinite(value)
        if most > 1:  # hard cold starts may fall, and the paper says so
            assert value >= last - 2e-3 * abs(last)
        last = value


def evidence(rows, local):
    """The evidence lower bound where rows float32[W, P] are the sum of the documents'
    statistics.
    """
    totals = rows[:, :K].sum(axis=0, dtype=np.float64)
    return local + bounds.rows_bound(rows, 0.1, K) + bounds.totals_bound(totals, 0.1 * len(rows))


def test_evidence_equals_equations_42_to_49():
    block = corpus(6)
    phi = table(8)
    engine = make(VariationalBayes, alpha=0.05, beta=0.1, inner_tol=0.0, inner_max=5)
    out = visit(engine, block, phi)
    new = out.delta["phi"]
    log_phi = twin.expected_log(phi[:, :K], 0.1)
    alpha = np.full(K, 0.05)
    docs = [(w, x, twin.dense_document(log_phi[w], x, alpha, 5)[0]) for w, x in documents(block)]
    want = twin.evidence(new[:, :K].astype(np.float64), 0.1, docs, alpha)
    assert evidence(new, out.stats["local_bound"][0]) == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("name", ["ovb", "svi"])
def test_the_weight_of_a_step_falls_with_its_number(name):
    """(tau + t)^-kappa of steps t = 0, 1, ...; a round of 40 of 1,000 documents counts 25 times."""
    kind = find(name)
    shape = Shape(1000, 50, 9000, 1e4, 4)
    for options, tau, kappa in (({}, 10.0, 0.7), ({"tau": 3.0, "kappa": 0.5}, 3.0, 0.5)):
        engine = kind(shape, kind.Options(**options))
        params = engine.initial_params()
        for step in range(4):
            rho, scale = engine.end_round(params, {}, 40)
            assert rho == pytest.approx((tau + step) ** -kappa, rel=1e-12)
            assert scale == 25.0
        assert params["step"].tolist() == [4.0]
        assert engine.end_round(params, {}, 0)[1] == 1000.0


def test_a_step_with_rho_1_on_one_block_is_batch_vb():
    block = corpus(1)
    phi = table(2)
    options = {"alpha": 0.03, "beta": 0.1}
    engine = make(StochasticSparse, sparsity=K, tau=1.0, restarts=0, **options)
    out = visit(engine, block, phi)
    rho, scale = engine.end_round(engine.initial_params(), {}, engine.shape.docs)
    assert rho == 1.0 and scale == 1.0
    batch = visit(make(VariationalBayes, **options), block, phi).delta["phi"]
    np.testing.assert_array_equal((1 - rho) * phi + rho * scale * out.delta["phi"], batch)


def test_lazy_scale_of_rows_is_seen():
    block = corpus(1)
    phi = table(2)
    engine = make(OnlineVariationalBayes)
    want = visit(engine, block, phi)
    totals = {"phi": phi.sum(0, dtype=np.float64)}
    out = out_for(engine, block, unwritten(block, phi.shape[1]))
    rows = {"phi": Rows(phi * np.float32(4), np.arange(W, dtype=np.int64), 0.25)}
    engine.process(Visit(block, rows, totals, {}, engine.initial_params(), Key(0, 1)), out)
    np.testing.assert_allclose(out.delta["phi"], want.delta["phi"], rtol=1e-6)


def test_change_of_statistics_leaves_equal_entries_out():
    old = (
        np.array([0, 2, 2], np.int32),
        np.array([1, 3], np.uint16),
        np.array([1.0, 2.0], np.float32),
    )
    new = (
        np.array([0, 2, 3], np.int32),
        np.array([3, 5], np.uint16),
        np.array([2.0, 4.0], np.float32),
    )
    new = (new[0], np.append(new[1], np.uint16(0)), np.append(new[2], np.float32(7)))
    ptr = np.zeros(3, np.int64)
    topic = np.zeros(9, np.uint16)
    value = np.zeros(9, np.float32)
    delta = RowEntries(ptr, topic, value)
    n = statistics.change(8, RowEntries(*old), RowEntries(*new), delta)
    assert ptr.tolist() == [0, 2, 3] and n == 3
    assert dict(zip(topic[:2].tolist(), value[:2].tolist())) == {5: 4.0, 1: -1.0}
    assert (topic[2], value[2]) == (0, 7.0)


def test_a_statistic_kept_sparse_is_the_dense_one(monkeypatch):
    topics = 70
    block = corpus(6)
    phi = table(8, topics=topics)
    engine = StochasticSparse(
        Shape(D, W, 200, 1000.0, topics), StochasticSparse.Options(sparsity=1)
    )
    assert engine.sparse_statistic and engine.tables["phi"].delta == "sparse"
    sparse = visit(engine, block, phi).delta["phi"]
    assert workspace_bytes(engine, BlockShape.measure(block)).deltas >= sum(
        a.nbytes for a in (sparse.ptr, sparse.topic, sparse.value)
    )
    monkeypatch.setattr(svi, "FEW", 1000)
    dense = visit(engine, block, phi).delta["phi"]
    assert isinstance(dense, np.ndarray) and dense.sum() == pytest.approx(block.tokens, rel=1e-5)
    full = np.zeros(phi.shape)
    np.add.at(full, (np.repeat(np.arange(W), np.diff(sparse.ptr)), sparse.topic), sparse.value)
    np.testing.assert_allclose(full, dense, rtol=1e-6)


def test_sparse_deltas_enter_a_table_times_their_factor():
    target = DenseTable(
        TableSpec(delta="sparse"), 3, 6, None, None, lambda work, n: [work(i) for i in range(n)]
    )
    target.fill(lambda a, b: np.ones((b - a, 16), np.float32))
    before = target.totals.copy()
    deltas = target.new_round(RoundSpace(1), 3, 100.0)
    ptr = np.array([0, 1, 3])
    topic = np.array([2, 2, 5], np.uint16)
    value = np.array([4, 1, 2], np.float32)
    deltas.put(0, np.array([0, 2], np.int32), SparseDelta(ptr, topic, value))
    target.apply(deltas, 0.25)
    want = np.ones((3, 16), np.float32)
    want[0, 2] = 2.0
    want[2, 2] = 1.25
    want[2, 5] = 1.5
    np.testing.assert_array_equal(target.array, want)
    np.testing.assert_array_equal((target.totals - before)[[2, 5]], [1.25, 0.5])
