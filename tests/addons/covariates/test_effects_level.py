"""Effects hold their level on real shares: two variances and their degrees of freedom against the
papers' formulas, random covariates on sparse shares, and too few documents.
"""

from __future__ import annotations

import csv
import json
import math
from io import BytesIO

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import f, t

import topicstream
from topicstream.addons.covariates.covariates import NOT_TOLD_APART, DocumentBlock, Topics, explain
from topicstream.addons.covariates.influence import Influence
from topicstream.addons.covariates.regression import Regression
from topicstream.addons.covariates.support import Support
from topicstream.cli.main import run
from topicstream.model.formula import Covariate, Design, parse_formula

CERTAIN = 1e12
"""Tokens of documents whose shares are certain: nothing is weighted, and no draw varies."""


def fit(design, shares, wholes, pieces=1):
    """A regression of shares that are certain, in pieces that cut documents."""
    names = [str(i) for i in range(design.shape[1])]
    regression = Regression(names, np.zeros(shares.shape[1]), 0.0, BytesIO())
    for part in np.array_split(np.arange(len(shares)), pieces):
        tokens = np.full(len(part), CERTAIN)
        regression.add(design[part], shares[part], tokens, [str(wholes[i]) for i in part])
    return regression


def bell_mccaffrey(design, wholes, combination):
    """(matrix whose quadratic form in the shares is the robust variance, degrees of freedom)."""
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    left = np.eye(len(hat)) - hat
    columns = []
    for whole in np.unique(wholes):
        own = np.flatnonzero(wholes == whole)
        values, vectors = np.linalg.eigh(left[np.ix_(own, own)])
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T
        columns.append(left[:, own] @ adjusted @ design[own] @ bread @ combination)
    scores = np.array(columns).T
    form = scores.T @ scores
    return scores @ scores.T, np.trace(form) ** 2 / np.trace(form @ form)


def books(parts):
    rng = np.random.default_rng(5)
    wholes = np.repeat(np.arange(30), rng.integers(1, 9, 30) if parts else 1)
    group = (np.arange(30) < 11)[wholes].astype(float)
    number = rng.lognormal(size=30)[wholes] + 0.1 * rng.normal(size=len(wholes))
    shares = rng.dirichlet([0.3] * 4, 30)[wholes] * 0.7
    shares += 0.3 * rng.dirichlet([0.3] * 4, len(wholes))
    return np.column_stack((np.ones(len(wholes)), group, number)), shares, wholes


@pytest.mark.parametrize("parts", [False, True])
def test_robust_variances_and_their_freedoms_are_those_of_the_paper(parts):
    """CR2 of whole documents (HC2 without parts), wherever a block cuts one, and its degrees of
    freedom (Bell & McCaffrey 2002), which count documents, not parts.
    """
    design, shares, wholes = books(parts)
    fitted = fit(design, shares, wholes, pieces=4).fit()
    for i, combination in enumerate(np.eye(3)):
        form, freedom = bell_mccaffrey(design, wholes, combination)
        variances = np.einsum("dk,de,ek->k", shares, form, shares)
        assert fitted.robust[:, i, i] == pytest.approx(variances, rel=1e-4)
        assert fitted.freedoms[i] == pytest.approx(freedom, rel=1e-4)
        assert fitted.freedoms[i] < 30
    assert (fitted.documents, fitted.clusters, fitted.residual_freedom) == (len(wholes), 30, 27)


def test_a_group_of_two_documents_has_one_degree_of_freedom():
    group = np.arange(60) < 2
    design = np.column_stack((np.ones(60), group))
    shares = np.random.default_rng(3).dirichlet([1, 1], 60)
    _, freedom = bell_mccaffrey(design, np.arange(60), np.array([0.0, 1.0]))
    assert 1 < freedom < 1.1
    assert fit(design, shares, np.arange(60)).fit().freedoms[1] == pytest.approx(freedom, rel=1e-4)


def test_a_document_may_reach_over_whole_blocks_of_parts():
    """A block of parts that all belong to the document before it begins none."""
    design, shares, _ = books(True)
    wholes = np.repeat(np.arange(10), [2, len(design) - 20, *[2] * 6, 1, 5])
    whole = fit(design, shares, wholes).fit()
    cut = fit(design, shares, wholes, pieces=len(design) // 4).fit()
    assert (cut.documents, cut.clusters) == (len(design), 10)
    np.testing.assert_allclose(cut.robust, whole.robust, rtol=1e-6)
    np.testing.assert_allclose(cut.pooled, whole.pooled, rtol=1e-6)
    np.testing.assert_allclose(cut.freedoms, whole.freedoms, rtol=1e-6)


def test_the_pooled_variance_of_parts_has_a_random_effect():
    """Within documents the variance of parts around their mean, between them the rest."""
    design, shares, wholes = books(True)
    fitted = fit(design, shares, wholes, pieces=3).fit()
    bread = np.linalg.inv(design.T @ design)
    residuals = shares - design @ bread @ design.T @ shares
    means = np.array([residuals[wholes == whole].mean(axis=0) for whole in range(30)])
    sizes = np.bincount(wholes)
    within = ((residuals - means[wholes]) ** 2).sum(axis=0) / (len(wholes) - 30)
    between = (means**2).sum(axis=0) / 27 - within * (1 / sizes).mean()
    assert (between > 0).all()
    together = (wholes[:, None] == wholes).astype(float)
    for k in range(4):
        covariance = within[k] * np.eye(len(wholes)) + between[k] * together
        expected = bread @ design.T @ covariance @ design @ bread
        assert fitted.pooled[k] == pytest.approx(expected, rel=1e-4)


def test_a_whole_term_has_the_larger_p_of_two_tests():
    """The classical F, and that of Box (1954) under the robust covariance."""
    rng = np.random.default_rng(6)
    x = np.column_stack((np.ones(80), rng.normal(size=(80, 3))))
    shares = rng.dirichlet([0.2] * 3, 80)
    fitted = fit(x, shares, np.arange(80)).fit()
    chosen = [1, 2, 3]
    for k in range(3):
        b = fitted.estimates[chosen, k]
        pooled, robust = (v[k][1:, 1:] for v in (fitted.pooled, fitted.robust))
        squares = b @ np.linalg.solve(pooled, b)
        relative = np.linalg.solve(pooled, robust)
        trace = np.trace(relative)
        p = max(
            f.sf(squares / 3, 3, 76),
            f.sf(squares / trace, trace**2 / np.trace(relative @ relative), 76),
        )
        assert fitted.test(chosen, k).p == pytest.approx(p, rel=1e-6)


def test_predictions_have_the_wider_interval_too():
    """A group's prediction is its mean; its own variance has a degree less than it has
    documents.
    """
    group = np.repeat([0.0, 1.0], [200, 12])
    shares = np.random.default_rng(7).dirichlet([1, 1], 212)
    shares[group == 1] = np.eye(2)[np.arange(12) % 2]
    regression = fit(np.column_stack((np.ones(212), group)), shares, np.arange(212))
    predicted = regression.predict(regression.fit(), np.array([[1.0, 1.0]]))
    own = shares[group == 1]
    assert predicted.estimate[0] == pytest.approx(own.mean(axis=0), abs=1e-6)
    assert predicted.error[0] == pytest.approx(own.std(axis=0, ddof=1) / 12**0.5, rel=1e-4)
    assert predicted.freedom[0] == pytest.approx(11, abs=1)


def covariate_of(values, df):
    covariate = Covariate("x", df)
    covariate.counts.update(values)
    covariate.choose_coding()
    return covariate


@pytest.mark.quick("group", "curve")
@pytest.mark.parametrize("kind", ["group", "lognormal", "curve", "parts"])
def test_noise_on_sparse_shares_is_seldom_significant(kind):
    """Most shares are near 0, a few large; robust variances alone found something in 13 to 30 %."""
    rng = np.random.default_rng(11)
    tests = []
    for _ in range(60):
        count = 250
        shares = rng.dirichlet([0.03] * 8, count)
        if kind in ("group", "parts"):
            x = ["b" if i < 14 else "a" for i in range(count)]
        else:
            x = [
                f"{v:.6g}"
                for v in (rng.lognormal if kind == "lognormal" else rng.normal)(size=count)
            ]
        covariate = covariate_of(x, 10 if kind == "curve" else 0)
        wholes = np.repeat(np.arange(count), 3 if kind == "parts" else 1)
        matrix = np.column_stack((np.ones(len(wholes)), covariate.matrix([x[i] for i in wholes])))
        shares = 0.8 * shares[wholes] + 0.2 * rng.dirichlet([0.03] * 8, len(wholes))
        fitted = fit(matrix, shares, wholes).fit()
        places = list(range(1, matrix.shape[1]))
        for k in range(8):
            if kind == "curve":
                tests.append(fitted.test(places, k).p < 0.05)
            else:
                tests.append(abs(fitted.estimates[1, k]) > fitted.reaches[1, k])
    assert np.mean(tests) <= 0.06


def design_of(formula, columns):
    terms = parse_formula(formula)
    factors = dict.fromkeys(factor for term in terms for factor in term)
    covariates = {}
    for factor in factors:
        covariates[factor] = Covariate(factor.column, factor.df)
        covariates[factor].counts.update(columns[factor.column])
        covariates[factor].choose_coding()
    return Design(terms, covariates)


def reasons_of(formula, wholes=None, **columns):
    """Reasons by column of the design; the documents come in two blocks."""
    design = design_of(formula, columns)
    support = Support(design)
    count = len(next(iter(columns.values())))
    wholes = [str(i) for i in range(count)] if wholes is None else wholes
    for part in (slice(0, count // 2), slice(count // 2, count)):
        support.add({name: values[part] for name, values in columns.items()}, wholes[part])
    return dict(zip(design.names, support.reasons(), strict=True))


def test_a_level_of_nine_documents_has_no_interval_one_of_ten_has():
    party = ["a"] * 40 + ["b"] * 10 + ["c"] * 9
    assert reasons_of("party", party=party) == {
        "(intercept)": None,
        "party=b": None,
        "party=c": "too few documents: 9 (party=c)",
    }


def test_parts_of_nine_books_are_nine_documents():
    """Also where a block ends within a book."""
    party = ["a"] * 40 + ["b"] * 45
    wholes = [str(i) for i in range(40)] + [f"b{i // 5}" for i in range(45)]
    reasons = reasons_of("party", wholes, party=party)
    assert reasons["party=a"] == "too few documents: 9 (party=b)"
    assert reasons["(intercept)"] == "too few documents: 9 (party=b)"


def test_a_number_that_is_zero_in_nearly_all_documents_has_no_interval():
    seats = ["0"] * 60 + ["1", "5", "9"]
    assert reasons_of("seats", seats=seats)["seats"] == "too few documents: 3 (seats not 0)"
    curve = reasons_of("s(seats)", seats=seats)
    assert curve["s(seats).1"] == "too few documents: 3 (seats not 0)"
    flags = ["1"] * 60 + ["0"] * 9
    assert reasons_of("flag", flag=flags)["flag"] == "too few documents: 9 (flag not 1)"


def test_an_interaction_needs_documents_in_each_cell():
    party = ["a", "b"] * 60
    region = ["north"] * 60 + ["south"] * 60
    party[60:115] = ["a"] * 55  # of the south, 57 or 58 documents are of a
    reasons = reasons_of("party * region", party=party, region=region)
    assert reasons["party=b"] is None and reasons["region=south"] is None
    assert reasons["party=b:region=south"] == "too few documents: 3 (party=b, region=south)"
    seats = ["0"] * 120
    seats[:20] = [str(i) for i in range(20)]
    seats[1:20:2] = ["0"] * 10
    slopes = reasons_of("party * seats", party=party, seats=seats)
    assert slopes["party=b:seats"] == "too few documents: 0 (party=b, seats not 0)"


def test_a_number_that_a_few_documents_carry_is_noticed():
    x = np.r_[np.random.default_rng(8).normal(size=200), 500.0, -300.0]
    shares = np.random.default_rng(9).dirichlet([1, 1], 202)
    design = np.column_stack((np.ones(202), x, np.arange(202)))
    assert fit(design, shares, np.arange(202)).fit().carried.tolist() == [False, True, False]


def test_what_no_document_tells_apart_has_no_interval():
    """The parties' difference where curves begin, at 0: no document of b is near it."""
    rng = np.random.default_rng(10)
    of_b = rng.normal(7, 1.2, 60).clip(0, 10)
    values = {"x": [f"{v:.6g}" for v in np.r_[np.linspace(0, 10, 300), of_b]]}
    values["party"] = ["a"] * 300 + ["b"] * 60
    shares = rng.dirichlet([0.1] * 3, 360)
    wholes = [str(i) for i in range(360)]
    block = DocumentBlock(values, shares, np.full(360, CERTAIN), wholes)
    topics = Topics(np.arange(3), ["p", "q", "r"], np.zeros(3), 0.0)
    effects = explain("party * s(x)", design_of("party * s(x)", values), [block], topics, values)
    reasons = dict(zip(effects.coefficients.names, effects.reasons, strict=True))
    assert reasons["party=b"] == NOT_TOLD_APART
    assert np.isnan(effects.table()["low"].to_numpy()[1])
    tests = {row["term"]: row["p"] for row in effects.tests().to_pylist()}
    assert list(tests) == ["s(x)", "party=b:s(x)"] and min(tests.values()) > 0.001


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Documents of two topics; of party P there is one, full of cats."""
    folder = tmp_path_factory.mktemp("level")
    rng = np.random.default_rng(2)
    themes = [["cat", "fur", "paw", "tail", "claw"], ["ship", "sail", "deck", "sea", "tide"]]
    documents = []
    for d in range(80):
        cats = 30 if d == 0 else int(rng.integers(2, 10))
        words = [*rng.choice(themes[0], cats), *rng.choice(themes[1], 32 - cats)]
        party = "P" if d == 0 else "ab"[d % 2]
        seats = str(d) if d in (3, 4, 5) else "0"
        text = " ".join(words)
        documents.append({"id": str(d), "text": text, "party": party, "seats": seats})
    topicstream.ingest(
        documents,
        out=folder / "corpus.zarr",
        meta=["party", "seats"],
        min_df=1,
        max_df=1.0,
        heldout=0,
        progress=False,
    )
    topicstream.train(
        folder / "corpus.zarr", folder / "model", topics=2, passes=30, seed=1, progress=False
    )
    return folder


REASON = "too few documents: 1 (party=P)"


def test_a_party_of_one_document_has_a_star_in_no_output(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    assert run(["effects", "party", "--out", "e.csv", "--plot", "e.svg"]) == 0
    said = capsys.readouterr().out
    lines = [line.split(maxsplit=2) for line in said.splitlines() if "party=P" in line]
    assert [rest for _, _, rest in lines] == [REASON] * 2
    assert any(abs(float(estimate)) > 30 for _, estimate, _ in lines)
    table = csv.DictReader((place / "e.csv").read_text().splitlines())
    rows = [row for row in table if row["term"] == "party=P"]
    assert len(rows) == 2
    for row in rows:
        assert float(row["estimate"]) != 0 and row["reason"] == REASON
        assert [row[name] for name in ("se", "df", "z", "low", "high")] == [""] * 5
    assert "P (too few documents)" in (place / "e.svg").read_text()
    for name in ("e.tex", "e.md", "e.parquet", "e.jsonl"):
        assert run(["effects", "party", "--out", name]) == 0
    assert "party=P & " in (place / "e.tex").read_text().replace(r"party\_", "party_")
    assert "nan" not in (place / "e.tex").read_text() + (place / "e.md").read_text()
    assert REASON in (place / "e.tex").read_text()
    assert pq.read_table("e.parquet")["low"].null_count == 2
    first = json.loads((place / "e.jsonl").read_text().splitlines()[2])
    assert first["term"] == "party=P" and first["low"] is None and first["reason"] == REASON


def test_json_and_python_say_why_there_is_no_interval(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    capsys.readouterr()
    assert run(["effects", "party", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["intervals"]["level"] == 0.95 and "topics" in printed["intervals"]["excluded"]
    for row in printed["coefficients"]:
        assert (row["low"] is None) == (row["term"] == "party=P") == (row["reason"] is not None)
    for row in printed["predictions"]:
        assert (row["se"] is None) == (row["value"] == "P") == (row["low"] is None)
    effects = topicstream.effects("party", "model", "corpus.zarr", progress=False)
    for row in effects.table().to_pylist():
        assert math.isnan(row["low"]) == math.isnan(row["z"]) == (row["term"] == "party=P")
    assert "[" not in next(line for line in repr(effects).splitlines() if "party=P" in line)


def test_a_small_reference_leaves_no_contrast(place):
    effects = topicstream.effects(
        "party", place / "model", place / "corpus.zarr", reference="party=P", progress=False
    )
    assert effects.reasons == [REASON] * 3
    assert "*" not in "".join(effects.lines()[2:])


def test_numbers_and_curves_of_three_documents_have_no_test(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    for formula in ("seats", "s(seats, 4)", "party * seats"):
        assert run(["effects", formula, "--plot", "seats.svg", "--force"]) == 0
        said = capsys.readouterr().out
        lines = [line for line in said.splitlines() if line.lstrip().startswith(("seats ", "s(se"))]
        assert lines and not [line for line in lines if "*" in line or "[" in line or "F(" in line]
    effects = topicstream.effects("s(seats, 4)", progress=False)
    assert np.isnan(effects.tests()["p"].to_numpy()).all()
    assert effects.plain()["tests"][0]["reason"] == "too few documents: 3 (seats not 0)"


def test_student_s_freedom_counts_books():
    """24 books of 30 parts in two groups: 22 degrees of freedom, however many parts there are."""
    rng = np.random.default_rng(12)
    wholes = np.repeat(np.arange(24), 30)
    group = (np.arange(24) % 2)[wholes].astype(float)
    shares = rng.dirichlet([2, 2], 24)[wholes]
    fitted = fit(np.column_stack((np.ones(720), group)), shares, wholes).fit()
    assert fitted.error_freedoms[1] == pytest.approx(22, abs=1e-3)
    assert fitted.reaches[1] == pytest.approx(t.ppf(0.975, 22) * fitted.errors[1], rel=1e-6)


def test_nine_documents_that_have_nineteen_twentieths_carry_an_estimate():
    """Squares of the documents' weights in three estimates, which come in two pieces."""
    few = [10.0] * 9 + [0.4] * 10  # 90 of 94
    more = [10.0] * 10 + [0.4] * 9  # nine have 90 of 103.6
    exactly = [9.5] * 9 + [0.45] * 10  # 85.5 of 90: no more than nineteen twentieths
    squares = np.random.default_rng(0).permutation(np.array([few, more, exactly]).T)
    influence = Influence(np.eye(3), pairs=False)
    influence._add_carried(squares[:7])
    influence._add_carried(squares[7:])
    assert influence.carried().tolist() == [True, False, False]
    eight = Influence(np.eye(1), pairs=False)
    eight._add_carried(np.full((8, 1), 3.0))
    assert eight.carried().tolist() == [True]


def test_short_documents_weigh_less_and_their_topics_are_drawn():
    """Weighted least squares, both variances and the draws' share of them, dense."""
    rng = np.random.default_rng(7)
    docs = 40
    design = np.column_stack((np.ones(docs), rng.random(docs) < 0.4, rng.normal(size=docs)))
    tokens = rng.integers(3, 60, docs).astype(float)
    alpha = np.array([0.2, 0.5])
    alpha_sum = 1.1  # of three topics, of which two are asked for
    shares = rng.dirichlet([0.6, 0.9, 0.7], docs)[:, :2]
    wholes = [f"d{i}" for i in range(docs)]
    regression = Regression(["one", "red", "x"], alpha, alpha_sum, BytesIO())
    for piece in (slice(0, 15), slice(15, None)):
        regression.add(design[piece], shares[piece], tokens[piece], wholes[piece])
    fitted = regression.fit()
    y = ((alpha_sum + tokens)[:, None] * shares - alpha) / tokens[:, None]
    w = tokens / (alpha_sum + tokens)
    bread = np.linalg.inv(design.T @ (design * w[:, None]))
    estimates = bread @ design.T @ (w[:, None] * y)
    np.testing.assert_allclose(fitted.estimates, estimates, rtol=1e-5)
    inside = np.clip(y, 0, 1)
    assert (inside != y).any()
    between = inside * (1 - inside) / (tokens + 1)[:, None]
    residuals = y - design @ estimates
    leverage = w * np.einsum("dp,pq,dq->d", design, bread, design)
    for k in range(2):
        drawn = design.T @ (design * (w**2 * between[:, k])[:, None])
        variance = (w * residuals[:, k] ** 2).sum() / (docs - 3)
        pooled = variance * bread + bread @ drawn @ bread
        np.testing.assert_allclose(fitted.pooled[k], pooled, rtol=1e-4)
        meat = design.T @ (design * (w**2 * residuals[:, k] ** 2 / (1 - leverage))[:, None])
        robust = bread @ (meat + drawn) @ bread
        np.testing.assert_allclose(fitted.robust[k], robust, rtol=1e-4)
