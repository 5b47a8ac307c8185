"""``topics show --covariates``: shares that the prior expects."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import topicstream
from topicstream.addons.covariates.intervals import Sums, choose_draws, solve_errors
from topicstream.addons.covariates.view import (
    choose_points,
    choose_tick_kind,
    explain_missing_star,
    predicted_rows,
    read_values,
)
from topicstream.base.errors import InputError, UsageError
from topicstream.base.progress import Shown
from topicstream.cli.main import run as run_command
from topicstream.model.covariate_entries import CovariateEntry, CovariatesEntry
from topicstream.model.design import decode_covariate, decode_design
from topicstream.model.formula import Factor
from topicstream.model.topic_model import TopicModel

WORDS = {"red": "apple cherry berry grape", "blue": "river lake ocean cloud"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    rng = np.random.default_rng(0)
    listed = []
    for d in range(240):
        party = ("red", "blue")[d % 2]
        year = 1990 + d % 20
        words = rng.choice(WORDS[party].split(), 6).tolist() + ["late"] * (year > 2000)
        document = {"id": f"d{d}", "text": " ".join(words), "date": str(year)}
        listed.append(document | ({} if d % 12 == 0 else {"party": party}))
    store = folder / "corpus.zarr"
    meta = {"party": "party", "date": "date"}
    topicstream.ingest(listed, out=store, meta=meta, min_df=1, progress=False)
    given = {"topics": 2, "passes": 20, "algo": "bp", "progress": False}
    topicstream.train(store, folder / "with", covariates="party * date", **given)
    topicstream.train(store, folder / "without", **given)
    return folder


def test_shares_are_those_of_the_prior(models):
    rows = topicstream.show(models / "with", covariates=True)
    model = TopicModel.open(models / "with")
    names = decode_design(model.manifest.covariates).names
    party = {row["value"]: row for row in rows if row["variable"] == "party" and row["topic"] == 0}
    x = np.zeros((2, len(names)))
    x[:, 0] = 1.0
    other = next(name for name in names if name in ("party=red", "party=blue"))
    x[1, names.index(other)] = 1.0  # the date is at its mean, so it and the product are 0
    alpha = np.exp(x @ model.coefficients)
    shares = (alpha / alpha.sum(1, keepdims=True))[:, 0]
    level = other.removeprefix("party=")
    reference = ({"red", "blue"} - {level}).pop()
    assert party[reference]["share"] == pytest.approx(shares[0])
    assert party[level]["share"] == pytest.approx(shares[1])
    assert abs(shares[0] - shares[1]) > 0.2
    documents = model.manifest.covariates.columns[0].documents
    assert [party[name]["documents"] for name in (reference, level)] == documents[:2]
    sums = {}
    for row in rows:
        key = row["variable"], row["value"]
        sums[key] = sums.get(key, 0.0) + row["share"]
    assert all(total == pytest.approx(1.0) for total in sums.values())


def test_rows_are_those_of_documents(models):
    design = decode_design(TopicModel.open(models / "with").manifest.covariates)
    covariate = next(c for c in design.covariates.values() if c.column == "date")
    rows = predicted_rows(design, covariate, [("low", covariate.low), ("mean", covariate.mean)])
    assert rows.shape == (2, len(design.names))
    assert rows[1].tolist() == [1.0] + [0.0] * (len(design.names) - 1)


def test_intervals_hold_the_share_and_stars_need_ten_documents(models):
    given = {"corpus": models / "corpus.zarr", "covariates": True, "progress": False}
    rows = topicstream.show(models / "with", **given)
    assert all(row["low"] < row["share"] < row["high"] for row in rows)
    assert rows == topicstream.show(models / "with", threads=1, **given)
    of_party = [row for row in rows if row["variable"] == "party" and row["topic"] == 0]
    assert [row["differs"] for row in of_party] == [False, True]  # the first is the reference
    model = TopicModel.open(models / "with")
    party = decode_design(model.manifest.covariates).covariates[Factor("party")]
    party.counts[party.levels[1]] = 9
    few = f"too few documents: 9 (party={party.levels[1]})"
    assert explain_missing_star(party, party.levels[1]) == few
    assert explain_missing_star(party, party.levels[0]) is None
    party.counts[party.levels[0]] = 3  # nothing is compared with a reference of few
    assert explain_missing_star(party, party.levels[0]).startswith("too few documents: 3")


def test_lines_have_intervals(models, capsys):
    arguments = ["show", "--covariates", "--model", str(models / "with")]
    assert not run_command([*arguments, "--corpus", str(models / "corpus.zarr")])
    told = capsys.readouterr().out
    assert "given these topics" in told and "too equal" in told and "* [" in told
    assert not run_command([*arguments, "--corpus", str(models / "nowhere")])
    told = capsys.readouterr()
    assert "no intervals, for they need the corpus" in told.err and "[" not in told.out


def test_errors_are_those_of_the_documents():
    """Of one number for all, the variance is that of the sandwich, and the prior's is small."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=400)
    gradients = np.zeros((2, 1000, 1))
    gradients[1, :, 0] = rng.normal(size=(400, 1000)).T @ score
    squares = np.full((2, 1), score @ score)
    sums = Sums(gradients, squares, 400.0 * np.eye(2)[:, :, None], 400)
    entry = CovariatesEntry(
        formula="x", slope_sd=1.0, intercept_sd=10.0, columns=[CovariateEntry(column="x")]
    )
    errors = solve_errors(entry, sums)
    assert errors.shape == (1000, 2, 1)
    assert np.std(errors[:, 1]) == pytest.approx(np.sqrt(score @ score) / 400, rel=0.08)


def test_too_many_coefficients_have_no_intervals():
    assert choose_draws(20, 50) == 200 and choose_draws(1000, 500) == 0


def test_files_are_written(models, tmp_path):
    out = tmp_path / "shares.csv"
    topicstream.show(models / "with", covariates=True, out=str(out), progress=False)
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (2 + 20)
    years = {row["value"] for row in rows if row["variable"] == "date"}
    assert years == {str(year) for year in range(1990, 2010)}  # not 2007.15


@pytest.mark.parametrize(
    ("kind", "low", "high", "points"),
    [
        ("number", 2000.0, 2005.0, [2000, 2001, 2002, 2003, 2004, 2005]),
        ("number", 0.0, 1.0, np.linspace(0, 1, 40).tolist()),
        ("number", 0.5, 9.0, np.linspace(0.5, 9, 40).tolist()),
        ("date", 2000.0, 2006.0, np.linspace(2000, 2006, 40).tolist()),
    ],
)
def test_curves_between_whole_ends_have_whole_values(kind, low, high, points):
    covariate = decode_covariate(CovariateEntry("x", kind=kind, low=low, high=high))
    assert choose_points(covariate).tolist() == points


def test_curves_stand_at_their_values():
    """Ticks stood at the n-th of 40 points."""
    whole = read_values([{"value": "1990"}, {"value": "2000"}])
    assert whole.tolist() == [1990.0, 2000.0] and choose_tick_kind(whole) == "whole"
    dates = read_values([{"value": "-0207-03-01"}, {"value": "1999-12-31"}])
    assert dates.tolist()[1].year == 1999 and choose_tick_kind(dates) == "date"
    assert choose_tick_kind(read_values([{"value": "0.25"}, {"value": "1"}])) == "number"


@pytest.fixture(scope="module")
def regimes(models):
    given = {"topics": 2, "passes": 24, "algo": "bp", "progress": False}
    topicstream.train(
        models / "corpus.zarr", models / "regimes", covariates="regimes(date, 2) + party", **given
    )
    return models / "regimes"


def test_regimes_are_shown_in_order_of_time(models, regimes, capsys):
    arguments = ["show", "--covariates", "--model", str(regimes)]
    assert not run_command([*arguments, "--corpus", str(models / "corpus.zarr")])
    told = capsys.readouterr().out
    (names,) = [line for line in told.splitlines() if line.startswith("regimes of date: ")]
    first, second = names.removeprefix("regimes of date: ").split(", ")
    assert first.startswith("1990 to ") and second.endswith("2009")
    assert f"and elsewhere: {second[:4]} " in told
    assert "the intervals and stars take the change points as given" in told
    lines = [line for line in told.splitlines() if line.startswith("       date: ")]
    assert len(lines) == 2
    assert all(0 < line.index(first) < line.index(second) for line in lines)


def test_regimes_are_steps_over_time(models, regimes, tmp_path):
    picture = tmp_path / "shares.svg"
    given = {"corpus": models / "corpus.zarr", "covariates": True, "progress": False}
    rows = topicstream.show(regimes, plot=str(picture), **given)
    assert "by date" in picture.read_text()
    dates = [row for row in rows if row["variable"] == "date" and row["topic"] == 0]
    timed = decode_design(TopicModel.open(regimes).manifest.covariates).regimes
    assert [row["value"] for row in dates] == timed.levels
    assert [row["documents"] for row in dates] == timed.documents.tolist()
    edges = timed.edges()
    assert edges[0] == 1990 and edges[-1] == 2010


def test_effects_refuse_regimes(models):
    with pytest.raises(UsageError, match=r"is for `train --covariates`.*take date or s\(date\)"):
        topicstream.effects("regimes(date, 2)", models / "with", models / "corpus.zarr")


def test_a_model_without_covariates_is_refused(models):
    with pytest.raises(InputError, match="was trained without covariates"):
        topicstream.show(models / "without", covariates=True)


def test_effects_say_that_the_prior_used_a_formula(models, capsys):
    topicstream.effects("date", models / "with", models / "corpus.zarr", progress=Shown(0))
    assert "the prior of this model used party * date" in capsys.readouterr().err
