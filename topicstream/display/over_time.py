"""Shares of topics over time and by groups of documents, as a table and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.outputs import written_together
from topicstream.base.options import composed_names, option
from topicstream.base.progress import listener
from topicstream.base.text import escaped, render, render_each, shortened, sparkline
from topicstream.corpus.columns import DATE
from topicstream.display.config import ShowConfig
from topicstream.display.figures import Figure
from topicstream.display.gather import ReportSums, Survey, gather_report, need_time, survey
from topicstream.display.groups import LIMITS
from topicstream.display.periods import GRAINS
from topicstream.display.view import ModelView
from topicstream.evaluation.table_file import TEXT_SUFFIXES, check_table_file, write_table
from topicstream.evaluation.visiting import left_out_text
from topicstream.model.topic_kinds import LIVE

PLOTTED = 12
GROUPS = 24
"""The most frequent values of a column, each a group."""


@dataclass(frozen=True)
class OverTimeView(ModelView, heeds=("topics", "words")):
    """View of the topics' shares over time and by groups."""

    title: ClassVar[str] = "Shares over time and by group (--over-time, --by)"
    over_time: bool = option(
        False,
        "Mean topic shares by period of the column date, with intervals of 95 %.",
    )
    by: str | None = option(
        None,
        "Mean topic shares by the values of a column; with --over-time by both.",
        metavar="COLUMN",
        parse=composed_names,
    )
    contrast: bool = option(
        False,
        "With --by: the words that each group uses more than the others within a topic, by "
        "log-odds with an informative prior (Monroe, Colaresi & Quinn 2008).",
    )
    period: str | None = option(
        None, "Length of a period (default: chosen from the dates).", choices=tuple(GRAINS)
    )
    min_docs: int = option(
        1, "Leave out groups, and periods of groups, with fewer documents.", min=1, metavar="N"
    )
    out: str | None = option(
        None, "Write the table as .parquet, .csv, .jsonl, .tex or .md.", path="file", metavar="FILE"
    )
    plot: str | None = option(
        None, "Draw curves as .svg, .png or .pdf.", path="file", metavar="FILE"
    )
    force: bool = option(False, "Replace an existing output file.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.contrast and self.words != ShowConfig.words:
            raise UsageError(f"-n lists words, which need --contrast here: {self.title}")
        if not self.contrast:
            return
        if self.by is None:
            raise UsageError("--contrast: needs --by COLUMN, whose values are compared")
        for name in ("over_time", "period", "plot"):
            if getattr(self, name):
                raise UsageError(f"--{name.replace('_', '-')} does not apply to --contrast")

    @cached_property
    def contrast_table(self) -> pa.Table:
        """Words by topic and group: a row a word, best first (``contrast.ROWS``)."""
        from topicstream.display.contrast import contrast_words  # its kernel is compiled

        shown = self.shown
        if self.store.width:
            raise InputError(f"{self.store.path}: --contrast: its documents have no words")
        by_size = self.topics is None and not shown.view.ordered
        topics = shown.ranked(shown.model.sizes) if by_size else shown.columns(self.topics)
        return contrast_words(
            shown,
            self.store,
            self._survey().columns[0],
            topics,
            self.words,
            self.memory,
            self.min_docs,
            self.progress,
        )

    @cached_property
    def table(self) -> pa.Table:
        """Mean shares of topics: a row a period, group and topic that has documents.

        Columns: period string, group string (null where not asked for), topic int32, label string,
        kind string (``live``, ``dead`` or ``background``), documents and left_out int64 (without a
        known word), share double, se, low and high double (standard error and interval of 95 %,
        null where no interval would hold, ``Groups``), and slope, slope_se double: the topic's line
        over the years, where there is time.
        """
        shown = self.shown
        store = self.store
        counted = self._survey()
        counted.time = need_time(counted, store) if self.over_time else None
        if counted.time is not None and counted.time.note:
            listener(self.progress).say(f"note: {counted.time.note}")
        columns = shown.columns(self.topics)
        sums = gather_report(
            shown,
            store,
            counted,
            docs=0,
            cross=self.by if self.over_time else None,
            between=False,
            progress=self.progress,
        )
        return self._rows(counted, sums, np.array(columns, np.int64))

    def _survey(self) -> Survey:
        """Count the values that documents are grouped by."""
        if self.by == DATE:
            raise UsageError(
                f"--by {DATE}: use --over-time for dates (--period sets the length of a period)"
            )
        by = [] if self.by is None else [self.by]
        counted = survey(self.store, by=by, grain=self.period, most=GROUPS)
        if by and not counted.columns[0].values:
            raise InputError(f"{self.store.path}: no document has a value of {self.by}")
        return counted

    def _rows(self, counted: Survey, sums: ReportSums, columns: np.ndarray) -> pa.Table:
        """Make the table of sums, for the topics in ``columns`` of the view."""
        time = counted.time
        values: list[str | None] = [*counted.columns[0].values] if self.by is not None else [None]
        names: list[str | None] = [*time.values] if time is not None else [None]
        groups = (
            sums.by_over[self.by]
            if time is not None and self.by is not None
            else sums.by[self.by or DATE]
        )
        means = groups.means()
        filled = np.flatnonzero(groups.docs >= max(1, self.min_docs))
        cell = np.repeat(filled, len(columns))
        column = np.tile(columns, len(filled))

        def take(texts: Sequence[str | None], positions: np.ndarray) -> pa.Array:
            """Make a column of the texts at some positions."""
            return pa.array(texts, pa.string()).take(pa.array(positions))

        arrays = {
            "period": take(names, cell % len(names)),
            "group": take(values, cell // len(names)),
            "topic": pa.array(self.shown.view.numbers[column]),
            "label": take(self.shown.names, column),
            "kind": take(self.shown.model.kinds, column),
            "documents": pa.array(groups.docs[cell].astype(np.int64)),
            "left_out": pa.array(groups.left_out[cell].astype(np.int64)),
        }
        share = means.share[cell, column]
        reach = means.reach[cell, column]
        numbers = {
            "share": share,
            "se": means.error[cell, column],
            "low": np.maximum(share - reach, 0.0),
            "high": np.minimum(share + reach, 1.0),
        }
        if time is not None:
            slope, slope_error = sums.by[DATE].slope(time.years)
            numbers |= {"slope": slope[column], "slope_se": slope_error[column]}
        arrays |= {name: pa.array(values, from_pandas=True) for name, values in numbers.items()}
        about = {
            "grain": time.grain.key if time is not None else "",
            "periods": json.dumps(names),
            "left_out": str(sums.left_out),
        }
        return pa.table(arrays).replace_schema_metadata(about)

    def result(self) -> list[dict[str, Any]]:
        """Compute the rows of the table, and write the files that were asked for."""
        if self.out is not None:  # both files, before the documents are read
            check_table_file(self.out, "--out", force=self.force, text=True)
        if self.contrast:
            return self._write_contrast()
        figure = Figure(self.plot, "--plot", force=self.force) if self.plot is not None else None
        table = self.table
        tell = listener(self.progress)
        note = left_out_text(_left_out(table))
        if note and (self.out is not None or figure is not None):
            tell.say(note)
        drawn = 0
        with written_together():
            if self.out is not None:
                write_table(table, self.out, force=self.force, caption="Shares of topics")
            if figure is not None:
                drawn = plot(table, figure)
        if self.out is not None:
            tell.say(f"{self.out}: {len(table):,} rows")
        if figure is not None:
            topics = len(set(table["topic"].to_pylist()))
            described = (
                f"the {drawn} of {topics} topics whose shares differ most"
                if drawn < topics
                else f"{drawn} topics"
            )
            tell.say(f"{self.plot}: {described}")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def _write_contrast(self) -> list[dict[str, Any]]:
        """Compute the words of groups, and write the file that was asked for."""
        from topicstream.display.contrast import format_for_print

        table = self.contrast_table
        if self.out is not None:
            printed = format_for_print(table) if self.out.endswith(TEXT_SUFFIXES) else table
            caption = f"Words that groups of {self.by} use more than the others, by topic"
            write_table(printed, self.out, force=self.force, caption=caption)
            listener(self.progress).say(f"{self.out}: {len(printed):,} rows")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def lines(self, result: list[dict[str, Any]], width: int | None) -> list[str]:
        """Format a line a topic and group: words, shares, or a curve and its trend."""
        if self.out is not None or self.plot is not None or not result:
            return []
        if self.contrast:
            from topicstream.display.contrast import LIMITS as LIMITS_OF_WORDS
            from topicstream.display.contrast import format_words

            head = f"words that groups of {escaped(self.by)} use more than the others, by topic"
            return [head, *format_words(result), LIMITS_OF_WORDS]
        note = left_out_text(_left_out(self.table))
        notes = [note] if note else []
        if not self.over_time:
            head = f"mean shares of documents by {escaped(self.by)}, ± intervals of 95 %"
            return [head, *bars(result), *notes, *LIMITS]
        about = self.table.schema.metadata
        grain = about[b"grain"].decode()
        periods = json.loads(about[b"periods"])
        head = f"{periods[0]} to {periods[-1]}, mean shares of documents by {grain}"
        return [head, *curves(result, periods, width or 80), *notes]


def _left_out(table: pa.Table) -> int:
    """Count the documents that count in no mean of a table."""
    return int((table.schema.metadata or {})[b"left_out"])


def _half_interval(row: dict[str, Any]) -> float | None:
    """Return half of a row's interval, which the bounds 0 and 1 may cut on one side."""
    return None if row["se"] is None else max(row["high"] - row["share"], row["share"] - row["low"])


def _series(rows: list[dict[str, Any]], *keys: str) -> list[list[dict[str, Any]]]:
    """Group rows by the values of some keys, in order of first appearance."""
    series: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        series.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(series.values())


def bars(rows: list[dict[str, Any]]) -> list[str]:
    """Format shares by group, topic after topic, each from its largest share down."""
    out: list[str] = []
    for series in _series(rows, "topic"):
        label = shortened(series[0]["label"], 26)
        out += render("{topic:>4} {label}", {**series[0], "label": label})
        about = [
            {
                **row,
                "group": shortened(row["group"], 30),
                "reach": _half_interval(row),
                "docs": row["documents"],
                "noun": "document" if row["documents"] == 1 else "documents",
            }
            for row in series
        ]
        about.sort(key=lambda row: -row["share"])
        out += render_each(
            "     {group:30} {share:6.2p} %[ ± {reach:.2p}]  {docs:>9,} {noun}", about
        )
    return out


def curves(rows: list[dict[str, Any]], periods: list[str], width: int) -> list[str]:
    """Draw shares over the same periods, a line a topic and group.

    Parameters
    ----------
    rows
        Rows of the table.
    periods
        Names of all periods; a curve is blank in those without documents.
    width
        Columns of a line.
    """
    out = []
    for series in _series(rows, "topic", "group"):
        first = series[0]
        last = series[-1]
        group = first["group"]
        shares = {row["period"]: row["share"] for row in series}
        slope_known = group is None and first["slope_se"]
        z = first["slope"] / first["slope_se"] if slope_known else 0.0
        trend = ""
        if abs(z) > 2:
            trend = "rising" if z > 0 else "falling"
        label = escaped(shortened(first["label"], 26))
        group_name = escaped(shortened(group or "", 14))
        name = f"{first['topic']:>4} {label:26} " + (f"{group_name:14} " if group else "")
        curve = sparkline(
            [shares.get(period, np.nan) for period in periods], max(8, width - len(name) - 25)
        )
        out.append(
            f"{name}{100 * first['share']:5.1f} %  {curve} {100 * last['share']:5.1f} % "
            f"{trend}".rstrip()
        )
    return out


def plot(table: pa.Table, figure: Figure) -> int:
    """Draw shares with their intervals, a panel a topic, a colour a group.

    Cells of few documents are left out.

    Returns
    -------
    Number of topics drawn: at most twelve, those whose shares differ most.
    """
    frame = {name: np.array(column) for name, column in table.to_pydict().items()}
    for name in ("se", "low", "high"):
        frame[name] = frame[name].astype(np.float64)  # None becomes NaN
    topic = frame["topic"]
    share = frame["share"]
    se = frame["se"]
    drawn = list(dict.fromkeys(topic.tolist()))
    if len(drawn) > PLOTTED:  # how much a topic's shares differ beyond their own errors
        noise = np.nan_to_num(se)
        live = [k for k in drawn if frame["kind"][topic == k][0] == LIVE] or drawn
        spread = {k: float(np.std(share[topic == k]) - np.mean(noise[topic == k])) for k in live}
        drawn = sorted(sorted(live, key=lambda k: -spread[k])[:PLOTTED])
    periods = json.loads((table.schema.metadata or {})[b"periods"])  # those without documents too
    known = frame["documents"] >= min(10, float(np.median(frame["documents"])))
    panels = figure.add_panels(len(drawn), across=3)
    for axis, k in zip(panels, drawn, strict=True):
        cells = topic == k
        figure.set_title(axis, f"{k} {shortened(frame['label'][cells][0], 34)}")
        if periods == [None]:
            _draw_bars(axis, frame, np.flatnonzero(cells)[::-1], figure)
        else:
            _draw_curves(axis, frame, cells & known, periods, figure)
    if periods != [None] and len(set(frame["group"].tolist())) > 1:
        panels[0].legend(fontsize=6, frameon=False)
    figure.save("share of documents, %", across=periods == [None])
    return len(drawn)


def _draw_bars(axis: Any, frame: dict[str, np.ndarray], rows: np.ndarray, figure: Figure) -> None:
    """Draw the shares of a topic in groups, with their intervals, the first group on top."""
    share = 100 * frame["share"][rows]
    reaches = [share - 100 * frame["low"][rows], 100 * frame["high"][rows] - share]
    strength = np.where(np.isnan(reaches[0]), 0.4, 1.0)  # pale: without an interval
    colours = [("C0", alpha) for alpha in strength.tolist()]
    axis.barh(range(len(rows)), share, xerr=reaches, height=0.7, color=colours)
    groups = frame["group"][rows].tolist()
    names = [figure.escape_formulas(shortened(group, 18)) for group in groups]
    axis.set_yticks(range(len(rows)), names, fontsize=6)


def _draw_curves(
    axis: Any, frame: dict[str, np.ndarray], cells: np.ndarray, periods: list[str], figure: Figure
) -> None:
    """Draw the shares of a topic over time, a curve for each group in ``cells``."""
    group = frame["group"]
    top = _axis_top(frame, cells)
    places = np.arange(len(periods))
    for name in dict.fromkeys(group[cells].tolist()):
        rows = np.flatnonzero(cells & (group == name))
        positions = [periods.index(period) for period in frame["period"][rows].tolist()]
        share, low, high = np.full((3, len(periods)), np.nan)  # NaN: the line ends
        share[positions] = 100 * frame["share"][rows]
        low[positions] = 100 * frame["low"][rows]
        high[positions] = 100 * frame["high"][rows]
        label = None if name is None else figure.escape_formulas(shortened(name, 24))
        inside = np.where(share <= top, share, np.nan)
        (line,) = axis.plot(inside, lw=1.2, marker=".", ms=4, label=label)
        colour = line.get_color()
        axis.fill_between(places, low, high, color=colour, alpha=0.18, lw=0)
        isolated = _mark_isolated(high)
        axis.vlines(places[isolated], low[isolated], high[isolated], color=colour, lw=1)
        above = places[share > top]
        if len(above):
            axis.plot(above, np.full(len(above), top), "^", color=colour, ms=4, clip_on=False)
    axis.set_ylim(0, top)
    axis.set_xlim(-0.5, len(periods) - 0.5)
    every = max(1, len(periods) // 4)
    axis.set_xticks(range(0, len(periods), every), periods[::every])


def _axis_top(frame: dict[str, np.ndarray], cells: np.ndarray) -> float:
    """Choose the top of an axis in per cent, from shares that have an interval."""
    high = frame["high"][cells]
    high = high[np.isfinite(high)]
    if len(high):
        return 105 * max(float(high.max()), 1e-6)
    return 105 * max(float(frame["share"][cells].max(initial=0.0)), 1e-6)


def _mark_isolated(values: np.ndarray) -> np.ndarray:
    """Mark values without a neighbour, whose intervals a band does not show, bool[n]."""
    known = np.isfinite(values)
    before = np.append(False, known[:-1])
    after = np.append(known[1:], False)
    return np.asarray(known & ~before & ~after)
