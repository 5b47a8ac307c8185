"""``topics sweep --covariates``: formulas compared by the same held-out documents."""

from __future__ import annotations

import numpy as np
import pytest

import topicstream
from topicstream.addons.sweep.choosing import choose_setting
from topicstream.addons.sweep.formulas import formula_values
from topicstream.addons.sweep.judging import Run, Scores
from topicstream.addons.sweep.sweep import sweep
from topicstream.base.errors import InputError, UsageError


def run_of(formula):
    return Run(5, 0, "auto", (("covariates", formula),))


def judged(gains):
    """The choice among formulas whose documents score so many nats more than those of none."""
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 1 << 60, 400).astype(np.uint64)
    tokens = np.full(400, 20.0)
    base = -rng.normal(120.0, 15.0, 400)
    scores = {}
    rows = []
    for formula, (gain, noise) in gains.items():
        loglik = base + gain + rng.normal(0.0, noise, 400) if noise else base + gain
        run = run_of(formula)
        scores[run] = Scores(keys, loglik, tokens)
        rows.append({"topics": 5, "perplexity_choosing": scores[run].perplexity(tokens > 0)})
    return choose_setting(list(scores), scores, rows)


def test_none_is_among_the_formulas_and_first():
    assert formula_values("party") == {"covariates": ["none", "party"]}
    assert formula_values(["a", "none", "a"]) == {"covariates": ["none", "a"]}
    assert formula_values(None) == formula_values(()) == {}
    assert run_of("none").formula is None and run_of("a").formula == "a"
    assert len({run_of(f).name for f in ("none", "a", "b")}) == 3


def test_the_simplest_of_formulas_that_tie_is_taken():
    setting, _, why = judged({"none": (0, 0), "party": (0.05, 4.0), "party * date": (0.1, 4.0)})
    assert dict(setting[2])["covariates"] == "none" and "a tie with the lowest" in why
    setting, _, why = judged({"none": (0, 0), "party": (3.0, 4.0), "party * date": (3.05, 4.0)})
    assert dict(setting[2])["covariates"] == "party"
    assert "covariates party" in why


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formulas")
    rng = np.random.default_rng(2)
    rows = []
    for d in range(300):
        words = rng.choice([f"{'ab'[d % 2]}{i}" for i in range(30)], 12)
        rows.append({"id": str(d), "text": " ".join(words), "side": "lr"[d % 2]})
    topicstream.ingest(
        rows, out=folder / "c", meta={"side": "side"}, stopwords=(), min_df=1, heldout="20%"
    )
    return folder / "c"


@pytest.mark.slow
def test_a_formula_that_says_the_topic_wins_where_little_is_read(corpus, tmp_path):
    options = dict(topics=[2], seeds=1, algo="bp", passes=25)
    swept = sweep(corpus, tmp_path / "s", covariates="side", **options)
    none, side = swept["settings"]
    assert (none["covariates"], side["covariates"]) == ("none", "side")
    assert side["perplexity_0"] < 0.65 * none["perplexity_0"]
    assert side["perplexity_0"] == pytest.approx(30, rel=0.25)  # one of thirty words
    assert none["perplexity_0"] == pytest.approx(60, rel=0.25)
    assert {"perplexity_50", "perplexity_20"} <= set(swept.table().column_names)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (dict(covariates="nothing"), InputError, "no such column"),
        (dict(covariates="side +"), UsageError, "side"),
        (dict(covariates="side", algo="vb"), UsageError, "--algo vb has one alpha"),
    ],
)
def test_refusals_before_a_training(corpus, tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        sweep(corpus, tmp_path / "s", topics=[2], **options)
    assert not (tmp_path / "s" / "runs").exists()
