"""Pseudo-counts of seed words: their tables, and the engines with them against plain twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

from tests import gibbs_driver
from tests.engines import test_bp, test_tbp, test_variational
from tests.message_driver import Driver
from tests.reference import bp as bp_twin
from tests.reference import tbp as tbp_twin
from tests.reference import variational as variational_twin
from tests.visits import Pieces, out_for, pass_end, unwritten
from topicstream.engines.base import Key, Scratch, TableSpec, Visit
from topicstream.engines.gibbs.gs import GibbsSampling
from topicstream.engines.gibbs.sparselda import SparseLDA
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.layouts import LAYOUTS


def serial(work, n):
    for i in range(n):
        work(i)


def fill(table, counts):
    """Set a table's rows to counts [W, K]."""
    wide = np.zeros((len(counts), table.width), np.float32)
    wide[:, : counts.shape[1]] = counts
    table.fill(lambda a, b: wide[a:b])


def constants(
    words: int, topics: int, seed: int = 0, whole: bool = True
) -> tuple[Constants, np.ndarray]:
    """A few constants, and the same as a dense [W, K]."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((words, topics))
    at = rng.choice(words, max(2, words // 4), replace=False)
    dense[at, rng.integers(0, topics, len(at))] = (
        rng.integers(1, 40, len(at)) if whole else rng.random(len(at)) * 40
    )
    dense[at[0]] += 3.0
    row, topic = np.nonzero(dense)
    order = rng.permutation(len(row))
    return Constants(row[order], topic[order], dense[row, topic][order], topics), dense


class TestConstants:
    @pytest.mark.parametrize("place", ["memory", "disk"])
    @pytest.mark.parametrize("layout", ["dense", "packed"])
    def test_are_added_where_rows_are_gathered_and_nowhere_else(self, layout, place, tmp_path):
        rng = np.random.default_rng(1)
        counts = rng.poisson(0.7, (90, 7)).astype(np.float64)
        c, dense = constants(90, 7)
        spec = (
            TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row")
            if layout == "packed"
            else TableSpec()
        )
        path = tmp_path if place == "disk" else None
        table = LAYOUTS[spec.layout](spec, 90, 7, counts.sum(1), path, serial, c)
        fill(table, counts)
        for ids in (np.arange(90, dtype=np.int32), np.array([2, 3, 50, 89], np.int32), c.ids[:1]):
            got = table.gather(ids, Scratch())
            if layout == "packed":
                seen = np.zeros((len(ids), 7))
                start = np.concatenate(([0], np.cumsum(got.length)))
                arena = np.zeros(start[-1], np.uint32)
                for a, b in ((0, len(ids) // 2), (len(ids) // 2, len(ids))):
                    got.copy(a, b, start[a:b], arena)
                for u in range(len(ids)):
                    entries = arena[start[u] : start[u + 1]]
                    assert (np.diff((entries >> got.bits).astype(int)) <= 0).all()
                    seen[u, entries & ((1 << got.bits) - 1)] = entries >> got.bits
                assert got.largest >= seen.max()
            else:
                seen = got.base[got.index][:, :7] * got.scale
                np.testing.assert_array_equal(got.base[got.counts][:, :7], counts[ids])
            np.testing.assert_allclose(seen, (counts + dense)[ids])
            np.testing.assert_array_equal(
                table.dense(ids, np.zeros((len(ids), 16), np.float32))[:, :7], counts[ids]
            )
        np.testing.assert_allclose(table.seen_totals[:7], (counts + dense).sum(0))
        np.testing.assert_allclose(table.totals[:7], counts.sum(0))
        np.testing.assert_array_equal(
            np.concatenate([r[:, :7].copy() for _, r in table.pieces()]), counts
        )
        table.close()

    @pytest.mark.parametrize("place", ["memory", "disk"])
    def test_no_blending_rescaling_or_loading_wears_them_off(self, place, tmp_path):
        c, dense = constants(40, 5, whole=False)
        table = LAYOUTS["dense"](
            TableSpec(), 40, 5, None, tmp_path if place == "disk" else None, serial, c
        )
        counts = np.random.default_rng(0).random((40, 5)).astype(np.float32) * 9
        ids = np.arange(40, dtype=np.int32)

        def seen():
            got = table.gather(ids, Scratch())
            return got.base[got.index][:, :5] * got.scale

        fill(table, counts)
        for rho in (0.5, 0.9, 0.999, 0.99):
            np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
            table.blend(rho)
            counts = counts * (1 - rho)
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.finish_pass()
        table.save(tmp_path / "saved")
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.clear()
        np.testing.assert_allclose(seen(), dense, rtol=1e-6)
        table.load(tmp_path / "saved")
        np.testing.assert_allclose(seen(), counts + dense, rtol=1e-5)
        table.close()

    def test_evidence_is_that_of_a_dense_prior(self):
        c, dense = constants(30, 4, whole=False)
        counts = np.random.default_rng(2).random((30, 4)) * 20
        beta = 0.05

        def of(prior):
            hat = counts + prior
            own = gammaln(hat).sum(0) - gammaln(hat.sum(0))
            return (own - gammaln(prior).sum(0) + gammaln(prior.sum(0))).sum()

        change = of(beta + dense) - of(np.full((30, 4), beta))
        found = np.zeros(len(c.weight))
        for first in (0, 7):
            c.take(first, counts[first : 7 if first == 0 else 30], found)
        assert c.evidence(found, counts.sum(0), beta, 30 * beta) == pytest.approx(change, rel=1e-9)


class SeededDriver(Driver):
    """Rows come from a table with constants."""

    def __init__(self, driver, c, path):
        self.__dict__.update(driver.__dict__)
        self.c = c
        self.path = path

    def rows(self, block):
        table = LAYOUTS["dense"](
            TableSpec(), *self.phi[:, : self.c.columns].shape, None, self.path, serial, self.c
        )
        fill(table, self.phi[:, : self.c.columns])
        return {"phi": table.gather(block.vocab, Scratch())}, {
            "phi": self.phi.sum(0) + self.c.totals
        }


class TestTwins:
    @pytest.mark.parametrize("place", ["memory", "disk"])
    @pytest.mark.parametrize("schedule", ["async", "sync"])
    @pytest.mark.parametrize("kind", test_bp.ENGINES)
    def test_belief_propagation(self, kind, schedule, place, tmp_path):
        x = test_bp.corpus()
        mu = test_bp.random_messages(x)
        c, dense = constants(x.shape[1], test_bp.K, whole=False)
        driver = test_bp.driver_at(kind, x, mu, schedule=schedule)
        driver = SeededDriver(driver, c, tmp_path if place == "disk" else None)
        twin = bp_twin.asynchronous if schedule == "async" else bp_twin.synchronous
        for _ in range(3):
            driver.sweep()
            mu = twin(x, mu, 0.3, 0.02 + dense, kind)
        np.testing.assert_allclose(test_bp.stored(driver), mu[x > 0], atol=3e-6)
        np.testing.assert_allclose(driver.phi[:, : test_bp.K], bp_twin.sums(x, mu)[1], atol=3e-5)

    @pytest.mark.parametrize("topics", [5, 37])
    def test_tiny_belief_propagation_shrinks_counts_alone(self, topics):
        block = test_tbp.make_block()
        c, dense = constants(block.n_words, topics, whole=False)
        by_vocabulary = Constants(block.vocab[c.words], c.topic, c.weight, topics)
        engine = test_tbp.make_engine("atbp", block, topics)
        engine.shape = replace(engine.shape, seeds=by_vocabulary)
        phi, theta = test_tbp.random_state(block, topics)
        out = test_tbp.buffers(engine, block)
        table = LAYOUTS["dense"](
            TableSpec(), int(block.vocab.max()) + 1, topics, None, None, serial, by_vocabulary
        )
        full = np.zeros((table.n_rows, topics), np.float32)
        full[block.vocab] = phi
        fill(table, full)
        memory = {"theta": test_tbp.wide(theta)}
        totals = {"phi": table.seen_totals}
        rows = {"phi": table.gather(block.vocab, Scratch())}
        engine.process(Visit(block, rows, totals, memory, engine.initial_params(), Key(0, 1)), out)
        want = phi.copy()
        lam = phi.sum(0)
        params = engine.initial_params()
        loglik = tbp_twin.atbp_pass(
            block.indptr,
            block.words,
            block.counts,
            want,
            theta,
            lam,
            params["alpha"],
            float(params["beta"][0]) + dense,
        )
        np.testing.assert_allclose(out.delta["phi"][:, :topics], want - phi, atol=5e-4)
        np.testing.assert_allclose(out.state["theta"][:, :topics], theta, atol=5e-4)
        assert out.stats["loglik"][0] == pytest.approx(loglik, rel=1e-4)
        assert (
            want.min() >= 0
        )  # with seeds among what is shrunk, some counts would have to be negative

    @pytest.mark.parametrize("kind", [GibbsSampling, SparseLDA])
    @pytest.mark.parametrize("place", ["memory", "disk"])
    def test_gibbs_weighs_seeds_as_counts_that_never_move(self, kind, place, tmp_path):
        block = gibbs_driver.random_block(3, 20, 30, 25)
        topics = 6
        c, dense = constants(30, topics)
        rng = np.random.default_rng(0)
        z = rng.integers(0, topics, int(block.tokens)).astype(np.uint8)
        n_wt = gibbs_driver.table_of(block, z, topics)
        spec = TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row")
        table = LAYOUTS[spec.layout](
            spec,
            30,
            topics,
            n_wt.sum(1).astype(float),
            tmp_path if place == "disk" else None,
            serial,
            c,
        )
        fill(table, n_wt)
        engine = gibbs_driver.make(kind, block, topics, 30, alpha=0.2, beta=0.05)
        params = engine.initial_params()
        key = Key(5, 1)
        from_table = gibbs_driver.draw(
            engine,
            block,
            z,
            table.gather(block.vocab, Scratch()),
            table.seen_totals[:topics],
            params,
            key,
        )
        # the twin: the plain conditional with n_wt + s_wt, uniforms in its own order
        assert_same = gibbs_driver.draw(
            engine,
            block,
            z,
            gibbs_driver.pack_rows(n_wt + dense.astype(int)),
            (n_wt + dense).sum(0),
            params,
            key,
        )
        assert from_table.stats["loglik"][0] == pytest.approx(
            plain_loglik(block, z, from_table.state["z"], n_wt, dense, 0.2, 0.05), rel=1e-9
        )
        if kind is GibbsSampling:  # sparselda searches equal counts in the order of its lists
            np.testing.assert_array_equal(from_table.state["z"], assert_same.state["z"])
        table.close()

    @pytest.mark.parametrize("point", ["dirichlet", "point"])
    def test_variational_bayes_and_its_bound(self, point, tmp_path):
        block = test_variational.corpus()
        phi = test_variational.table()
        k = test_variational.K
        width = len(phi)
        c, dense = constants(width, k, whole=False)
        engine = test_variational.make(
            test_variational.VariationalBayes, phi=point, beta=0.1, inner_tol=0.0, inner_max=7
        )
        table = LAYOUTS["dense"](TableSpec(), width, k, None, None, serial, c)
        fill(table, phi[:, :k])
        out = out_for(engine, block, unwritten(block, phi.shape[1]))
        rows = {"phi": table.gather(block.vocab, Scratch())}
        totals = {"phi": table.seen_totals}
        engine.process(Visit(block, rows, totals, {}, engine.initial_params(), Key(0, 1)), out)
        log_phi = variational_twin.expected_log(phi[:, :k], 0.1 + dense, point == "point")
        alpha = engine.initial_params()["alpha"]
        want = np.zeros((width, k))
        total = 0.0
        docs = []
        for words, x in test_variational.documents(block):
            r, _ = variational_twin.dense_document(log_phi[words], x, alpha, 7)
            want[words] += x[:, None] * r
            total += variational_twin.bound(log_phi[words], x, alpha, r)
            docs.append((words, x, r))
        np.testing.assert_allclose(out.delta["phi"][:, :k], want, atol=2e-4 * block.counts.max())
        assert out.stats["bound"][0] == pytest.approx(total, rel=1e-6)
        if point == "dirichlet":  # the table is now the sum of the statistics: the whole bound
            engine.shape = replace(engine.shape, seeds=c)
            statistic = out.delta["phi"].copy()
            tables = {"phi": Pieces(statistic[:20], statistic[20:])}
            record = engine.end_pass(pass_end(engine.initial_params(), out.stats, {}, tables))
            log_new = variational_twin.expected_log(want, 0.1 + dense)
            local = sum(variational_twin.bound(log_new[w], x, alpha, r) for w, x, r in docs)
            hat = want + 0.1 + dense
            prior = np.broadcast_to(0.1 + dense, want.shape)
            log_b = (
                gammaln(hat).sum(0)
                - gammaln(hat.sum(0))
                - gammaln(prior).sum(0)
                + gammaln(prior.sum(0))
            ).sum()
            assert record["bound"] == pytest.approx(
                local + log_b + ((prior - hat) * log_new).sum(), rel=1e-5
            )


def plain_loglik(block, z, after, n_wt, dense, alpha, beta):
    """sum of log p(w | d) of the draws that led from z to ``after``, by the plain conditional with
    n_wt + s_wt.
    """
    counts = (n_wt + dense).astype(float)
    total = 0.0
    i = 0
    sums = counts.sum(0)
    width = len(n_wt) * beta
    k = n_wt.shape[1]
    for d in range(block.n_docs):
        cells = range(block.indptr[d], block.indptr[d + 1])
        n = sum(int(block.counts[c]) for c in cells)
        n_td = np.bincount(z[i : i + n], minlength=k).astype(float)
        for c in cells:
            for _ in range(block.counts[c]):
                w = block.words[c]
                old = z[i]
                new = after[i]
                for topic, step in ((old, -1), (new, 1)):
                    if step == 1:
                        p = (alpha + n_td) * (beta + counts[w]) / (width + sums)
                        total += np.log(p.sum() / (k * alpha + n - 1))
                    counts[w, topic] += step
                    sums[topic] += step
                    n_td[topic] += step
                i += 1
    return total
