"""Effects of covariates on topics: formulas, the regression against a plain one and against known
effects, the command.
"""

from __future__ import annotations

import json
import re
import shutil
from io import BytesIO
from tempfile import TemporaryFile

import numpy as np
import pytest

import topicstream
from tests import few_quick
from topicstream.addons.covariates import covariates
from topicstream.addons.covariates.effects import PREDICTED, Effects
from topicstream.addons.covariates.regression import (
    Coefficients,
    Regression,
    choose_wider,
    reach,
    select_independent,
)
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.cli.main import run
from topicstream.display.over_time import OverTimeView
from topicstream.model.formula import Covariate, Design, Factor, as_days, as_number, parse_formula


def terms_of(formula: str) -> list[str]:
    return [":".join(map(str, term)) for term in parse_formula(formula)]


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("party", ["party"]),
        ("party + s(date, 4)", ["party", "s(date)"]),
        ("a*b*c", ["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"]),
        ("a:b + b + b", ["b", "a:b"]),
    ],
)
def test_formulas(formula, terms):
    assert terms_of(formula) == terms


@pytest.mark.parametrize(
    "formula", ["", "a +", "a - b", "s(a", "s(date, 1)", "__import__('os')", "a * b : c", "a b"]
)
def test_what_is_no_formula_is_refused(formula):
    with pytest.raises(UsageError, match="formula"):
        parse_formula(formula)


def test_dates_are_years():
    assert as_number("1999-07-02", "date") == pytest.approx(1999.5, abs=0.01)
    assert (
        as_number("2001", "x") == as_number("2001", "date") == 2001
        and as_number("-3.5", "x") == -3.5
        and as_number("red", "x") is None
    )
    assert as_number("19990702", "x") == 19990702 and as_number("19990702", "date") == as_number(
        "36343", "date"
    ) == as_number("1999-07-02", "x")


def covariate(column: str, values: list[str], df: int = 0) -> Covariate:
    made = Covariate(column, df)
    made.counts.update(values)
    made.choose_coding()
    return made


def test_a_design_has_a_column_a_value_but_the_most_frequent_one():
    party = covariate("party", ["red", "blue", "blue", "green"])
    design = Design(parse_formula("party"), {Factor("party"): party})
    assert design.names == ["(intercept)", "party=green", "party=red"]
    assert design.matrix({"party": ["red", "blue"]}, 2).tolist() == [[1, 0, 1], [1, 0, 0]]


def test_a_curve_reproduces_a_cubic():
    x = np.linspace(0, 10, 200)
    factor = Factor("x", 6)
    design = Design([(factor,)], {factor: covariate("x", [str(v) for v in x], 6)})
    matrix = design.matrix({"x": x.tolist()}, len(x))
    cubic = 0.1 * x**3 - x**2 + 2
    fit, *_ = np.linalg.lstsq(matrix, cubic, rcond=None)
    assert np.allclose(matrix @ fit, cubic)


def names(n):
    return [str(i) for i in range(n)]


def test_it_is_the_plain_regression_where_nothing_is_uncertain():
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(300), rng.normal(size=300), rng.integers(0, 2, 300)]
    y = rng.dirichlet([1, 2, 3], 300)
    with TemporaryFile() as scratch:
        regression = Regression(["1", "x", "g"], np.zeros(3), 0.0, scratch)
        regression.add(x[:100], y[:100], np.full(100, 1e12), names(100))
        regression.add(x[100:], y[100:], np.full(200, 1e12), names(200))
        fitted = regression.fit()
    inverse = np.linalg.inv(x.T @ x)
    plain = inverse @ x.T @ y
    assert np.allclose(fitted.estimates, plain, atol=1e-6)
    for k in range(3):
        leverage = np.einsum("ip,pq,iq->i", x, inverse, x)
        squares = (y[:, k] - x @ plain[:, k]) ** 2
        robust = inverse @ (x * (squares / (1 - leverage))[:, None]).T @ x @ inverse  # HC2
        assert np.allclose(fitted.robust[k], robust, rtol=1e-4, atol=1e-12)
        pooled = inverse * squares.sum() / 297
        assert np.allclose(fitted.pooled[k], pooled, rtol=1e-4, atol=1e-12)


def effects_of(estimates, robust, clusters, reasons):
    """Effects of red against blue on one topic, the pooled variances being tiny."""
    p = len(estimates)
    fitted = Coefficients(
        columns=["(intercept)", "party=red"],
        used=np.arange(p),
        estimates=np.array(estimates)[:, None],
        pooled=np.eye(p)[None] * 1e-9,
        robust=np.array(robust)[None],
        freedoms=np.full(p, clusters - 1.0),
        carried=np.zeros(p, bool),
        documents=90,
        clusters=clusters,
    )
    references = {"party": "blue"}
    kinds = {"party": "category"}
    table = PREDICTED.empty_table()
    return Effects(
        "party", 90, 0, np.array([3]), ["war"], fitted, reasons, references, kinds, table
    )


def test_the_printed_interval_is_the_table_s():
    """Of ten books it is 2.26 errors wide (Student's), and excludes zero, or not, as the table's
    does.
    """
    shown = effects_of([0.3, 0.2], np.diag([0.01, 0.01]), 10, [None, None])
    (row,) = (row for row in shown.table().to_pylist() if row["term"] == "party=red")
    assert shown.lines()[-1].split() == [
        "party=red",
        "+20.00",
        f"[{100 * row['low']:+.2f},",
        f"{100 * row['high']:+.2f}]",
    ]
    assert row["low"] == pytest.approx(0.2 - 2.262157 * 0.1) and row["df"] == 9
    assert row["low"] < 0 < 0.2 - 1.96 * row["se"]


GROUPS = [((10, 40), 0.5), ((80, 300), 0.5), ((30, 60), 0.15)]


@pytest.mark.product
@pytest.mark.parametrize(("tokens", "share_of_group"), few_quick(GROUPS, GROUPS[:1]))
def test_intervals_cover_known_effects(tokens, share_of_group):
    """95 % intervals hold the true difference of two groups in 92 to 98 % of simulated corpora,
    short documents too.
    """
    rng = np.random.default_rng(4)
    alpha = np.full(5, 0.8)
    effect = 0.2
    covered = 0
    estimates = []
    repetitions = 1000
    for _ in range(repetitions):
        group = (rng.uniform(size=300) < share_of_group).astype(float)
        mean = np.full((300, 5), 0.0)
        mean[:, 0] = 0.15 + effect * group
        mean[:, 1:] = (1 - mean[:, :1]) / 4
        gamma = rng.gamma(5 * mean)
        n = rng.integers(*tokens, 300)
        counts = rng.multinomial(n, gamma / gamma.sum(1, keepdims=True))
        shares = (alpha + counts) / (alpha.sum() + n)[:, None]
        with TemporaryFile() as scratch:
            regression = Regression(["1", "g"], alpha, float(alpha.sum()), scratch)
            regression.add(np.c_[np.ones(300), group], shares, n.astype(float), names(300))
            fitted = regression.fit()
        covered += abs(fitted.estimates[1, 0] - effect) < fitted.reaches[1, 0]
        estimates.append(fitted.estimates[1, 0])
    assert 0.92 <= covered / repetitions <= 0.98
    assert np.mean(estimates) == pytest.approx(effect, abs=0.004)


def test_columns_that_others_determine_are_left_out():
    x = np.random.default_rng(1).normal(size=(50, 3))
    x = np.c_[x, x[:, 0] - x[:, 2], np.zeros(50)]
    assert select_independent(x.T @ x).tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus in which red documents are of cats, more so from year to year, and a model of it."""
    folder = tmp_path_factory.mktemp("effects")
    rng = np.random.default_rng(2)
    themes = [
        ["cat", "fur", "paw", "tail", "claw"],
        ["ship", "sail", "deck", "sea", "tide"],
        ["star", "moon", "orbit", "sun", "comet"],
    ]
    with open(folder / "docs.jsonl", "w") as file:
        for d in range(900):
            red = d % 2
            year = 2000 + d % 9
            share = 0.2 + 0.05 * (year - 2000) * red
            p = [share, (1 - share) / 2, (1 - share) / 2]
            words = [str(rng.choice(themes[t])) for t in rng.choice(3, 60, p=rng.dirichlet(p))]
            record = {
                "id": d,
                "text": " ".join(words),
                "date": f"{year}-03-01",
                "party": "red" if red else "blue",
            }
            record |= {"labels": ["a", "b"], "odd": None if d < 890 else "x"}
            record |= {"clicks": str(1_000_000 * year), "rare": str(2000 + d / 1e6 + 9 * (d == 0))}
            record |= {
                "seats": "NA" if d % 5 == 0 else str(year - 2000),
                "wing": ("NaN", None, "")[d % 3] if d < 60 else record["party"],
            }
            record |= {"day": f"{1 + d % 28}/{1 + d % 12}/{year}"}
            file.write(json.dumps(record) + "\n")
    topicstream.ingest(
        folder / "docs.jsonl",
        folder / "corpus.zarr",
        meta=("party", "date", "labels", "odd", "clicks", "rare", "day", "seats", "wing"),
        min_df=1,
        max_df=1.0,
        heldout=0,
    )
    topicstream.train(
        folder / "corpus.zarr",
        folder / "model",
        topics=3,
        algo="bp",
        passes=30,
        seed=1,
        progress=False,
    )
    return folder


def test_effects_find_what_was_planted(place):
    found = topicstream.effects("party * date", place / "model", place / "corpus.zarr")
    assert found.documents == 900 and found.references == {"party": "blue", "date": "2004.16"}
    table = found.table().to_pylist()
    slopes = {row["topic"]: row for row in table if row["term"] == "party=red:date"}
    cats = max(slopes, key=lambda k: slopes[k]["estimate"])
    assert slopes[cats]["low"] < 0.05 < slopes[cats]["high"] and slopes[cats]["z"] > 5
    red = [
        r for r in found.predictions.to_pylist() if r["topic"] == cats and r["group"] == "party=red"
    ]
    assert red[0]["share"] == pytest.approx(0.2, abs=0.05) and red[-1]["share"] == pytest.approx(
        0.6, abs=0.05
    )


def test_values_that_do_not_fit_the_limit_are_refused(place, monkeypatch):
    """A column of times to the second has as many values as documents, all in memory."""
    monkeypatch.setattr(covariates, "VALUE_BYTES", 1 << 30)  # this process may hold 1 GB
    topicstream.effects("party", place / "model", place / "corpus.zarr", mem_limit="5G")
    said = r"\d+ different values of date \(round numbers, or cut dates to days\) takes about"
    with pytest.raises(DoesNotFit, match=said):
        topicstream.effects("s(date)", place / "model", place / "corpus.zarr", mem_limit="5G")


def test_a_dropped_topic_takes_its_words_along(place, tmp_path):
    """Shares are of the words of the topics shown: they add up to 1, and the one of 0.2 is one of
    0.2 / (0.2 + 0.4).
    """
    whole = topicstream.effects("party", place / "model", place / "corpus.zarr")
    cats = int(whole.topics[whole.coefficients.estimates[1].argmax()])
    model = shutil.copytree(place / "model", tmp_path / "model")
    topicstream.edit(model, [{"edit": "drop", "topics": [(cats + 1) % 3]}])
    found = topicstream.effects("party", model, place / "corpus.zarr")
    assert found.coefficients.estimates.sum(1) == pytest.approx([1, 0], abs=1e-6)
    assert found.coefficients.estimates[0, found.topics.tolist().index(cats)] == pytest.approx(
        1 / 3, abs=0.05
    )


def test_a_missing_number_as_r_and_pandas_write_it_is_none(place):
    """A column of numbers stays one without these documents; in a column of text it is a value."""
    numbers = topicstream.effects("seats", place / "model", place / "corpus.zarr")
    assert (numbers.documents, numbers.left_out, numbers.coefficients.names) == (
        720,
        180,
        ["(intercept)", "seats"],
    )
    groups = topicstream.effects("wing", place / "model", place / "corpus.zarr")
    assert (groups.documents, groups.left_out, groups.coefficients.names) == (
        860,
        40,
        ["(intercept)", "wing=red", "wing=NaN"],
    )
    same = topicstream.effects("party", place / "model", place / "corpus.zarr")
    assert groups.coefficients.estimates[:2] == pytest.approx(same.coefficients.estimates, abs=0.03)
    shown = OverTimeView(place / "model", place / "corpus.zarr", by="wing").result()
    assert {row["group"]: row["documents"] for row in shown} == {
        "blue": 420,
        "red": 420,
        "NaN": 20,
    }


def test_an_append_without_the_column_is_left_out(place, tmp_path):
    """Its blocks hold no document to use."""
    store = shutil.copytree(place / "corpus.zarr", tmp_path / "corpus.zarr")
    with open(tmp_path / "more.jsonl", "w") as file:
        for line in (place / "docs.jsonl").read_text().splitlines():
            record = json.loads(line)
            file.write(json.dumps({"id": f"1000{record['id']}", "text": record["text"]}) + "\n")
    assert topicstream.ingest(tmp_path / "more.jsonl", store, append=True)["documents_added"] == 900
    for formula in ("party * date", "s(date)"):
        before, after = (
            topicstream.effects(formula, place / "model", corpus)
            for corpus in (place / "corpus.zarr", store)
        )
        assert (after.documents, after.left_out) == (900, 900)
        assert np.array_equal(after.coefficients.estimates, before.coefficients.estimates)


def test_the_category_that_others_are_measured_from_can_be_chosen(place, capsys, monkeypatch):
    """What R calls relevel: the same model, the same predictions, differences of the other sign."""
    usual, chosen = (
        topicstream.effects(
            "party * date", place / "model", place / "corpus.zarr", reference=r, progress=False
        )
        for r in ((), "party=red")
    )
    assert chosen.references["party"] == "red" and "party=blue:date" in chosen.coefficients.names
    at = [
        fitted.coefficients.names.index(f"party={level}")
        for fitted, level in ((usual, "red"), (chosen, "blue"))
    ]
    assert chosen.coefficients.estimates[at[1]] == pytest.approx(
        -usual.coefficients.estimates[at[0]], abs=1e-7
    )
    assert chosen.coefficients.errors[at[1]] == pytest.approx(
        usual.coefficients.errors[at[0]], rel=1e-4
    )
    shares = [
        {
            (r["value"], r["topic"]): r["share"]
            for r in fitted.predictions.to_pylist()
            if r["variable"] == "party"
        }
        for fitted in (usual, chosen)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=1e-6)
    monkeypatch.chdir(place)
    assert run(["effects", "party", "--reference", "party=red", "-k", "0,2", "--json"]) == 0
    assert {row["topic"] for row in json.loads(capsys.readouterr().out)["coefficients"]} == {0, 2}
    for line, code, said in (
        (
            "party --reference party=green",
            3,
            "--reference party=green: no document has this value; it has blue, red",
        ),
        ("date --reference party=red", 2, "--reference party=red: the formula has no party"),
        ("date --reference date=2004", 3, "date holds numbers, which are measured from their mean"),
        ("party --reference red", 2, "red: write COLUMN=VALUE"),
    ):
        assert run(["effects", *line.split()]) == code
        assert said in capsys.readouterr().err


def test_the_command_prints_writes_and_draws(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    assert run(["effects", "party * s(date)", "--out", "e.tex", "--plot", "e.svg"]) == 0
    said = capsys.readouterr().out
    assert "party: measured from blue" in said and "party=red" in said and "*" in said
    assert (place / "e.tex").read_text().startswith("% made by topicstream") and "toprule" in (
        place / "e.tex"
    ).read_text()
    assert run(["effects", "party", "-k", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["term"] for row in printed["coefficients"]] == ["(intercept)", "party=red"]
    assert run(["effects", "party", "--out", "e.tex"]) == 1
    assert run(["effects", "party", "--out", "e.md", "--force"]) == 0
    assert "| topic | label | term |" in (place / "e.md").read_text()


def test_a_curve_is_tested_as_a_whole_and_drawn(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    found = topicstream.effects("party * s(date, 4)", progress=False)
    slopes = topicstream.effects("party * date", progress=False).table().to_pylist()
    cats = max(
        (row for row in slopes if row["term"] == "party=red:date"), key=lambda row: row["estimate"]
    )["topic"]
    assert run(["effects", "party * s(date, 4)", "-k", str(cats)]) == 0
    said = capsys.readouterr().out
    assert said.rstrip("\n") == repr(
        topicstream.effects("party * s(date, 4)", topics=[cats], progress=False)
    )
    assert "date: a curve from 2000.16 to 2008.16" in said
    tests = {row["term"]: row for row in found.tests().to_pylist() if row["topic"] == cats}
    assert list(tests) == ["s(date)", "party=red:s(date)"]
    for row in tests.values():
        assert f"F({row['df1']:.4g}, 890) {row['f']:.2f}, p {row['p']:.2g}" in said, said
        assert row["df2"] == 900 - 10
    assert tests["party=red:s(date)"]["p"] < 1e-8
    [bars] = re.findall(r"date, party=red +(\S+)", said)
    assert bars[0] == "▁" and bars[-1] == "█"


def test_ticks_of_a_plot_are_whole_years_and_numbers(place, monkeypatch):
    monkeypatch.chdir(place)
    found = topicstream.effects("date + seats + party", place / "model", place / "corpus.zarr")
    assert found.kinds == {"date": "date", "seats": "whole", "party": "category"}
    assert as_days(
        np.array([as_number("2004-02-29", "date"), as_number("1968-12-31", "date")])
    ).astype(str).tolist() == ["2004-02-29", "1968-12-31"]
    assert run(["effects", "date + seats", "-k", "0", "--plot", "ticks.svg"]) == 0
    ticks = re.findall(r"<text[^>]*>([^<]*)</text>", (place / "ticks.svg").read_text())
    assert {"2002", "2004"} <= set(ticks) and not [
        t for t in ticks if re.fullmatch(r"20\d\d\..*", t)
    ]


def test_a_small_effect_has_digits_and_a_useless_term_no_star(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    assert run(["effects", "clicks", "-k", "0"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"clicks +[+-]0\.00000[0-9]*[1-9]", said) and "warning" not in said
    assert run(["effects", "party * s(rare)"]) == 0
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if " s(rare) " in line or ":s(rare) " in line]
    assert len(lines) == 6 and not [line for line in lines if "*" in line]
    assert not re.search(
        r"\d{4}\.\d\d to|to \d{4}\.\d\d", said.partition("\n   0 ")[2]
    )  # nor do curves go where no document is
    assert run(["effects", "party + date", "-k", "0"]) == 0
    assert (
        "date: measured from 2004.16, for one more (of a date: one more year)"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("formula", "code", "said"),
    [
        ("colour", 3, "column colour: the store has no such column (it has clicks"),
        ("labels", 3, "several values"),
        ("s(party)", 3, "neither a number nor a date"),
        ("odd", 3, "the value x"),
        ("day", 3, "'1/1/2000' is neither a number nor a date, and of"),
        ("party +", 2, "expected a column"),
    ],
)
def test_what_cannot_be_estimated_is_one_line(place, capsys, monkeypatch, formula, code, said):
    monkeypatch.chdir(place)
    assert run(["effects", formula]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 1e-4, 1e-5])
def test_columns_that_are_nearly_the_same_keep_their_errors(noise):
    """The standard errors of predictions agree with those of an orthogonal design, or the column is
    left out.
    """
    rng = np.random.default_rng(4)
    n = 4000
    x = rng.normal(size=n)
    z = rng.normal(size=n)
    design = np.column_stack((np.ones(n), x, x + noise * z))
    shares = rng.dirichlet([1, 2, 3], n)
    tokens = np.full(n, 50.0)
    plain = Regression(["1", "x", "z"], np.full(3, 0.1), 0.3, BytesIO())
    close = Regression(["1", "x", "y"], np.full(3, 0.1), 0.3, BytesIO())
    plain.add(np.column_stack((np.ones(n), x, z)), shares, tokens, names(n))
    close.add(design, shares, tokens, names(n))
    expected = plain.predict(plain.fit(), np.array([[1, 0.5, 1.0]]))
    fit = close.fit()
    found = close.predict(fit, np.array([[1, 0.5, 0.5 + noise]]))
    assert (noise < 1e-3) == (fit.left_out == ["y"])
    np.testing.assert_allclose(found.error, expected.error, rtol=1e-3 if noise >= 1e-3 else 0.5)


def test_no_known_column_is_an_input_error(place):
    with pytest.raises(InputError, match="column x: the store has no such column"):
        topicstream.effects("x", place / "model", place / "corpus.zarr")


def test_of_two_variances_the_wider_interval_counts():
    errors, freedoms = choose_wider([0.04, 0.04, 0.04], [0.01, 0.04, 0.25], 100, [9, 9, 9])
    assert errors.tolist() == [0.2, 0.2, 0.5]
    assert freedoms.tolist() == [100, 9, 9]
    assert reach(9) == pytest.approx(2.262157, abs=1e-6)


def test_effects_under_other_models_say_in_how_many_they_hold(place, tmp_path, capsys, monkeypatch):
    """The same topics in another order agree; a model without one of them says so."""
    base = topicstream.TopicModel.open(place / "model")
    counts = np.asarray(base.phi, np.float32)
    order = np.roll(np.arange(base.n_topics), 1)

    def save(name: str, columns: np.ndarray) -> str:
        model = topicstream.TopicModel.from_arrays(
            counts[:, columns],
            base.vocabulary,
            np.asarray(base.alpha)[columns],
            base.beta,
            tokenizer=base.manifest.tokenizer,
        )
        model.save(tmp_path / name)
        return str(tmp_path / name)

    turned = save("turned", order)
    monkeypatch.chdir(place)
    alone = topicstream.effects("party", progress=False).table()
    both = topicstream.effects("party", also=turned, progress=False).table()
    assert both.select(alone.column_names).equals(alone)
    for row in both.to_pylist():
        assert row["models"] == 2
        assert (row["lowest"], row["highest"]) == pytest.approx((row["estimate"],) * 2, abs=2e-3)
        sure = row["low"] > 0 or row["high"] < 0
        assert row["starred"] in ((2,) if sure and abs(row["z"]) > 3 else (0, 1, 2))
    fewer = save("fewer", order[:-1])
    missing = int(base.column_ids[order[-1]])
    lines = ["effects", "party", "--also", turned, "--also", fewer]
    assert run(lines) == 0
    said = capsys.readouterr().out
    assert f"among this one and {turned}, {fewer}; and the range" in said
    (head,) = [line for line in said.splitlines() if "(in 2 of 3 models)" in line]
    assert head.split()[0] == str(missing)
    assert "* in 3 of 3, " in said
    assert run([*lines, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["also"] == [turned, fewer]
    models = {row["topic"]: row["models"] for row in printed["coefficients"]}
    assert models.pop(missing) == 2 and set(models.values()) == {3}
    assert run(["effects", "s(date)", "--also", turned]) == 0
    assert re.search(r"F\(.*\* in 2 of 2$", capsys.readouterr().out, re.MULTILINE)
    assert run(["effects", "party", "--also", str(tmp_path / "none")]) == 3
