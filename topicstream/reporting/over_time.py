"""Shares of topics over time and by groups of documents, with standard errors, as a table; and a plot of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, TopicsError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.memory import open_within
from topicstream.files.outputs import check_output, written
from topicstream.model.edits import seen, view_of
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Told
from topicstream.reporting.gather import DATE, gather_report, need_time, survey
from topicstream.reporting.labels import propose
from topicstream.reporting.sparkline import sparkline

PLOTTED = 12


def over_time(
    model: str | Path | TopicModel = "model",
    corpus: str | Path | Corpus = "corpus.zarr",
    *,
    time: bool = True,
    by: str | None = None,
    period: str | None = None,
    groups: int = 24,
    topics: Sequence[int] | None = None,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    progress: Told = None,
) -> pa.Table:
    """Mean shares of topics: a row a period, group and topic that has documents.

    time    by periods of the column ``date``;  period: day, week, month, quarter, year, decade, century; None: by the dates
    by      by the values of this column, the ``groups`` most frequent ones (a document of several counts in each)
    topics  only these (stable numbers); None: all, in the view's order

    Columns: period string, group string (null where not asked for), topic int32, label string, documents int64, share
    double, se double (see ``effects``), and slope, slope_se double: the topic's line over the years, where there is time.
    """
    opened, workers = open_within(model, mem_limit, threads)
    view = view_of(opened)
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    strangers(opened, store)
    if not time and by is None:
        raise InputError("shares over what? give --over-time, --by COLUMN or both")
    if by == DATE:
        raise UsageError(f"--by {DATE}: shares over dates are --over-time (--period says how long a period is)")
    found = survey(store, by=[by] if by else [], grain=period, most=groups)
    if time:
        need_time(found, store)
    else:
        found.time = None
    if by is not None and not any(c.values for c in found.columns):
        raise InputError(f"{store.path}: no document has a value of {by}")
    chosen = list(range(len(view))) if topics is None else [view.column_of(k) for k in topics]
    sums = gather_report(
        opened,
        view,
        store,
        found,
        docs=0,
        cross=time and by is not None,
        links=False,
        threads=workers,
        progress=progress,
    )
    values: list[str | None] = list(found.columns[0].values) if by and found.columns else [None]
    if time and found.time is not None:
        names: list[str | None] = list(found.time.names)
        of = sums.by_over[by] if by is not None and by in sums.by_over else sums.over
    else:
        names = [None]
        of = sums.by[by] if by is not None else None
    assert of is not None
    share, error = of.shares()
    slope = slope_error = np.full(len(view), np.nan)
    if found.time is not None and sums.over is not None:
        slope, slope_error = sums.over.slope(found.time.years)
    proposals = propose(seen(opened, view))
    labels = [view.labels.get(k, proposals[j]) for j, k in enumerate(view.ids)]
    filled = np.flatnonzero(of.docs > 0)
    cell = np.repeat(filled, len(chosen))
    column = np.tile(np.array(chosen, np.int64), len(filled))

    def text(listed: list[str | None], at: np.ndarray) -> pa.Array:
        return pa.array(listed, pa.string()).take(pa.array(at))

    columns: dict[str, Any] = {
        "period": text(names, cell % len(names)),
        "group": text(values, cell // len(names)),
        "topic": pa.array(view.numbers[column]),
        "label": text(list(labels), column),
        "documents": pa.array(of.docs[cell].astype(np.int64)),
        "share": pa.array(share[cell, column]),
        "se": pa.array(error[cell, column]),
    }
    if time:
        columns |= {"slope": pa.array(slope[column]), "slope_se": pa.array(slope_error[column])}
    return pa.table(columns).replace_schema_metadata(
        {"grain": found.time.grain.key if found.time else "", "periods": json.dumps(names)}
    )


def lines(table: pa.Table, width: int = 80) -> list[str]:
    """For people: a line a topic (and group): first and last share, the curve between them, the trend."""
    out: list[str] = []
    rows = table.to_pylist()
    timed = bool(rows) and rows[0]["period"] is not None
    series: dict[tuple[int, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["topic"], row["group"]) if timed else (row["topic"], None)
        series.setdefault(key, []).append(row)
    for (topic, group), mine in series.items():
        name = f"{topic:>4} {_fit(mine[0]['label'], 26):26} " + (f"{_fit(group or '', 14):14} " if group else "")
        if not timed:
            out.append(name.rstrip())
            for row in sorted(mine, key=lambda r: -r["share"]):
                out.append(
                    f"     {_fit(row['group'], 30):30} {100 * row['share']:6.2f} % ± {200 * row['se']:.2f}  {row['documents']:>9,} documents"
                )
            continue
        trend = ""
        if group is None and mine[0].get("slope_se"):
            z = mine[0]["slope"] / mine[0]["slope_se"]
            trend = "rising " if z > 2 else "falling" if z < -2 else "       "
        shares = [row["share"] for row in mine]
        room = max(8, width - len(name) - len(trend) - 18)
        curve = sparkline(shares, room)
        out.append(f"{name}{100 * shares[0]:5.1f} %  {curve} {100 * shares[-1]:5.1f} % {trend}".rstrip())
    if timed and rows:
        out.insert(0, f"{rows[0]['period']} to {rows[-1]['period']}, mean shares of documents by {_grain(table)}")
    return out


def _grain(table: pa.Table) -> str:
    return str((table.schema.metadata or {}).get(b"grain", b"period").decode())


def _fit(text: str, n: int) -> str:
    from topicstream.errors import one_line

    text = one_line(text)
    return text if len(text) <= n else text[: n - 1] + "…"


def plot(table: pa.Table, path: str | Path, *, force: bool = False) -> int:
    """Curves with bands of two standard errors to ``.svg``, ``.png`` or ``.pdf``: a panel a topic, a colour a group; returns the
    topics drawn (twelve at most: those whose shares differ most).  TopicsError without matplotlib."""
    place, pyplot = figure_file(path, force=force)
    frame = table.to_pydict()
    topic, share, se = np.array(frame["topic"]), np.array(frame["share"]), np.array(frame["se"])
    shown = list(dict.fromkeys(frame["topic"]))
    if len(shown) > PLOTTED:
        # how much a topic's shares differ beyond their own errors
        spread = {k: float(np.std(share[topic == k]) - np.mean(se[topic == k])) for k in shown}
        shown = sorted(sorted(shown, key=lambda k: -spread[k])[:PLOTTED])
    periods = json.loads((table.schema.metadata or {})[b"periods"])  # those without documents too
    groups = list(dict.fromkeys(frame["group"]))
    timed = periods != [None]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure, axes = pyplot.subplots(down, across, figsize=(4 * across, 2.4 * down), squeeze=False)
    group_of, period_of = (
        np.array([groups.index(g) for g in frame["group"]]),
        np.array([periods.index(p) for p in frame["period"]]),
    )
    for axis, k in zip(axes.flat, shown, strict=False):
        mine = topic == k
        label = frame["label"][int(np.flatnonzero(mine)[0])]
        axis.set_title(f"{k} {_fit(label, 34)}".replace("$", r"\$"), loc="left", fontsize=8)
        if timed:
            for g, name in enumerate(groups):
                at = np.flatnonzero(mine & (group_of == g))
                at = at[np.argsort(period_of[at])]
                (line,) = axis.plot(
                    period_of[at],
                    100 * share[at],
                    lw=1.2,
                    label=None if name is None else _fit(name, 24).replace("$", r"\$"),
                )
                low, high = 100 * (share[at] - 2 * se[at]), 100 * (share[at] + 2 * se[at])
                axis.fill_between(period_of[at], np.maximum(low, 0), high, color=line.get_color(), alpha=0.18, lw=0)
            top = float(np.quantile(share[mine] + 2 * se[mine], 0.9)) if mine.any() else 0.0
            axis.set_ylim(0, 105 * max(top, float(share[mine].max(initial=0)), 1e-6))
            every = max(1, len(periods) // 4)
            axis.set_xticks(range(0, len(periods), every), [str(p) for p in periods[::every]])
        else:
            at = np.flatnonzero(mine)[::-1]
            axis.barh(range(len(at)), 100 * share[at], xerr=200 * se[at], height=0.7)
            axis.set_yticks(range(len(at)), [_fit(frame["group"][i], 18).replace("$", r"\$") for i in at], fontsize=6)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_axis_off()
    if timed and len(groups) > 1:
        axes.flat[0].legend(fontsize=6, frameon=False)
    figure.supylabel("share of documents, %" if timed else "", fontsize=8)
    figure.tight_layout()
    save_figure(figure, place, force=force)
    return len(shown)


def figure_file(path: str | Path, *, force: bool) -> tuple[Path, Any]:
    """The place of a figure, checked, and pyplot; TopicsError without matplotlib."""
    place = Path(path)
    if place.suffix not in METADATA:
        raise UsageError(f"--plot {path}: the name must end in {', '.join(METADATA)}")
    if not place.parent.is_dir():
        raise UsageError(f"--plot {path}: no such folder {place.parent}")
    check_output(place, "--plot", force=force, reads=_drawn_by_us)
    try:
        import matplotlib
    except ImportError:
        raise TopicsError("--plot needs matplotlib: pip install 'topicstream[plot]'") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "topics", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    return place, pyplot


METADATA: dict[str, Any] = {
    ".svg": {"Creator": "topicstream", "Date": None},
    ".png": {"Software": "topicstream"},
    ".pdf": {"Creator": "topicstream", "CreationDate": None},
}


def _drawn_by_us(file: BinaryIO) -> bool:
    data = file.read(1 << 26)
    marks = b"<dc:title>topicstream</dc:title>", b"Software\0topicstream", b"/Creator (topicstream)"
    return any(mark in data for mark in marks)


def save_figure(figure: Any, place: Path, *, force: bool) -> None:
    """Write a figure and close it; the same figure gives the same bytes."""
    from matplotlib import pyplot

    with written(place, force=force, option="--plot", reads=_drawn_by_us) as file:
        figure.savefig(file, format=place.suffix[1:], dpi=120, metadata=METADATA[place.suffix])
    pyplot.close(figure)
