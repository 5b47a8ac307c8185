"""What a report says of the documents, from one stream over the corpus: sums, never the documents' topics themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.evaluation.keys import documents
from topicstream.machine import one_blas_thread
from topicstream.model.edits import View
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Told, listener
from topicstream.reporting import periods
from topicstream.reporting.doc_topics import shares_and_tokens
from topicstream.reporting.effects import Groups
from topicstream.reporting.metadata import Metadata, check_columns, codes_of, columns_of

DATE = "date"
MOST_GROUPS = 24
HELD = 1 << 18
"""Different values of a column that are counted at a time; the rarer ones are forgotten beyond that."""
LINKED = 1 << 18
"""Documents that links between topics are computed from: all, or in a larger corpus every n-th block (the correlations'
own errors are then 0.002)."""


@dataclass
class Column:
    """A column's groups: the values with the most documents.  distinct: different values seen (a lower bound)."""

    name: str
    values: list[str]
    counts: list[int]
    distinct: int
    filled: int


@dataclass
class Time:
    """The periods of the date column."""

    grain: periods.Grain
    numbers: list[int]

    @property
    def names(self) -> list[str]:
        return [self.grain.name(n) for n in self.numbers]

    @property
    def years(self) -> np.ndarray:
        """Years since the first period, float64[G]."""
        return (np.array(self.numbers, np.float64) - self.numbers[0]) * self.grain.years


@dataclass
class Survey:
    """What the documents' table has to group by."""

    time: Time | None
    columns: list[Column]


@dataclass
class Gathered:
    """Sums over the training documents, of the topics shown.

    docs     documents;  share: float64[K], mean of p(k|d);  first: int64[K], documents whose largest topic it is
    top      typical documents: best.ids int64[n, K] (global numbers), best.scores
    over     by period;  by: column -> Groups;  by_over: column -> Groups of
             (value, period), value-major
    product  float64[K, K], sum of m m';  linked: documents in it
    """

    docs: int
    share: np.ndarray
    first: np.ndarray
    top: Best
    over: Groups | None
    by: dict[str, Groups]
    by_over: dict[str, Groups] = field(default_factory=dict)
    product: np.ndarray | None = None
    linked: int = 0


def survey(
    corpus: Corpus,
    *,
    by: Sequence[str] | None = None,
    grain: str | None = None,
    most: int = MOST_GROUPS,
    date: str = DATE,
) -> Survey:
    """Count the values of the columns of the training documents, streamed.

    by  the columns wanted (InputError where one is missing); None: all whose values gather documents at all
    """
    there = columns_of(corpus)
    if by is not None:
        check_columns(corpus, by, "--by")
    names = [n for n in (by if by is not None else there) if n != date]
    counts: dict[str, Counter[str]] = {n: Counter() for n in names}
    filled: dict[str, int] = dict.fromkeys(names, 0)
    forgotten: dict[str, int] = dict.fromkeys(names, 0)
    days: Counter[periods.Day] = Counter()
    wanted = [*names, *([date] if date in there else [])]
    if wanted:
        for _, batch in documents(corpus, False, wanted):
            for name in batch.schema.names:
                column = batch.column(name)
                flat = (
                    column.flatten() if pa.types.is_large_list(column.type) or pa.types.is_list(column.type) else column
                )
                pairs = pc.value_counts(flat)
                listed = zip(pairs.field("values").to_pylist(), pairs.field("counts").to_pylist(), strict=True)
                if name == date:
                    days.update(periods.count((v, n) for v, n in listed if v))
                else:
                    filled[name] += len(column) - column.null_count
                    held = counts[name]
                    for value, n in listed:
                        if value:
                            held[value] += n
                    if len(held) > 2 * HELD:
                        counts[name] = Counter(dict(held.most_common(HELD)))
                        forgotten[name] += len(held) - HELD
    chosen = periods.choose(days, grain)
    columns = []
    for name in names:
        ranked = sorted(counts[name].items(), key=lambda t: (-t[1], t[0]))
        top = ranked[:most]
        if by is None and (len(ranked) < 2 or top[0][1] < 5 or sum(n for _, n in top) < 0.005 * max(1, filled[name])):
            continue  # titles, addresses: every document has its own
        columns.append(
            Column(name, [v for v, _ in top], [n for _, n in top], len(ranked) + forgotten[name], filled[name])
        )
    return Survey(Time(*chosen) if chosen else None, columns)


def gather_report(
    model: TopicModel,
    view: View,
    corpus: Corpus,
    found: Survey,
    *,
    docs: int = 5,
    cross: bool = False,
    links: bool = True,
    date: str = DATE,
    threads: int = 1,
    progress: Told = None,
) -> Gathered:
    """Stream the topics of all training documents once and add them up.

    docs   typical documents a topic;  cross: every column's values by period too;  links: the products of shares
    """
    one_blas_thread()  # a second one mostly waits on products this thin, and would decide their last bits
    k = len(view)
    time = found.time
    known = {c.name: {v: i for i, v in enumerate(c.values)} for c in found.columns}
    n_periods = len(time.numbers) if time else 0
    out = Gathered(
        0,
        np.zeros(k),
        np.zeros(k, np.int64),
        Best(min(docs, max(1, corpus.n_docs)), k),
        Groups(n_periods, k) if time else None,
        {c.name: Groups(len(c.values), k) for c in found.columns},
        {c.name: Groups(len(c.values) * n_periods, k) for c in found.columns} if time and cross else {},
        np.zeros((k, k)) if links else None,
    )
    tell = listener(progress)
    wanted = [c.name for c in found.columns] + ([date] if time else [])
    table = Metadata(corpus, wanted)
    alpha = float(model.alpha.sum())
    every = -(-corpus.n_docs // LINKED)
    place = {number: i for i, number in enumerate(time.numbers)} if time else {}
    for block, (first, theta, tokens) in enumerate(shares_and_tokens(model, corpus, threads=threads)):
        concentration = tokens + alpha
        if view.dropped:
            kept = view.columns(theta).sum(axis=1, dtype=np.float64)
            concentration = concentration * np.maximum(kept, 1e-12)
        m = view.shares(theta)
        columns, listed = table.of(first, len(m)) if wanted else ({}, np.ones(len(m), bool))
        used = m if listed.all() or not corpus.manifest.get("docs") else m[listed]
        out.docs += len(used)
        out.share += np.ones(len(used), used.dtype) @ used
        if len(used):
            out.first += np.bincount(used.argmax(axis=1), minlength=k)
        out.top.add(first, m if used is m else np.where(listed[:, None], m, -np.inf))
        if out.product is not None and block % every == 0:
            out.product += used.T @ used
            out.linked += len(used)
        if wanted:
            square = m * m
            dates = None
            if time and out.over is not None:
                dates = _dates(columns[date], time.grain, place)
                dated = np.flatnonzero(dates >= 0)
                out.over.add(dated, dates[dated], m, square, concentration)
            for c in found.columns:
                entries, codes = codes_of(columns[c.name], known[c.name])
                out.by[c.name].add(entries, codes, m, square, concentration)
                if c.name in out.by_over and dates is not None:
                    period = dates[entries]
                    both = period >= 0
                    out.by_over[c.name].add(entries[both], (codes * n_periods + period)[both], m, square, concentration)
        tell.step("topics of documents", first + len(m), corpus.n_docs, "documents")
    return out


def _dates(column: Any, grain: periods.Grain, place: dict[int, int]) -> np.ndarray:
    """Place of each document's period, int64[D], -1 without one."""
    words = column.dictionary_encode()
    table = np.full(len(words.dictionary) + 1, -1, np.int64)
    for i, text in enumerate(words.dictionary.to_pylist()):
        number = periods.period_number(text, grain) if text else None
        table[i] = place.get(number, -1) if number is not None else -1
    return np.asarray(table[words.indices.fill_null(len(words.dictionary)).to_numpy(zero_copy_only=False)])


def need_time(found: Survey, corpus: Corpus, date: str = DATE) -> Time:
    """The survey's periods; InputError that says what to do where there are none."""
    if found.time is None:
        if date in columns_of(corpus):
            raise InputError(f"{corpus.path}: no date of the column {date} can be read (1999, 1999-05, 1999-05-31)")
        raise InputError(f"{corpus.path}: the documents have no dates; ingest with --meta date=FIELD")
    return found.time


def describe_documents(
    corpus: Corpus, numbers: np.ndarray, columns: Sequence[str], heldout: bool = False
) -> dict[int, dict[str, Any]]:
    """Rows of the documents' table for some documents by global number (id and the columns), streamed."""
    wanted = np.unique(numbers)
    out: dict[int, dict[str, Any]] = {}
    for of_batch, batch in documents(corpus, heldout, ["id", *[c for c in columns if c != "id"]]):
        hit = np.flatnonzero(np.isin(of_batch, wanted))
        if len(hit):
            for i, row in zip(hit, batch.take(pa.array(hit)).to_pylist(), strict=True):
                out[int(of_batch[i])] = row
    for number in wanted.tolist():
        out.setdefault(number, {"id": str(number)})
    return out
