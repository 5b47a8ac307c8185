"""bp, sibp and cvb0 against their dense twins, and the identities the exclusion must satisfy."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from tests.message_driver import Driver, dense_block, planted, shape_of
from tests.reference import bp as twin
from topicstream.engines.base import Rule, padded
from topicstream.engines.message import messages
from topicstream.engines.message.bp import (
    BeliefPropagation,
    SimplifiedBeliefPropagation,
    ZeroOrderCollapsedVariational,
)
from topicstream.engines.message.priors import expected_rise, without_first_tokens
from topicstream.numeric.kernels.dirichlet import Histogram, fit_beta

ENGINES = {
    "cell": BeliefPropagation,
    "token": ZeroOrderCollapsedVariational,
    "nothing": SimplifiedBeliefPropagation,
}
K = 5


def corpus(seed=3, docs=9, words=14):
    rng = np.random.default_rng(seed)
    x = rng.poisson(0.8, (docs, words))
    x[:, 0] += 1  # no empty document, one word everywhere
    x[4] = 0  # but one that is empty all the same
    return x


def engine_of(kind, blocks, words, topics=K, **options):
    cls = ENGINES[kind]
    options = {"alpha": 0.3, "beta": 0.02, **options}
    return cls(shape_of(blocks, words, topics), cls.Options(**options))


def random_messages(x, topics=K, seed=0):
    mu = np.random.default_rng(seed).dirichlet(np.ones(topics), x.shape)
    return mu.astype(np.float32).astype(np.float64) * (x > 0)[:, :, None]


def driver_at(kind, x, mu, cuts=(), **options):
    """A driver whose messages are mu, over blocks of rows cut at ``cuts``."""
    edges = [0, *cuts, len(x)]
    parts = list(itertools.pairwise(edges))
    blocks = [dense_block(x[a:b], i, a) for i, (a, b) in enumerate(parts)]
    memories = [
        {"messages": mu[a:b][x[a:b] > 0].astype(np.float32).reshape(len(x[a:b][x[a:b] > 0]), -1)}
        for a, b in parts
    ]
    engine = engine_of(kind, blocks, x.shape[1], mu.shape[2], **options)
    driver = Driver(engine, blocks, memories)
    driver.phi[:, : mu.shape[2]] = twin.sums(x, mu)[1]
    return driver


def stored(driver):
    return np.concatenate(
        [m["messages"].reshape(-1, driver.engine.shape.topics) for m in driver.memory]
    )


@pytest.mark.parametrize("kind", ENGINES)
def test_async_is_the_twin_in_the_papers_order(kind):
    x = corpus()
    mu = random_messages(x)
    driver = driver_at(kind, x, mu)
    assert driver.engine.tables["phi"].rule is Rule.ADD
    for _ in range(3):
        driver.sweep()
        mu = twin.asynchronous(x, mu, 0.3, 0.02, kind)
    np.testing.assert_allclose(stored(driver), mu[x > 0], atol=3e-6)
    np.testing.assert_allclose(driver.phi[:, :K], twin.sums(x, mu)[1], atol=3e-5)
    assert np.all(driver.phi[:, K:] == 0)


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("cuts", [(), (3, 4, 7)])
def test_sync_is_the_twin_however_blocks_are_cut(kind, cuts):
    x = corpus()
    mu = random_messages(x)
    driver = driver_at(kind, x, mu, cuts, schedule="sync")
    assert driver.engine.tables["phi"].rule is Rule.REPLACE
    for _ in range(3):
        driver.sweep()
        mu = twin.synchronous(x, mu, 0.3, 0.02, kind)
    np.testing.assert_allclose(stored(driver), mu[x > 0], atol=3e-6)
    np.testing.assert_allclose(driver.phi[:, :K], twin.sums(x, mu)[1], atol=3e-5)


def test_sibp_sync_is_the_papers_listing():
    x = corpus(seed=8)
    mu = random_messages(x)
    driver = driver_at("nothing", x, mu, (5,), schedule="sync")
    driver.sweep(4)
    np.testing.assert_allclose(stored(driver), twin.figure4(x, mu, 0.3, 0.02, 4)[x > 0], atol=5e-6)


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("kind", ["cell", "token"])
def test_a_cell_alone_learns_nothing_from_itself(kind, schedule):
    """One document with one word seen once: without its own message nothing is left but the
    priors.
    """
    x = np.array([[1, 0, 0]])
    mu = random_messages(x, seed=5)
    driver = driver_at(kind, x, mu, schedule=schedule)
    driver.sweep()
    np.testing.assert_allclose(stored(driver), np.full((1, K), 1 / K), atol=1e-6)


@pytest.mark.parametrize("kind", ["cell", "token", "nothing"])
def test_a_repeated_word_alone_tells_the_three_apart(kind):
    """One word seen five times: bp leaves out all five, cvb0 one of them, sibp none."""
    x = np.array([[5]])
    mu = random_messages(x, seed=6)
    driver = driver_at(kind, x, mu)
    driver.sweep()
    own = {"cell": 5.0, "token": 1.0, "nothing": 0.0}[kind] * mu[0, 0]
    want = twin.message(5 * mu[0, 0], 5 * mu[0, 0], 5 * mu[0, 0], own, 0.3, 0.02, 1)
    np.testing.assert_allclose(stored(driver)[0], want, atol=1e-6)


@pytest.mark.parametrize("kind", ENGINES)
def test_mass_is_kept_and_the_table_is_the_sum_of_the_messages(kind):
    x, _ = planted(60, 50, 4, 80, 1)
    blocks = [dense_block(x[:25], 0, 0), dense_block(x[25:], 1, 25)]
    driver = Driver(engine_of(kind, blocks, 50), blocks).start(seed=3)
    driver.sweep(20)
    np.testing.assert_allclose(driver.phi.sum(1), x.sum(0), rtol=2e-5)
    total = np.zeros((50, K))
    for block, memory in zip(blocks, driver.memory):
        np.add.at(total, block.vocab[block.words], block.counts[:, None] * memory["messages"])
    np.testing.assert_allclose(driver.phi[:, :K], total, atol=2e-3)
    assert np.all(driver.phi > -1e-3)


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("kind", ENGINES)
def test_planted_topics_are_found(kind, schedule):
    x, phi = planted(300, 60, 4, 60, 2)
    blocks = [dense_block(x[:150], 0, 0), dense_block(x[150:], 1, 150)]
    engine = engine_of(kind, blocks, 60, 4, alpha=0.1, schedule=schedule)
    driver = Driver(engine, blocks)
    seeds = x[[int(np.argmax(x @ p)) for p in phi]].T + 0.1
    first = driver.start(seeds).sweep()
    last = driver.sweep(25)
    found = (driver.phi[:, :4] + 0.02) / (driver.phi[:, :4] + 0.02).sum(0)
    match = (phi / np.linalg.norm(phi, axis=1)[:, None]) @ (found / np.linalg.norm(found, axis=0))
    assert last < first and match.max(1).min() > 0.95


def test_start_from_seeds_leans_to_the_seed_that_has_the_word():
    x = np.array([[3, 0, 1], [0, 4, 1]])
    blocks = [dense_block(x)]
    driver = Driver(engine_of("cell", blocks, 3, 2), blocks).start(
        np.array([[5.0, 0.1], [0.1, 5.0], [1.0, 1.0]])
    )
    mu = stored(driver)
    assert mu[0, 0] > 0.9 and mu[2, 1] > 0.9 and mu[1, 0] > 0.6 and mu[3, 1] > 0.6
    np.testing.assert_allclose(driver.phi.sum(1), x.sum(0), rtol=1e-6)


def test_one_topic_and_a_corpus_of_weights():
    x = corpus().astype(np.float64) * 0.37
    blocks = [dense_block(x)]
    driver = Driver(engine_of("cell", blocks, x.shape[1], 1), blocks).start()
    driver.sweep(2)
    np.testing.assert_allclose(driver.phi[:, 0], x.sum(0), rtol=1e-6)
    assert ENGINES["token"].about.real_cells is False


def test_random_start_depends_on_seed_and_document_alone():
    x = corpus()
    whole = [dense_block(x)]
    parts = [dense_block(x[:5], 0, 0), dense_block(x[5:], 1, 5)]
    a = Driver(engine_of("cell", whole, 14), whole).start(seed=1)
    b = Driver(engine_of("cell", parts, 14), parts).start(seed=1)
    c = Driver(engine_of("cell", whole, 14), whole).start(seed=2)
    np.testing.assert_array_equal(stored(a), stored(b))
    assert np.any(stored(a) != stored(c))


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_learned_priors_move_and_stay_in_reach(schedule):
    x, _ = planted(300, 120, 5, 60, 3)
    blocks = [dense_block(x)]
    engine = engine_of(
        "cell", blocks, 120, 8, alpha=0.2, beta=0.05, learn_priors=True, schedule=schedule
    )
    driver = Driver(engine, blocks).start(seed=1)
    driver.sweep(12)
    alpha = driver.params["alpha"]
    beta = driver.params["beta"][0]
    assert np.all((alpha >= 0.02) & (alpha <= 2.0)) and alpha.std() > 0
    assert 0.005 <= beta <= 0.5 and beta != 0.05


def test_learned_priors_do_not_take_means_for_counts():
    """Ten topics planted with an alpha of 0.1 each, forty learned: means put where counts belong
    gave a sum of 11, and 0.49 for beta.
    """
    x, _ = planted(600, 400, 10, 60, 3)
    blocks = [dense_block(x)]
    driver = Driver(
        engine_of("cell", blocks, 400, 40, alpha=0.1, beta=0.05, learn_priors=True), blocks
    ).start(seed=1)
    driver.sweep(30)
    assert 0.5 < driver.params["alpha"].sum() < 3.0
    assert 0.01 < driver.params["beta"][0] < 0.1


def test_the_rise_of_a_mean_is_that_of_the_whole_numbers_beside_it():
    from topicstream.engines.message.priors import expected_rise, psi

    whole = np.arange(1.0, 9.0)
    prior = np.array([[0.01], [0.5], [3.0]])
    rise = psi(whole + prior) - psi(prior)
    np.testing.assert_allclose(expected_rise(whole, prior), rise, rtol=1e-12)
    np.testing.assert_allclose(
        expected_rise(whole[:-1] + 0.25, prior), 0.75 * rise[:, :-1] + 0.25 * rise[:, 1:], rtol=1e-6
    )
    np.testing.assert_allclose(expected_rise(np.array([0.2]), prior), 0.2 / prior, rtol=1e-9)


def test_beta_of_seen_words_is_the_most_likely_without_a_token_of_each():
    """By every value of a fine grid: beta draws all tokens of the rows but one of each word."""
    rng = np.random.default_rng(4)
    phi = rng.dirichlet(np.full(500, 0.05), 4)
    n = np.array([rng.multinomial(600, p) for p in phi]).T.astype(np.float64)
    n = n[n.sum(1) > 0]
    words = len(n)
    values, times = np.unique(n[n > 0], return_counts=True)
    rise = without_first_tokens(words / times.sum())
    rows = Histogram(times.astype(np.float64), values)
    beta = 0.1
    for _ in range(20):
        beta = fit_beta(beta, rows, 1.0, n.sum(0), words, rise, 1e-4, 10.0)

    def log_likelihood(b):
        rising = gammaln(n + b) - gammaln(b)
        mass = gammaln(n.sum(0) + words * b) - gammaln(words * b)
        return rising.sum() - words * np.log(b) - mass.sum()

    grid = np.geomspace(0.005, 0.5, 2000)
    best = grid[np.argmax([log_likelihood(b) for b in grid])]
    assert beta == pytest.approx(best, rel=0.01)
    usual = fit_beta(0.1, rows, 1.0, n.sum(0), words, expected_rise, 1e-4, 10.0)
    assert beta < 0.8 * usual


def test_the_model_has_the_beta_of_seen_words():
    x, _ = planted(60, 120, 5, 20, 3)
    blocks = [dense_block(x)]
    driver = Driver(engine_of("cell", blocks, 120, 8, learn_priors=True), blocks).start(seed=1)
    engine = driver.engine
    began = driver.params["beta"][0]
    assert engine.model_beta(driver.params) == began
    driver.sweep(12)
    trained = driver.params["beta"][0]
    assert began != trained
    assert engine.model_beta(driver.params) < 0.95 * trained
    fixed = engine_of("cell", blocks, 120, 8, learn_priors=False, beta=0.05)
    assert fixed.model_beta(fixed.initial_params()) == 0.05


@pytest.mark.parametrize("topics", [5, 16, 20, 40, 100])
def test_where_arrays_lie_does_not_touch_the_bits_nor_what_lies_beside_them(topics):
    """Rows of messages end within a vector of 16 topics."""
    x, _ = planted(30, 20, 3, 12, 3)
    block = dense_block(x)
    engine = engine_of("cell", [block], 20, topics, alpha=0.1, beta=0.05)
    width = padded(topics)
    rng = np.random.default_rng(topics)
    cells = block.cells
    mu = rng.random((len(cells.words), topics), np.float32)
    mu /= mu.sum(axis=1, keepdims=True)
    base = np.zeros((block.n_words, width), np.float32)
    np.add.at(base[:, :topics], cells.words, cells.counts[:, None] * mu)
    rows = messages.Topics(base, np.arange(len(base)), base.sum(axis=0, dtype=np.float64))
    alpha = np.zeros((1, width), np.float32)
    alpha[0, :topics] = 0.1
    shared = np.zeros(block.n_docs, np.int32)
    priors = messages.Priors(alpha, shared, np.float32(0.05), np.float32(1.0))
    rule = messages.Rule(engine.exclude, True)
    results = set()
    for gap in (0, 4, 12, 16, 48, 500):
        space = np.full(2 * mu.size + gap + 40, np.float32(-1))
        old = space[20 : 20 + mu.size].reshape(mu.shape)
        new = space[20 + mu.size + gap :][: mu.size].reshape(mu.shape)
        old[:] = mu
        delta = np.zeros_like(base)
        thetas = np.zeros((block.n_docs, width), np.float32)
        loglik = messages.visit(
            cells, rows, priors, rule, messages.Messages(old, new), delta, thetas, None
        )
        assert (space[:20] == -1).all() and (space[20 + 2 * mu.size + gap :] == -1).all()
        assert (space[20 + mu.size :][:gap] == -1).all() and (old == mu).all()
        assert new.min() >= 0 and new.sum(axis=1) == pytest.approx(1, abs=1e-5)
        assert (delta[:, topics:] == 0).all() and (thetas[:, topics:] == 0).all()
        results.add((loglik, new.tobytes(), delta.tobytes(), thetas.tobytes()))
    assert len(results) == 1
