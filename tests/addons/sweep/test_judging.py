"""Figures of a sweep by hand: errors, ties, agreement of seeds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from topicstream.addons.sweep.choosing import choose_setting
from topicstream.addons.sweep.judging import (
    Estimate,
    HalfScores,
    Run,
    Scores,
    average_seeds,
    judge_settings,
    mark_ties,
)
from topicstream.addons.sweep.marks import take_setting
from topicstream.addons.sweep.stability import (
    SeedAgreement,
    measure_agreement,
    topic_rows,
    write_consensus,
)
from topicstream.addons.sweep.sweep import learned_share
from topicstream.model.topic_model import TopicModel

A = ("a", 10, ())
B = ("a", 20, ())


def halves(loglik, tokens=(10.0, 20.0)):
    """Scores on documents that all choose; loglik: by setting, of each seed and document."""
    keys = np.zeros(len(tokens), np.uint64)
    runs = [Run(s[1], seed, s[0]) for s in loglik for seed in range(len(loglik[s]))]
    scores = {r: Scores(keys, np.array(loglik[r.setting][r.seed]), np.array(tokens)) for r in runs}
    return HalfScores(runs, scores, scores[runs[0]].choosing)


def test_nats_and_errors_of_two_documents():
    found = halves({A: [[-30.0, -50.0], [-20.0, -60.0]], B: [[-30.0, -60.0], [-30.0, -60.0]]})
    assert found.total == 30.0
    assert found.nats(A) == pytest.approx((25 + 55) / 30)
    assert found.nats(B) == pytest.approx(90 / 30)
    # of one setting: logarithms beside what its nats a token would give
    rate = 80 / 30
    rows = np.array([-25 + rate * 10, -55 + rate * 20])
    documents = np.var(rows, ddof=1) * 2 / 30**2
    # seeds: means -40 / 30 and -40 / 30 do not differ, so all is document by seed
    assert found.error(A) == pytest.approx(np.sqrt(documents))
    # of a difference: -25 + 30 and -55 + 60
    assert found.error(A, B) == pytest.approx(0.0, abs=1e-12)
    one = halves({A: [[-30.0, -50.0]], B: [[-33.0, -52.0]]})
    assert one.error(A, B) == pytest.approx(np.sqrt(np.var([3.0, 2.0], ddof=1) * 2) / 30)
    single = halves({A: [[-30.0]]}, tokens=(10.0,))
    assert single.error(A) == 0.0
    assert halves({A: [[-30.0], [-33.0]]}, tokens=(10.0,)).error(A) == 0.0
    estimate = found.perplexity(A, True)
    assert estimate.value == pytest.approx(np.exp(80 / 30)) and estimate.tie
    assert estimate.error == pytest.approx(np.exp(80 / 30) * found.error(A))


def test_seeds_that_differ_by_as_much_on_every_document_are_an_error():
    """Two seeds, of which one is 3 nats better on each of two documents."""
    found = halves({A: [[-30.0, -50.0], [-33.0, -53.0]]})
    seeds = np.var([80 / 30, 86 / 30], ddof=1) / 2
    rate = 83 / 30
    rows = np.array([-31.5 + rate * 10, -51.5 + rate * 20])
    documents = np.var(rows, ddof=1) * 2 / 30**2
    assert found.error(A) == pytest.approx(np.sqrt(documents + seeds))


def test_a_tie_is_two_standard_errors_inclusive():
    """Differences 0 and 2 nats of two documents: a mean of 1 with a standard error of 1."""
    lower = np.array([-30.0, -50.0])
    for apart, ties in (([0.0, 2.0], True), ([1.0, 3.0], True), ([2.0, 4.0], False)):
        found = halves({A: [list(lower)], B: [list(lower - apart)]})
        best, near = found.find_ties()
        assert best == A and (B in near) == ties, apart
    equal = halves({B: [list(lower)], A: [list(lower)]})
    assert equal.find_ties()[0] == A  # fewer topics first
    assert mark_ties({A: Estimate(1.0, 0.3), B: Estimate(2.0, 0.4)})[A].tie  # 1 = 2 x 0.5
    assert not mark_ties({A: Estimate(0.99, 0.3), B: Estimate(2.0, 0.4)})[A].tie
    assert not mark_ties({A: Estimate(1.0), B: Estimate(2.0)})[A].tie


def test_halves_are_the_last_bit_of_the_keys():
    scores = Scores(
        np.array([2, 3, 4], np.uint64), np.array([-10.0, -7.0, -30.0]), np.array([5.0, 7.0, 10.0])
    )
    assert scores.choosing.tolist() == [True, False, True]
    assert scores.perplexity(scores.choosing) == pytest.approx(np.exp(40 / 15))
    assert scores.perplexity(~scores.choosing) == pytest.approx(np.e)


def test_figures_come_from_the_half_that_did_not_choose():
    keys = np.array([0, 0, 1, 1], np.uint64)
    tokens = np.full(4, 10.0)
    runs = [Run(10, 0, "a"), Run(10, 1, "a"), Run(20, 0, "a")]
    loglik = {runs[0]: [-9.0, -9, -20, -22], runs[1]: [-9.0, -9, -20, -22]}
    loglik[runs[2]] = [-30.0, -30, -10, -10]
    scores = {run: Scores(keys, np.array(values, float), tokens) for run, values in loglik.items()}
    rows = [
        {"npmi": 0.1, "stability": 0.7, "stability_se": 0.05},
        {"npmi": 0.3, "stability": 0.7, "stability_se": 0.05},
        {"npmi": 0.9, "npmi_se": 0.02, "stability": None},
    ]
    found = judge_settings(runs, scores, rows)
    assert found[A]["perplexity"].value == pytest.approx(np.exp(42 / 20))
    assert found[A]["perplexity"].tie and not found[B]["perplexity"].tie
    assert found[A]["npmi"] == Estimate(
        pytest.approx(0.2), pytest.approx(np.std([0.1, 0.3], ddof=1) / np.sqrt(2)), False
    )
    assert found[B]["npmi"] == Estimate(0.9, 0.02, True)
    assert found[A]["stability"] == Estimate(0.7, 0.05, True)
    assert "stability" not in found[B] and "diversity" not in found[A]
    rows = [{"perplexity_choosing": np.exp(v), **r} for v, r in zip((0.9, 0.9, 3.0), rows)]
    taken, chosen, why = choose_setting(runs, scores, rows)
    assert taken == A and chosen["perplexity_choosing"] == np.exp(0.9)
    assert chosen["perplexity_reported_mean"] == pytest.approx(np.exp(42 / 20))
    assert "on the other half 8.2 ± " in why and "20 tokens scored" in why


def test_what_most_measures_mark_is_taken():
    ten, twenty, forty = [("a", k, ()) for k in (10, 20, 40)]
    three = {"perplexity": [forty], "stability": [ten], "npmi": [twenty]}
    assert take_setting(three) == twenty
    assert take_setting(three | {"stability": [ten, forty]}) == forty
    assert take_setting(three | {"stability": [twenty, forty]}) == twenty
    assert take_setting({"perplexity": [twenty, forty], "npmi": [ten]}) == twenty


def test_fewer_topics_within_an_error_are_taken():
    rng = np.random.default_rng(0)
    keys = np.arange(400, dtype=np.uint64)
    tokens = np.full(400, 10.0)
    runs = [Run(k, s, "a") for k in (10, 20, 40) for s in (0, 1)]
    level = {10: -71.0, 20: -70.02, 40: -70.0}
    noise = rng.normal(size=400)

    def own() -> np.ndarray:
        drawn = rng.normal(scale=0.6, size=400)
        return drawn - drawn[::2].mean()  # the first half's means are exactly the levels

    scores = {r: Scores(keys, level[r.topics] + noise + own(), tokens) for r in runs}
    rows = [{"perplexity_choosing": float(i)} for i in range(6)]
    _, chosen, why = choose_setting(runs, scores, rows)
    assert (
        chosen["perplexity_choosing"] == 2.0
        and why.startswith("20 topics")
        and "standard error" in why
    )


def test_agreement_by_hand():
    between = np.array([[1, 0.8, 0.6], [0.8, 1, 0.7], [0.6, 0.7, 1.0]])
    likeness = np.array([[0.9, 0.7], [1, 1], [0.5, 0.9]])
    found = SeedAgreement(between, 1, np.zeros((3, 2), np.int64), likeness)
    assert found.mean == pytest.approx(0.7)
    without = np.array([0.7, 0.6, 0.8])  # the pair that is left without each
    assert found.error == pytest.approx(np.sqrt(2 / 3 * ((without - 0.7) ** 2).sum()))
    mean, low, high = found.by_topic()
    half = 12.706 * np.std([0.9, 0.5], ddof=1) / np.sqrt(2)
    np.testing.assert_allclose(
        (mean, low, high), ([0.7, 0.8], [0, 0], [min(1, 0.7 + half), 1]), atol=1e-3
    )


def test_errors_are_those_of_many_drawings():
    """Documents, seeds and what differs by both vary; the standard errors say how much figures and
    differences do.
    """
    rng = np.random.default_rng(1)
    n = 80
    seeds = 4
    keys = np.arange(2 * n, dtype=np.uint64)
    tokens = np.full(2 * n, 10.0)
    runs = [Run(k, s, "a") for k in (10, 20) for s in range(seeds)]
    ten = ("a", 10, ())
    twenty = ("a", 20, ())
    found = []
    for _ in range(400):
        shared = rng.normal(-70, 5, 2 * n)
        own = {k: rng.normal(0, 1.0, 2 * n) for k in (10, 20)}
        scores = {
            r: Scores(
                keys,
                shared + own[r.topics] + rng.normal(0, 0.3) + rng.normal(0, 2.0, 2 * n),
                tokens,
            )
            for r in runs
        }
        d = HalfScores(runs, scores, scores[runs[0]].choosing)
        estimate = d.perplexity(ten, True)
        found.append(
            (d.nats(ten) - d.nats(twenty), d.error(ten, twenty), estimate.value, estimate.error)
        )
    difference, error, value, own_error = np.array(found).T
    assert np.sqrt(np.mean(error**2)) == pytest.approx(difference.std(), rel=0.15)
    assert np.sqrt(np.mean(own_error**2)) == pytest.approx(value.std(), rel=0.15)


def test_ties():
    rng = np.random.default_rng(1)
    tokens = np.full(800, 10.0)
    keys = np.arange(800, dtype=np.uint64)
    base = rng.normal(-70, 5, 800)
    runs = [Run(k, s, "a") for k in (10, 20, 40) for s in range(5)]
    level = {10: -0.5, 20: -0.02, 40: 0.0}
    scores = {
        r: Scores(keys, base + level[r.topics] + rng.normal(0, 1.0, 800), tokens) for r in runs
    }
    _, near = HalfScores(runs, scores, scores[runs[0]].choosing).find_ties()
    assert {s[1] for s in near} == {20, 40}
    assert average_seeds([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(1 / np.sqrt(3)))
    told = mark_ties(
        {
            ("a", 1, ()): Estimate(1.0, 0.1),
            ("a", 2, ()): Estimate(1.25, 0.1),
            ("a", 3, ()): Estimate(0.5, 0.1),
        }
    )
    assert [e.tie for e in told.values()] == [True, True, False]


def test_seeds_are_matched_and_averaged(tmp_path):
    """Three models of three topics; the second is the first permuted, with one topic of its own."""
    names = [f"w{i}" for i in range(6)]
    first = np.array([[8, 2, 0, 0, 0, 0], [0, 0, 8, 2, 0, 0], [0, 0, 0, 0, 8, 2.0]]).T
    second = np.array([[0, 0, 0, 0, 7, 3], [8, 2, 0, 0, 0, 0], [6, 0, 0, 2, 2, 0.0]]).T
    third = np.array([[0, 0, 8, 2, 0, 0], [7, 3, 0, 0, 0, 0], [0, 0, 0, 0, 8, 2.0]]).T
    paths = []
    for number, phi in enumerate((second, first, third)):
        paths.append(tmp_path / f"m{number}")
        TopicModel.from_arrays(phi, names, 0.1, 0.0).save(paths[-1])
    found = measure_agreement(paths, None)
    # likeness to the first: 0.9, 1 and 0.2 (of one topic's 0.2 in common); 0.9, 1 and 1
    assert found.between[0, 1] == pytest.approx((0.9 + 1 + 0.2) / 3, abs=1e-6)
    assert found.between[1, 2] == pytest.approx((0.9 + 1 + 1) / 3, abs=1e-6)
    assert found.between[0, 2] == pytest.approx((0.9 + 0.9 + 0.2) / 3, abs=1e-6)
    assert found.central == 1
    assert found.matches.tolist() == [[1, 2, 0], [0, 1, 2], [1, 0, 2]]
    expected = [[1, 0.2, 0.9], [1, 1, 1], [0.9, 1, 1]]
    np.testing.assert_allclose(found.likeness, expected, atol=1e-6)
    seeds = write_consensus(paths, found, tmp_path / "consensus")
    assert seeds.tolist() == [3, 2, 3]
    model = TopicModel.open(tmp_path / "consensus")
    means = [
        (second[:, 1] + first[:, 0] + third[:, 1]) / 3,
        (first[:, 1] + third[:, 0]) / 2,
        (second[:, 0] + first[:, 2] + third[:, 2]) / 3,
    ]
    np.testing.assert_allclose(model.rows(np.arange(6))[:, :3], np.array(means).T, rtol=1e-6)


def test_intervals_of_topics_are_students():
    """Likeness 0.8, 0.7 and 0.9 to the central model: a mean of 0.8, an error of 0.1 / sqrt 3."""
    likeness = np.array([[1.0, 1.0], [0.8, 0.5], [0.7, 0.5], [0.9, 0.5]])
    found = SeedAgreement(np.eye(4), 0, np.zeros((4, 2), np.int64), likeness)
    mean, low, high = found.by_topic()
    half = scipy.stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert mean == pytest.approx([0.8, 0.5]) and low == pytest.approx([0.8 - half, 0.5])
    assert high == pytest.approx([1.0, 0.5])  # 1.05 is cut


def test_the_table_of_a_consensus_has_no_interval_of_two_seeds():
    model = TopicModel.from_arrays(np.array([[9.0, 1], [1, 4]]), ["a", "b"], 0.1, 0.0)
    likeness = np.array([[1.0, 1.0], [0.75, 0.5]])
    found = SeedAgreement(np.eye(2), 0, np.zeros((2, 2), np.int64), likeness)
    rows = topic_rows(model, found, np.array([2, 1])).to_pylist()
    assert [row["stability"] for row in rows] == [0.75, 0.5]
    assert [(row["low"], row["high"]) for row in rows] == [(None, None)] * 2
    assert [row["words"] for row in rows] == ["a b", "b a"] and rows[0]["seeds"] == 2
    assert [row["share"] for row in rows] == pytest.approx([2 / 3, 1 / 3])


def test_half_of_the_probability_in_common_is_the_same_topic(tmp_path):
    names = ["a", "b", "c"]
    tables = ([[1.0], [1.0], [0.0]], [[1.0], [0.0], [1.0]])
    paths = [tmp_path / "one", tmp_path / "two"]
    for path, phi in zip(paths, tables, strict=True):
        TopicModel.from_arrays(np.array(phi), names, 0.1, 0.0).save(path)
    found = measure_agreement(paths, None)
    assert found.mean == 0.5 and found.error is None
    assert write_consensus(paths, found, tmp_path / "both").tolist() == [2]
    low, high = found.by_topic()[1:]
    assert np.isnan(low).all() and np.isnan(high).all()


@pytest.mark.parametrize(
    ("training", "heldout", "share"),
    [
        (1_000_000, 0, 0.9),  # 100,000 tokens, of which a fifth is scored
        (1_000_000, 60_000, 0.96),
        (1_000_000, 99_000, 0.999),
        (10_000_000, 99_000, 0.999),  # the default of 1 %, about: a share of 1 leaves nothing
        (1_000_000, 100_000, None),
        (400_000, 0, 0.8),  # a fifth at most
        (0, 0, 0.8),
    ],
)
def test_as_many_documents_are_set_aside_as_judge_with_20_000_tokens(training, heldout, share):
    tokens = {True: SimpleNamespace(tokens=heldout), False: SimpleNamespace(tokens=training)}
    rule = SimpleNamespace(where=None, by=None)
    store = SimpleNamespace(
        manifest=SimpleNamespace(heldout=rule),
        width=0,
        part=lambda heldout=False: tokens[heldout],
    )
    runs = [Run(10, 0, "auto"), Run(10, 0, "atbp")]
    assert learned_share(store, runs) == share
    rule.by = "author"
    assert learned_share(store, runs) is None
