"""Shares over time and by group with their standard errors."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import topicstream
from tests import DATA
from tests.report_store import made, planted_model
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display import periods
from topicstream.display.groups import Groups
from topicstream.display.over_time import OverTimeView, curves, plot
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import BlockShares, document_shares
from topicstream.model.topic_model import TopicModel

ACL = DATA / "acl" / "docs.jsonl.gz"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("over")
    corpus, rows = made(folder, 300)
    model = planted_model(corpus, folder / "model")
    names = {}
    for numbers, batch in stream_documents(corpus, False, ["id"]):
        names.update(zip(numbers.tolist(), batch.column("id").to_pylist(), strict=True))
    by_id = {r["id"]: r for r in rows}
    return folder, corpus, model, [by_id[names[d]] for d in range(corpus.n_docs)]


def sums(theta, codes, groups, tokens=None, wholes=None):
    by = Groups(groups, theta.shape[1])
    tokens = np.ones(len(theta)) if tokens is None else tokens
    for first in range(0, len(theta), 70):  # in pieces, as a stream comes
        piece = slice(first, first + 70)
        block = BlockShares(first, theta[piece], tokens[piece])
        docs = np.arange(len(block.shares))
        by.add(docs, codes[piece], block, None if wholes is None else wholes[piece])
    return by


def bootstrap(theta, draws, rng, statistic=lambda sample: sample.mean(axis=0)):
    """Standard deviation of a statistic over documents that are drawn again."""
    every = [statistic(theta[rng.integers(0, len(theta), len(theta))]) for _ in range(draws)]
    return np.std(every, axis=0, ddof=1)


def test_intervals_are_each_groups_own():
    """A topic that fills one group and is rare in another: errors as of documents drawn again."""
    rng = np.random.default_rng(4)
    concentrations = ([5.0, 1.0, 0.5], [0.05, 1.0, 4.0], [0.3, 0.3, 0.3])
    sizes = [400, 900, 150]
    parts = [rng.dirichlet(c, n) for c, n in zip(concentrations, sizes, strict=True)]
    theta = np.concatenate(parts)
    order = rng.permutation(len(theta))
    codes = np.repeat(np.arange(3), sizes)[order]
    means = sums(theta[order], codes, 3).means()
    for g, mine in enumerate(parts):
        n = len(mine)
        assert np.allclose(means.share[g], mine.mean(axis=0), rtol=1e-9)
        assert np.allclose(means.error[g], mine.std(axis=0, ddof=1) / np.sqrt(n), rtol=1e-6)
        assert np.allclose(means.error[g], bootstrap(mine, 2000, rng), rtol=0.08)
        worth = n * np.minimum(mine.mean(axis=0), 1 - mine.mean(axis=0))
        student = scipy.stats.t(np.minimum(n - 1, 2 * worth)).ppf(0.975)
        assert np.allclose(means.reach[g], student * means.error[g], rtol=1e-6)
    # one variance for all groups would be wrong by half and more
    assert means.error[0, 0] / means.error[1, 0] > 4


def test_no_interval_of_few_documents_or_of_little_of_a_topic():
    rng = np.random.default_rng(5)
    for n, share, shown in (
        (9, 0.5, 0),
        (12, 0.45, 1),
        (100, 0.04, 0),
        (100, 0.06, 1),
        (40, 0.9, 0),
    ):
        first = np.clip(rng.normal(share, 0.001, n), 0, 1)
        first += share - first.mean()
        means = sums(np.stack([first, 1 - first], axis=1), np.zeros(n, int), 1).means()
        assert np.isfinite([means.error, means.reach]).all() == bool(shown), (n, share)
        assert np.isfinite(means.share).all()


def test_documents_without_a_known_word_are_in_no_mean_but_counted():
    theta = np.array([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3], [0.5, 0.5]])
    by = sums(theta, np.array([0, 0, 0, 1]), 2, tokens=np.array([4.0, 0.0, 2.0, 0.0]))
    assert by.docs.tolist() == [2, 0] and by.left_out.tolist() == [1, 1]
    assert by.means().share[0] == pytest.approx([0.8, 0.2])
    assert np.isnan(by.means().share[1]).all()


def test_the_slope_is_as_sure_as_documents_drawn_again():
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 5, 500)
    at = np.array([0.0, 1.0, 2.0, 4.0, 9.0])
    alpha = np.array([[0.2 + 0.1 * g, 1.0, 0.5] for g in range(5)])
    theta = np.stack([rng.dirichlet(alpha[g]) for g in codes])
    slope, error = sums(theta, codes, 5).slope(at)

    def fitted(rows):
        design = np.stack([np.ones(len(rows)), at[rows[:, -1].astype(int)]], axis=1)
        return np.linalg.lstsq(design, rows[:, :-1], rcond=None)[0][1]

    rows = np.column_stack([theta, codes])
    assert np.allclose(slope, fitted(rows), atol=1e-9)
    spread = bootstrap(rows, 1500, rng, fitted)
    assert (error > 0.93 * spread).all() and (error < 1.35 * spread).all()


def test_no_slope_of_few_documents_or_of_one_period():
    rng = np.random.default_rng(7)
    theta = rng.dirichlet(np.ones(3), 200)
    for codes in (np.arange(20) % 4, np.zeros(200, int), np.append(np.zeros(199, int), 3)):
        slope, error = sums(theta[: len(codes)], codes, 4).slope(np.arange(4.0))
        assert np.isnan(slope).all() and np.isnan(error).all()


@pytest.mark.skipif(not ACL.exists(), reason="needs ../shared/data/acl")
def test_errors_on_acl_are_those_of_documents_drawn_again(tmp_path):
    import gzip

    with gzip.open(ACL, "rt") as lines:
        rows = [json.loads(next(lines)) for _ in range(6000)][::3]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c", meta={"date": "date"})
    topicstream.train(tmp_path / "c", tmp_path / "m", topics=10, passes=10, algo="atbp")
    corpus = Corpus.open(tmp_path / "c")
    model = TopicModel.open(tmp_path / "m")
    table = OverTimeView(model, corpus, over_time=True, period="decade").table
    theta = np.concatenate([p[1] for p in document_shares(model, corpus)]).astype(np.float64)
    known = np.concatenate([p[2] for p in document_shares(model, corpus)]) > 0
    decade = np.empty(corpus.n_docs, object)
    for numbers, batch in stream_documents(corpus, False, ["date"]):
        decade[numbers] = [f"{d[:3]}0s" for d in batch.column("date").to_pylist()]
    names = sorted(set(decade))
    assert list(dict.fromkeys(table["period"].to_pylist())) == names
    rng = np.random.default_rng(0)
    shown = 0
    for i, name in enumerate(names):
        mine = theta[(decade == name) & known]
        spread = bootstrap(mine, 500, rng)
        for row in table.slice(10 * i, 10).to_pylist():
            assert row["share"] == pytest.approx(mine[:, row["topic"]].mean(), abs=1e-5)
            if row["se"] is not None:
                assert row["se"] == pytest.approx(spread[row["topic"]], rel=0.15)
                shown += 1
    assert shown > 20


def test_over_time_and_by(stored):
    folder, corpus, model, rows = stored
    theta = np.concatenate([t for _, t, _ in document_shares(model, corpus)]).astype(np.float64)
    table = OverTimeView(folder / "model", corpus, over_time=True, by="party", period="year").table
    assert set(table["group"].to_pylist()) == {"red", "blue"}
    for row in table.to_pylist()[::7]:
        mine = [r["date"][:4] == row["period"] and r["party"] == row["group"] for r in rows]
        assert row["documents"] == sum(mine) and row["share"] == pytest.approx(
            theta[mine, row["topic"]].mean(), abs=1e-5
        )
    most = max(table["documents"].to_pylist())
    for least in (most, most + 1):
        larger = OverTimeView(
            folder / "model", corpus, over_time=True, by="party", period="year", min_docs=least
        ).table
        assert larger.to_pylist() == [r for r in table.to_pylist() if r["documents"] >= least]
    table = OverTimeView(folder / "model", corpus, by="labels", topics=[3]).table
    share = dict(zip(table["group"].to_pylist(), table["share"].to_pylist(), strict=True))
    assert share["kitchen"] > 2 * share["all"] and set(table["topic"].to_pylist()) == {3}
    with pytest.raises(InputError, match="no such column"):
        OverTimeView(folder / "model", corpus, over_time=True, by="venue").table  # noqa: B018


def test_the_command_and_its_plot(stored, tmp_path, capsys):
    folder, _, _, _ = stored
    args = ["show", "--model", str(folder / "model"), "--corpus", str(folder / "corpus.zarr")]
    assert run([*args, "--over-time"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert (
        len(said) == 5
        and "rising" in next(line for line in said if "ships" in line)
        and max(map(len, said)) <= 80
    )
    out = tmp_path / "t.parquet"
    plot = tmp_path / "p.svg"
    assert run([*args, "--by", "party", "--out", str(tmp_path / "t.tex")]) == 0
    assert r"\toprule" in (tmp_path / "t.tex").read_text()
    assert run([*args, "--over-time", "--by", "party", "--out", str(out), "--plot", str(plot)]) == 0
    assert pq.read_table(out).num_rows == 40 and plot.read_text().startswith("<?xml")
    first = plot.read_bytes()
    assert run([*args, "--over-time", "--by", "party", "--plot", str(plot)]) == 1
    assert run([*args, "--over-time", "--by", "party", "--plot", str(plot), "--force"]) == 0
    assert plot.read_bytes() == first
    plot.write_text("<svg>mine</svg>")
    assert run([*args, "--over-time", "--plot", str(plot)]) == 1 and "mine" in plot.read_text()
    assert run([*args, "--over-time", "--plot", str(plot), "--force"]) == 0
    assert "mine" not in plot.read_text()
    (tmp_path / "mine.csv").write_text("a,b\n")
    assert run([*args, "--over-time", "--out", str(tmp_path / "mine.csv")]) == 1
    assert (tmp_path / "mine.csv").read_text() == "a,b\n"
    assert run([*args, "--plot", str(plot)]) == 2 and run([*args, "--over-time", "--tree"]) == 2
    assert run([*args, "--by", "party", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {r["group"] for r in rows} == {"red", "blue"}
    assert run([*args, "--by", "party"]) == 0
    head, _, first, *_ = capsys.readouterr().out.splitlines()
    row = max((r for r in rows if r["topic"] == rows[0]["topic"]), key=lambda r: r["share"])
    assert head == "mean shares of documents by party, ± intervals of 95 %"
    assert first.split()[:5] == [
        row["group"],
        f"{100 * row['share']:.2f}",
        "%",
        "±",
        f"{100 * (row['high'] - row['share']):.2f}",
    ]


def test_what_cannot_be_shown_is_said_before_the_documents_are_read(
    stored, tmp_path, monkeypatch, capsys
):
    folder, corpus, _, rows = stored
    base = ["show", "--model", str(folder / "model"), "--corpus", str(corpus.path)]
    assert run([*base, "--by", "date"]) == 2 and "--over-time" in capsys.readouterr().err
    bare = tmp_path / "bare.zarr"
    topicstream.ingest(
        [{"text": r["text"], "mood": None, "date": "1999"} for r in rows],
        out=bare,
        meta=["mood", "date"],
        min_df=1,
        progress=False,
    )
    empty = ["show", "--model", str(folder / "model"), "--corpus", str(bare), "--by", "mood"]
    for more in ([], ["--over-time", "--plot", str(tmp_path / "a.svg")]):
        assert (
            run([*empty, *more]) == 3
            and "no document has a value of mood" in capsys.readouterr().err
        )
    assert not list(tmp_path.glob("a.*"))
    monkeypatch.setattr("topicstream.display.over_time.gather_report", None)
    for option, name in (
        ("--out", "x.txt"),
        ("--plot", "x.txt"),
        ("--out", "none/x.csv"),
        ("--plot", "none/x.svg"),
    ):
        assert run([*base, "--over-time", option, str(tmp_path / name)]) == 2
    assert (
        run(["update", "new.jsonl"]) == 2
        and "`topics ingest FILE --append`" in capsys.readouterr().err
    )


def test_the_period_is_that_of_all_groups(stored, tmp_path, capsys):
    folder, _, _, rows = stored
    dates = ["2006", "2012", "2006", "2007"]  # of red, red, red, blue
    documents = [
        {"text": r["text"], "date": dates[i % 4], "party": "blue" if i % 4 == 3 else "red"}
        for i, r in enumerate(rows)
    ]
    topicstream.ingest(
        documents,
        out=tmp_path / "c.zarr",
        meta=["party", "date"],
        min_df=1,
        heldout=0,
        progress=False,
    )
    given = [
        "show",
        "--model",
        str(folder / "model"),
        "--corpus",
        str(tmp_path / "c.zarr"),
        "--over-time",
        "--by",
        "party",
    ]
    assert run([*given, "--period", "year"]) == 0
    assert capsys.readouterr().out.startswith("2006 to 2012, mean shares of documents by year")


def test_years_without_documents_are_blank_and_groups_lie_over_the_same_years():
    years = [str(year) for year in range(2006, 2013)]

    def row(period, group, share):
        return {
            "topic": 0,
            "label": "ships",
            "group": group,
            "period": period,
            "share": share,
            "slope": 0.0,
            "slope_se": 0.0,
        }

    rows = [
        row("2006", "red", 0.1),
        row("2012", "red", 0.3),
        row("2007", "blue", 0.3),
        row("2008", "blue", 0.1),
    ]
    red, blue = curves(rows, years, 120)
    assert "10.0 %  ▁     █  30.0 %" in red and "30.0 %   █▁      10.0 %" in blue


def test_no_dates_say_what_to_do(tmp_path):
    corpus, _ = made(tmp_path, 100, meta=False)
    model = planted_model(corpus)
    with pytest.raises(InputError, match="--meta date=FIELD"):
        OverTimeView(model, corpus, over_time=True).table  # noqa: B018


def test_a_few_mistyped_dates_do_not_stretch_the_axis(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    years = Counter({(y, 0, 0): 100 for y in range(2000, 2020)})
    wrong = Counter({(201, 0, 0): 1, (2109, 5, 1): 2})
    grain, numbers, strays = periods.choose_without_strays(years | wrong)
    assert (grain.key, numbers, strays) == ("year", range(2000, 2020), wrong)
    few = Counter(
        {(1990, 0, 0): 1}
    )  # no matter for an axis of years, nor are the tenth part of all mistyped
    assert periods.choose_without_strays(years | few)[1:] == (range(1990, 2020), Counter())
    assert periods.choose_without_strays(years | Counter({(1500, 0, 0): 200}))[2] == Counter()
    rows = [
        {
            "text": f"ship sail {'sea' if d % 2 else 'star moon'}",
            "date": str(2000 + d % 20),
            "author": f"a{d % 40}",
            "wing": f"w{d % 2}",
        }
        for d in range(600)
    ]
    rows[7]["date"] = "0201"
    topicstream.ingest(
        rows, "corpus.zarr", meta="date,author,wing", heldout=0, min_df=1, progress=False
    )
    topicstream.train("corpus.zarr", "model", topics=2, passes=2, progress=False)
    assert run(["show", "--over-time"]) == 0
    shown = capsys.readouterr()
    assert "2000 to 2019, mean shares of documents by year" in shown.out
    note = "Left out of the periods: 1 document dated far from all others (0201)"
    page = topicstream.report("model", "corpus.zarr", progress=False)
    assert (
        f"note: {note}" in shown.err
        and f"{note}." in page["notes"]
        and page["columns"] == ["wing", "author"]
    )  # few groups first


def test_parts_of_a_document_are_no_independent_documents():
    """Errors are as large as means and slopes scatter when documents are drawn again, of one part
    or of twenty.
    """
    rng = np.random.default_rng(8)
    sizes = rng.integers(1, 21, 180)
    at = np.array([0.0, 3.0, 4.0])
    wholes = np.repeat(np.arange(180), sizes)
    codes = (np.arange(180) % 3)[wholes]
    shares = []
    errors = []
    slopes = []
    slope_errors = []
    for _ in range(400):
        of_books = rng.normal(0, 0.1, 180)[wholes]
        theta = 0.5 + 0.02 * at[codes] + of_books + rng.normal(0, 0.02, len(wholes))
        by = sums(np.stack([theta, 1 - theta], axis=1), codes, 3, wholes=wholes)
        means = by.means()
        shares.append(means.share[:, 0])
        errors.append(means.error[:, 0])
        slope, error = by.slope(at)
        slopes.append(slope[0])
        slope_errors.append(error[0])
    assert np.allclose(np.std(shares, axis=0), np.sqrt(np.mean(np.square(errors), 0)), rtol=0.12)
    assert np.isclose(np.std(slopes), np.sqrt(np.mean(np.square(slope_errors))), rtol=0.12)


def test_a_topic_of_a_few_long_documents_has_no_interval():
    """Four documents of 20 parts have all of a topic, 100 of one part have none of it."""
    for long, shown in ((4, False), (8, True)):
        sizes = np.append(np.ones(100, int), np.full(long, 80 // long))
        wholes = np.repeat(np.arange(len(sizes)), sizes)
        theta = np.where((wholes >= 100)[:, None], [0.95, 0.05], [0.01, 0.99])
        means = sums(theta, np.zeros(len(wholes), int), 1, wholes=wholes).means()
        assert means.share[0, 0] == pytest.approx((80 * 0.95 + 100 * 0.01) / 180)
        assert np.isfinite(means.reach).all() == shown


def test_whole_documents_as_parts_of_themselves_change_nothing():
    rng = np.random.default_rng(9)
    theta = rng.dirichlet(np.ones(3), 250)
    codes = rng.integers(0, 4, 250)
    at = np.arange(4.0)
    parts = sums(theta, codes, 4, wholes=np.arange(250))
    whole = sums(theta, codes, 4)
    for one, other in zip(
        (*parts.means(), *parts.slope(at)), (*whole.means(), *whole.slope(at)), strict=True
    ):
        assert np.isfinite(one).all() and np.allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("appended", [False, True])
def test_errors_of_a_store_of_parts(tmp_path, monkeypatch, appended):
    """Documents of four equal parts: as sure as the documents, not as if there were four times as
    many. Appended to whole documents without a value, they are no surer.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    words = np.array(["ship", "sail", "sea", "star", "moon", "night"])
    texts = [
        " ".join(rng.choice(words, 6, p=rng.permutation([0.3, 0.3, 0.3, 0.04, 0.03, 0.03])))
        for _ in range(40)
    ]
    rows = [
        {"id": str(d), "text": f"{text} " * 4, "date": str(2000 + d % 4), "side": "ab"[d % 2]}
        for d, text in enumerate(texts)
    ]
    given = {"meta": ["date", "side"], "heldout": 0, "min_df": 1, "max_df": 1.0, "progress": False}
    whole = 0
    if appended:
        before = [{"id": f"w{d}", "text": text} for d, text in enumerate(texts[:12])]
        whole = len(before)
        topicstream.ingest(before, "corpus.zarr", **{**given, "meta": []})
        given = {"meta": given["meta"], "append": True, "progress": False}
    topicstream.ingest(rows, "corpus.zarr", split="6 words", **given)
    topicstream.train("corpus.zarr", "model", topics=2, passes=5, progress=False)
    corpus = Corpus.open("corpus.zarr")
    model = TopicModel.open("model")
    assert corpus.n_docs == whole + 160
    theta = np.concatenate([t for _, t, _ in document_shares(model, corpus)]).astype(np.float64)[
        :, 0
    ]
    side = np.empty(whole + 160, object)
    for numbers, batch in stream_documents(corpus, False, ["side"]):
        side[numbers] = batch.column("side").to_pylist()
    table = OverTimeView(model, corpus, by="side", topics=[0]).table.to_pylist()
    for row in table:
        of_books = theta[side == row["group"]].reshape(20, 4).mean(axis=1)
        alone = of_books.std(ddof=1) / np.sqrt(20)
        assert row["documents"] == 80 and row["se"] == pytest.approx(alone, rel=1e-3)
    assert topicstream.report("model", "corpus.zarr", progress=False)["notes"] == []


def plotted(rows, years):
    """The axes of a plot of rows (group, year, documents, share, reach or None), in per cent."""
    from matplotlib import pyplot

    table = pa.Table.from_pylist(
        [
            {
                "period": year,
                "group": group,
                "topic": 0,
                "label": "ships",
                "documents": n,
                "share": share / 100,
                "se": None if reach is None else reach / 200,
                "low": None if reach is None else (share - reach) / 100,
                "high": None if reach is None else (share + reach) / 100,
            }
            for group, year, n, share, reach in rows
        ]
    )
    figure, axes = pyplot.subplots(1, 1)

    class OnePanel:
        add_panels = staticmethod(lambda *_, **__: [axes])
        set_title = staticmethod(lambda *_: None)
        escape_formulas = staticmethod(str)
        save = staticmethod(lambda *_, **__: None)

    about = {"periods": json.dumps(years), "grain": "year", "left_out": "0"}
    assert plot(table.replace_schema_metadata(about), OnePanel()) == 1
    pyplot.close(figure)
    return axes


def test_periods_without_an_interval_do_not_stretch_the_axis():
    years = [str(year) for year in range(2000, 2006)]
    rows = [("red", year, 50, 20.0, 5.0) for year in years[:4]]
    rows += [("red", "2005", 12, 90.0, None), ("blue", "2002", 40, 25.0, 6.0)]
    rows += [("lone", "2003", 2, 99.0, None)]
    axes = plotted(rows, years)
    assert axes.get_ylim() == (0, pytest.approx(1.05 * 31))
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["red", "blue"]  # of the third group nothing is drawn
    red, above, blue = axes.get_lines()
    assert np.nanmax(red.get_ydata()) == pytest.approx(20) and blue.get_marker() == "."
    assert above.get_marker() == "^" and above.get_xdata().tolist() == [5]
    # the interval of a single period is a line, for a band shows nothing of it
    lines = [c for c in axes.collections if type(c).__name__ == "LineCollection"]
    segments = [segment.tolist() for c in lines for segment in c.get_segments()]
    assert segments == [[[2, pytest.approx(19)], [2, pytest.approx(31)]]]


def test_bars_without_an_interval_are_pale():
    rows = [("red", None, 50, 20.0, 5.0), ("lone", None, 3, 90.0, None)]
    axes = plotted(rows, [None])
    assert [bar.get_alpha() or bar.get_facecolor()[3] for bar in axes.patches] == [0.4, 1.0]


def test_intervals_end_at_nothing_and_at_all():
    share = np.array([[0.1, 0.9], [0.4, 0.6], [0.5, 0.5]])
    reach = np.array([[0.15, 0.15], [0.1, 0.1], [np.nan, np.nan]])
    means = SimpleNamespace(share=share, reach=reach, error=reach / 2)
    groups = SimpleNamespace(
        means=lambda: means, docs=np.array([5.0, 9.0, 2.0]), left_out=np.array([1, 0, 0])
    )
    view = SimpleNamespace(
        by="party",
        min_docs=0,
        shown=SimpleNamespace(
            view=SimpleNamespace(numbers=np.array([4, 8])),
            names=["one", "two"],
            model=SimpleNamespace(kinds=["topic", "topic"]),
        ),
    )
    counted = SimpleNamespace(time=None, columns=[SimpleNamespace(values=["red", "blue", "old"])])
    sums = SimpleNamespace(by={"party": groups}, left_out=0)
    table = OverTimeView._rows(view, counted, sums, np.array([0, 1]))
    rows = [(r["group"], r["topic"], r["low"], r["high"]) for r in table.to_pylist()]
    assert rows == [
        ("red", 4, 0.0, 0.25),
        ("red", 8, 0.75, 1.0),
        ("blue", 4, pytest.approx(0.3), pytest.approx(0.5)),
        ("blue", 8, pytest.approx(0.5), pytest.approx(0.7)),
        ("old", 4, None, None),
        ("old", 8, None, None),
    ]
