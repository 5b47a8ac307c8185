"""A sweep takes what held-out likelihood, stability and coherence mark together."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from topicstream.addons.sweep.choosing import choose_setting
from topicstream.addons.sweep.judging import Run, Scores


def chosen(
    table: dict[int, tuple[float, float, float | None]],
    algo: str = "a",
    seeds: int = 2,
    error=None,
    dead=(),
):
    """What is chosen of settings with these figures, and why; documents and seeds differ little."""
    rng = np.random.default_rng(0)
    keys = np.arange(400, dtype=np.uint64)
    tokens = np.full(400, 10.0)
    shared = rng.normal(0, 3, 400)
    runs = [Run(k, s, algo) for k in table for s in range(seeds)]
    scores = {}
    rows = []
    for run in runs:
        perplexity, npmi, stability = table[run.topics]
        noise = rng.normal(0, 0.05, 400)
        scores[run] = Scores(keys, shared + noise - 10 * math.log(perplexity), tokens)
        rows.append(
            {
                "topics": run.topics,
                "perplexity_choosing": perplexity,
                "npmi": npmi + 0.001 * run.seed,
                "stability": stability,
                "stability_se": error,
                "dead": dict(dead).get(run.topics, 0),
            }
        )
    _, row, why = choose_setting(runs, scores, rows)
    return row, why


def test_stability_and_coherence_together_overrule_likelihood():
    """Figures of a corpus with 60 planted topics, of which likelihood alone marked 80."""
    row, why = chosen(
        {
            45: (479.8, 0.180, 0.658),
            60: (430.4, 0.190, 0.826),
            80: (413.2, 0.168, 0.759),
            108: (422.9, 0.147, 0.640),
        }
    )
    assert row["topics"] == 60
    assert row["marks"] == {"perplexity": [80], "stability": [60], "npmi": [60]}
    assert "held-out perplexity 80, stability 60, NPMI 60" in why
    loss = re.search(r"60 is taken, (.*)% above the lowest perplexity", why)
    assert float(loss[1]) == pytest.approx(100 * (430.4 / 413.2 - 1), abs=0.2)


def test_one_measure_alone_overrules_nothing():
    row, why = chosen({20: (400.0, 0.30, 0.70), 30: (390.0, 0.20, 0.80), 40: (395.0, 0.1, 0.6)})
    assert row["topics"] == 30
    assert row["marks"] == {"perplexity": [30], "stability": [30], "npmi": [20]}
    assert "NPMI 20" in why and "30 is taken" in why and "above the lowest" not in why


def test_a_tie_of_stability_leaves_it_to_the_others():
    """Figures of a corpus with 14 planted topics, of which the middle of single marks was 18."""
    row, why = chosen(
        {
            13: (334.8, 0.207, 0.833),
            18: (325.4, 0.168, 0.8165),
            24: (330.0, 0.130, 0.707),
        },
        error=0.04,
    )
    assert row["topics"] == 13
    assert row["marks"] == {"perplexity": [18], "stability": [13, 18], "npmi": [13]}
    assert "held-out perplexity 18, stability 13 or 18, NPMI 13" in why


def test_topics_that_are_dead_flatter_no_measure():
    """Figures of 80 documents of 20 planted topics: of 26 six died, and the other 20 read well."""
    table = {
        19: (1780.0, 0.593, 0.860),
        26: (1710.0, 0.604, 0.862),
        34: (1715.0, 0.595, 0.681),
    }
    row, _ = chosen(table, error=0.02)
    assert row["topics"] == 26 and row["marks"]["stability"] == [19, 26]
    row, _ = chosen(table, error=0.02, dead={26: 6, 34: 8})
    assert row["topics"] == 19 and row["marks"] == {
        "perplexity": [26],
        "stability": [19],
        "npmi": [19],
    }
    # a twentieth may be dead; where all are worse, all are compared
    assert chosen({20: (400.0, 0.3, 0.7), 40: (390.0, 0.4, 0.8)}, dead={40: 2})[0]["topics"] == 40
    assert chosen({20: (400.0, 0.3, 0.7), 40: (390.0, 0.4, 0.8)}, dead={40: 3})[0]["topics"] == 20
    assert chosen(table, error=0.02, dead={19: 2, 26: 6, 34: 8})[0]["topics"] == 26


def test_it_says_where_perplexity_tells_nothing():
    table = {20: (400.0, 0.3, 0.7), 30: (400.1, 0.2, 0.8), 40: (400.0, 0.1, 0.6)}
    row, why = chosen(table)
    assert row["marks"]["perplexity"] == [20, 30, 40]
    assert "perplexity cannot tell any of them apart" in why
    assert "apart" not in chosen({**table, 60: (500.0, 0.1, 0.6)})[1]
    # two that tie are named as such
    assert "apart" not in chosen({20: (400.0, 0.3, 0.7), 30: (400.0, 0.2, 0.8)})[1]


def test_the_middle_of_three_different_marks_is_taken():
    row, _ = chosen({20: (404.0, 0.3, 0.7), 30: (400.0, 0.2, 0.9), 40: (390.0, 0.1, 0.6)})
    assert row["topics"] == 30


def test_far_too_few_topics_are_marked_by_none():
    """Five topics are the most stable and coherent ones, and predict a tenth worse."""
    row, why = chosen({5: (440.0, 0.5, 0.99), 30: (400.0, 0.2, 0.6), 40: (402.0, 0.1, 0.5)})
    assert row["topics"] == 30 and "disagree" not in why
    assert all(30 in marked and 5 not in marked for marked in row["marks"].values())


def test_of_one_seed_likelihood_decides():
    """Stability is not known, and NPMI alone overrules nothing."""
    row, why = chosen({30: (404.0, 0.5, None), 40: (400.0, 0.1, None)}, seeds=1)
    assert row["topics"] == 40
    assert row["marks"]["perplexity"] == [40] and "stability" not in row["marks"]
    assert "NPMI 30" in why and "40 is taken" in why


def test_a_tie_far_above_the_lowest_perplexity_is_marked():
    """Of few documents two standard errors may be more than the 5 % that a measure may cost."""
    keys = np.arange(40, dtype=np.uint64)
    tokens = np.full(40, 10.0)
    apart = np.random.default_rng(1).normal(0, 30, 40)
    runs = [Run(k, s, "a") for k in (4, 8) for s in (0, 1)]
    scores = {}
    rows = []
    for run in runs:
        nats = 10 * math.log(600 if run.topics == 4 else 500)
        scores[run] = Scores(keys, apart * (run.topics == 4) - nats, tokens)
        figures = {"npmi": 0.1 + 0.1 * (run.topics == 8) + 0.001 * run.seed, "dead": 0}
        rows.append({"topics": run.topics, "perplexity_choosing": math.exp(nats / 10), **figures})
    _, row, _ = choose_setting(runs, scores, rows)
    assert row["marks"] == {"perplexity": [4, 8], "npmi": [8]}
    assert row["topics"] == 4
