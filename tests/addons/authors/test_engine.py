"""The author-topic engine against its dense twin, and what must hold of authors."""

import itertools

import numpy as np
import pytest

from tests import few_quick
from tests.message_driver import dense_block
from tests.reference import atm as twin
from tests.reference import bp as lda
from tests.visits import out_for
from topicstream.addons.authors.engine import AuthorTopicModel
from topicstream.base.errors import InputError, StoreError
from topicstream.corpus.block import AxisRows
from topicstream.engines.base import Key, Rows, Rule, Shape, Visit, padded

K = 4
A = 5
TWINS = {"async": twin.asynchronous, "sync": twin.synchronous}
SCHEDULES = tuple(TWINS)


def corpus(seed=3, docs=9, words=12, authors=A):
    """Counts, and who wrote what: one to three authors each."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(0.8, (docs, words))
    x[:, 0] += 1
    x[4] = 0
    wrote = np.zeros((docs, authors), bool)
    for d in range(docs):
        wrote[d, rng.choice(authors, rng.integers(1, 4), replace=False)] = True
    return x, wrote


def blocks_of(x, wrote, cuts=()):
    edges = [0, *cuts, len(x)]
    found = []
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        block = dense_block(x[a:b], i, a)
        _, who = np.nonzero(wrote[a:b])
        ids, local = np.unique(who, return_inverse=True)
        indptr = np.concatenate(([0], np.cumsum(wrote[a:b].sum(1)))).astype(np.int64)
        block.axes["authors"] = AxisRows(ids.astype(np.int32), indptr, local.astype(np.int32))
        found.append(block)
    return found


def random_messages(x, wrote, seed=0):
    rng = np.random.default_rng(seed)
    mu = np.zeros((*x.shape, wrote.shape[1], K))
    for d, w in zip(*np.nonzero(x)):
        n = int(wrote[d].sum())
        mu[d, w, wrote[d]] = rng.dirichlet(np.ones(n * K)).astype(np.float32).reshape(n, K)
    return mu


class Driver:
    """A pass loop of a few lines, one round a block, tables in float64."""

    def __init__(self, x, wrote, cuts=(), mu=None, **options):
        self.blocks = blocks_of(x, wrote, cuts)
        self.tokens = float(x.sum())
        shape = Shape(
            len(x), x.shape[1], int((x > 0).sum()), self.tokens, K, axes={"authors": wrote.shape[1]}
        )
        options = {"alpha": 0.3, "beta": 0.02, "sparsity": 0, **options}
        self.engine = AuthorTopicModel(shape, AuthorTopicModel.Options(**options))
        self.params = self.engine.initial_params()
        self.tables = {"phi": np.zeros((x.shape[1], K)), "authors": np.zeros((wrote.shape[1], K))}
        self.memory = [None] * len(self.blocks)
        self.passes = 0
        self.x = x
        self.wrote = wrote
        if mu is not None:
            self.tables["authors"], self.tables["phi"], _ = twin.sums(x, mu)
            for b, block in enumerate(self.blocks):
                pairs = []
                messages = []
                for d in range(block.n_docs):
                    row = block.first_doc + d
                    if wrote[row].any():
                        pairs.append(np.arange(wrote[row].sum() * K))
                        messages.append(mu[row][x[row] > 0][:, wrote[row]].reshape(-1))
                made = {
                    "pairs": np.concatenate(pairs).astype(np.int32),
                    "messages": np.concatenate(messages),
                }
                self.memory[b] = made | {"messages": made["messages"].astype(np.float32)}

    def _rows(self, block, name):
        return block.vocab if name == "phi" else block.rows("authors").ids

    def _out(self, block):
        delta = {
            n: np.full((len(self._rows(block, n)), padded(K)), np.nan, np.float32)
            for n in self.tables
        }
        return out_for(self.engine, block, delta)

    def _enter(self, tables, block, out):
        for name, table in tables.items():
            assert (out.delta[name][:, K:] == 0).all()
            table[self._rows(block, name)] += out.delta[name][:, :K]

    def start(self, seed=0, seeds=None):
        for b, block in enumerate(self.blocks):
            out = self._out(block)
            rows = {}
            totals = {}
            if seeds is not None:
                base = np.pad(seeds.astype(np.float32), ((0, 0), (0, padded(K) - K)))
                rows = {"phi": Rows(base, block.vocab.astype(np.int64))}
                totals = {"phi": base.sum(0, dtype=np.float64)}
            self.engine.start(Visit(block, rows, totals, {}, self.params, Key(seed, 0)), out)
            self._enter(self.tables, block, out)
            self.memory[b] = {k: v.copy() for k, v in out.state.items()}
        return self

    def sweep(self, passes=1):
        for _ in range(passes):
            self.passes += 1
            fresh = {n: np.zeros_like(t) for n, t in self.tables.items()}
            self.stats = {n: np.zeros(k) for n, k in self.engine.stats.items()}
            for b, block in enumerate(self.blocks):
                rows = {}
                totals = {}
                for name, table in self.tables.items():
                    base = np.pad(table.astype(np.float32), ((0, 0), (0, padded(K) - K)))
                    rows[name] = Rows(base, self._rows(block, name).astype(np.int64))
                    totals[name] = base.sum(0, dtype=np.float64)
                out = self._out(block)
                self.engine.process(
                    Visit(block, rows, totals, self.memory[b], self.params, Key(0, self.passes)),
                    out,
                )
                replace = self.engine.tables["phi"].rule is Rule.REPLACE
                self._enter(fresh if replace else self.tables, block, out)
                self.memory[b] = {k: v.copy() for k, v in out.state.items()}
                for name, value in out.stats.items():
                    self.stats[name] += value
            if replace:
                self.tables = fresh
        return self

    def dense(self):
        """The stored messages, [D, W, A, K]; of documents without an author they stand under author
        -1.
        """
        mu = np.zeros((*self.x.shape, self.wrote.shape[1] + 1, K))
        for block, memory in zip(self.blocks, self.memory):
            p = at = 0
            for d in range(block.n_docs):
                row = block.first_doc + d
                who = np.flatnonzero(self.wrote[row])
                who = who if len(who) else np.array([-1])
                n = len(who) * K
                n = min(n, self.engine.options.sparsity) if self.engine.options.sparsity else n
                pairs = memory["pairs"][p : p + n]
                p += n
                assert (np.diff(pairs) > 0).all()
                for w in np.flatnonzero(self.x[row]):
                    mu[row, w, who[pairs // K], pairs % K] = memory["messages"][at : at + n]
                    at += n
            assert p == len(memory["pairs"]) and at == len(memory["messages"])
        return mu


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_joint_form_is_the_twin_cell_by_cell(schedule):
    x, wrote = corpus()
    mu = random_messages(x, wrote)
    driver = Driver(x, wrote, mu=mu, schedule=schedule)
    for _ in range(3):
        driver.sweep()
        mu, loglik = TWINS[schedule](x, wrote, mu, 0.3, 0.02)
        np.testing.assert_allclose(driver.dense()[:, :, :-1], mu, atol=2e-5)
        assert driver.stats["loglik"][0] == pytest.approx(loglik, rel=1e-5)
    table, phi, _ = twin.sums(x, mu)
    np.testing.assert_allclose(driver.tables["authors"], table, atol=1e-3)
    np.testing.assert_allclose(driver.tables["phi"], phi, atol=1e-3)
    assert driver.tables["authors"].sum() == pytest.approx(x.sum(), rel=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("named", [True, False])
def test_unique_authors_are_lda_message_by_message(schedule, named):
    """One author a document, all different, or none (a private one each): belief propagation for
    LDA.
    """
    x, _ = corpus()
    wrote = np.eye(len(x), dtype=bool) if named else np.zeros((len(x), 1), bool)
    mu = random_messages(x, np.eye(len(x), dtype=bool))
    plain = mu.sum(2)
    driver = Driver(x, wrote, mu=mu if named else None, schedule=schedule)
    if not named:
        driver.tables["phi"] = lda.sums(x, plain)[1]
        driver.memory[0] = {
            "pairs": np.tile(np.arange(K, dtype=np.int32), len(x)),
            "messages": plain[x > 0].astype(np.float32).reshape(-1),
        }
    for _ in range(3):
        driver.sweep()
        plain = (
            lda.synchronous(x, plain, 0.3, 0.02, "cell")
            if schedule == "sync"
            else lda.asynchronous(x, plain, 0.3, 0.02, "cell")
        )
        np.testing.assert_allclose(driver.dense().sum(2), plain, atol=2e-5)
    assert driver.stats["unnamed"][0] == (0 if named else (x.sum(1) > 0).sum())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_permuted_authors_change_nothing_but_their_numbers(schedule):
    x, wrote = corpus()
    mu = random_messages(x, wrote)
    order = np.random.default_rng(1).permutation(A)
    here = Driver(x, wrote, mu=mu, schedule=schedule).sweep(4)
    there = Driver(x, wrote[:, order], mu=mu[:, :, order], schedule=schedule).sweep(4)
    np.testing.assert_allclose(there.tables["authors"], here.tables["authors"][order], atol=1e-4)
    np.testing.assert_allclose(there.tables["phi"], here.tables["phi"], atol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seeded", [True, False])
def test_sparse_pairs_keep_every_sum_exact(schedule, seeded):
    """Whatever pairs come and go, the tables are the sums of the stored messages, and these sum to
    one.
    """
    x, wrote = corpus(docs=20)
    wrote[7] = wrote[8] = False
    seeds = np.random.default_rng(2).random((x.shape[1], K)) + 0.01 if seeded else None
    driver = Driver(x, wrote, cuts=(6, 13), schedule=schedule, sparsity=5, reopen=2).start(3, seeds)
    met = set()
    for _ in range(8):
        mu = driver.dense()
        np.testing.assert_allclose(mu.sum((2, 3)), x > 0, atol=1e-5)
        table, phi, _ = twin.sums(x, mu)
        np.testing.assert_allclose(driver.tables["authors"], table[:-1], atol=2e-4)
        np.testing.assert_allclose(driver.tables["phi"], phi, atol=2e-4)
        met.add(driver.memory[0]["pairs"].tobytes())
        driver.sweep()
    assert len(met) > 1
    assert driver.stats["unnamed"][0] == (x[7:9].sum(1) > 0).sum()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_sparse_form_is_the_twin_over_its_pairs(schedule):
    """Also in passes in which documents exchange pairs: the twin is told which they have from then
    on.
    """
    x, wrote = corpus(docs=20)
    driver = Driver(x, wrote, schedule=schedule, sparsity=5, reopen=2).start(3)
    exchanged = 0
    for _ in range(4):
        mu = driver.dense()[:, :, :-1]
        kept = driver.sweep().dense()[:, :, :-1].any(1)
        exchanged += (kept != mu.any(1)).sum() if driver.passes > 1 else 0
        assert (kept.sum((1, 2)) == np.minimum(5, wrote.sum(1) * K))[x.sum(1) > 0].all()
        mu, loglik = TWINS[schedule](x, wrote, mu, 0.3, 0.02, kept)
        np.testing.assert_allclose(driver.dense()[:, :, :-1], mu, atol=2e-5)
        assert driver.stats["loglik"][0] == pytest.approx(loglik, rel=1e-5)
    assert exchanged > 10


def test_more_pairs_than_there_are_is_the_joint_form():
    x, wrote = corpus()
    mu = random_messages(x, wrote)
    joint, wide = (Driver(x, wrote, mu=mu, sparsity=n).sweep(5) for n in (0, 3 * K))
    np.testing.assert_array_equal(joint.tables["authors"], wide.tables["authors"])
    np.testing.assert_array_equal(joint.memory[0]["messages"], wide.memory[0]["messages"])


def test_documents_left_out_leave_no_trace():
    x, wrote = corpus()
    wrote[2] = False
    driver = Driver(x, wrote, no_author="skip").start(1).sweep(2)
    rest = np.arange(len(x)) != 2
    assert driver.tables["phi"].sum() == pytest.approx(x[rest].sum(), rel=1e-6)
    assert driver.stats["tokens"][0] == x[rest].sum()
    np.testing.assert_allclose(driver.tables["phi"].sum(1), x[rest].sum(0), atol=1e-4)


def test_one_author_of_everything_runs():
    x, _ = corpus()
    driver = Driver(x, np.ones((len(x), 1), bool)).start(1).sweep(3)
    assert driver.tables["authors"].sum() == pytest.approx(x.sum(), rel=1e-6)


def test_without_priors_no_message_is_lost():
    x, wrote = corpus()
    driver = Driver(x, wrote, alpha=0.0, beta=0.0).start(1).sweep(3)
    np.testing.assert_allclose(driver.dense().sum((2, 3)), x > 0, atol=1e-5)


def test_memory_that_cannot_be_is_refused():
    x, wrote = corpus()
    driver = Driver(x, wrote).start(1)
    driver.memory[0]["pairs"][0] = 3 * K
    with pytest.raises(StoreError, match="is corrupt"):
        driver.sweep()


def test_priors_are_not_learned():
    x, wrote = corpus()
    with pytest.raises(InputError, match="does not learn its priors"):
        Driver(x, wrote, learn_priors=True)


def planted(seed):
    """Six authors, each a mixture of two of four topics of their own words; one to three write a
    document.
    """
    rng = np.random.default_rng(seed)
    theta = np.full((6, K), 0.02)
    for a in range(6):
        theta[a, rng.choice(K, 2, replace=False)] += [0.7, 0.22]
    phi = np.repeat(np.eye(K), 5, axis=1) + 0.01
    phi /= phi.sum(1, keepdims=True)
    x = np.zeros((150, 5 * K), int)
    wrote = np.zeros((150, 6), bool)
    for d in range(150):
        who = rng.choice(6, rng.integers(1, 4), replace=False)
        wrote[d, who] = True
        x[d] = rng.multinomial(60, (theta[who] @ phi).mean(0))
    return x, wrote, theta, phi


@pytest.mark.product
@pytest.mark.parametrize("sparsity", few_quick([0, 8], [8]))
def test_planted_authors_are_found(sparsity):
    """Four corpora; of four starts the one of the highest likelihood, as a start may put one
    author's topic on another.
    """
    apart = []
    for seed in range(4):
        x, wrote, theta, phi = planted(seed)
        runs = []
        for start in range(4):
            driver = (
                Driver(x, wrote, cuts=(50, 100), sparsity=sparsity, alpha=0.05)
                .start(start)
                .sweep(60)
            )
            topics = driver.tables["phi"] / driver.tables["phi"].sum(0)
            order = [int(np.abs(topics.T - p).sum(1).argmin()) for p in phi]
            found = driver.tables["authors"][:, order] + 0.05
            runs.append(
                (
                    -driver.stats["loglik"][0],
                    np.abs(found / found.sum(1, keepdims=True) - theta).sum(1).mean(),
                )
            )
        apart.append(min(runs)[1])
    assert np.median(apart) < 0.25, apart  # two authors drawn at random lie about 1.1 apart
