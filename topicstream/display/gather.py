"""Sums over the documents' topics, from one stream over the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.dates import Day, iso, parse
from topicstream.base.errors import InputError
from topicstream.base.machine import one_blas_thread
from topicstream.base.progress import ProgressLike, listener
from topicstream.base.text import counted
from topicstream.corpus.columns import DATE, check_columns, columns_of, flatten_lists
from topicstream.corpus.reader import Corpus
from topicstream.display import periods
from topicstream.display.groups import Groups
from topicstream.display.metadata import codes_of
from topicstream.display.view import ShownModel
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.metadata import Metadata
from topicstream.evaluation.visiting import BlockShares, document_shares
from topicstream.model.top import Best
from topicstream.model.topic_kinds import largest_topics

MOST_GROUPS = 24
MOST_DISTINCT = 0.5
"""Share of distinct values from which a column does not group documents, but names them."""
COUNTED_VALUES = 1 << 18
"""Distinct values of a column that are counted; beyond that, rare ones are dropped."""
LINKED = 1 << 18
"""Documents that correlations are computed from; of more, every n-th block is taken.

The standard error of a correlation is then 0.002."""


@dataclass
class Column:
    """The groups of a column: the values with the most documents.

    Attributes
    ----------
    distinct
        Distinct values in the column (a lower bound).
    """

    name: str
    values: list[str]
    distinct: int

    @cached_property
    def _codes(self) -> dict[str, int]:
        """Number the values."""
        return {value: i for i, value in enumerate(self.values)}

    def code(self, value: str) -> int:
        """Return the group of a value, or -1."""
        return self._codes.get(value, -1)


@dataclass
class Time:
    """The periods of the date column.

    Attributes
    ----------
    grain
        Length of a period.
    numbers
        Numbers of the periods, from the first to the last.
    strays
        Dates far from all others, which belong to no period.
    """

    grain: periods.Grain
    numbers: range
    strays: Counter[Day]

    @property
    def values(self) -> list[str]:
        """Names of the periods."""
        return [self.grain.name(n) for n in self.numbers]

    @property
    def years(self) -> np.ndarray:
        """Years since the first period, float64[G]."""
        return np.arange(len(self.numbers)) * self.grain.years

    @property
    def note(self) -> str:
        """Describe the strays in a line, or return an empty one."""
        if not self.strays:
            return ""
        dates = [iso(day) for day in sorted(self.strays)[:5]]
        if len(self.strays) > len(dates):
            dates.append("…")
        documents = counted(self.strays.total(), "document")
        return (
            f"Left out of the periods: {documents} dated far from all others ({', '.join(dates)})"
        )

    def code(self, text: str) -> int:
        """Return the position of a date's period, or -1."""
        number = self.grain.find_period(parse(text))
        return -1 if number is None or number not in self.numbers else number - self.numbers[0]


@dataclass
class Survey:
    """Columns and periods that the documents can be grouped by."""

    time: Time | None
    columns: list[Column]


@dataclass
class ReportSums:
    """Sums over the training documents, for the topics shown.

    Attributes
    ----------
    docs
        Documents that count in means.
    left_out
        The other documents, which have no known word.
    share
        Sums of p(k|d), float64[K].
    first
        Documents whose largest topic it is, the background apart, int64[K].
    top
        Typical documents: ``ids`` int64[n, K], their global numbers, and ``scores``.
    by
        Groups by column (``date``: by period).
    by_over
        Groups of (value, period), value-major, by column.
    product
        Sum of the outer products of the documents' shares, float64[K, K].
    linked
        Documents in ``product``.
    """

    docs: int
    left_out: int
    share: np.ndarray
    first: np.ndarray
    top: Best
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
) -> Survey:
    """Count the values of the columns of the training documents, streamed.

    Parameters
    ----------
    corpus
        The store.
    by
        Columns to count; None: all whose values group documents, those of few values first.
    grain
        Length of a period; None: chosen from the dates.
    most
        Values of a column that become groups, the most frequent ones.

    Raises
    ------
    InputError
        If the store lacks a column of ``by``.
    """
    stored_columns = columns_of(corpus)
    if by is not None:
        check_columns(corpus, by, "--by")
    names = [name for name in (stored_columns if by is None else by) if name != DATE]
    columns_read = [*names, *([DATE] if DATE in stored_columns else [])]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    filled = Counter[str]()
    dropped = Counter[str]()
    days = Counter[Day]()
    batches = stream_documents(corpus, False, columns_read) if columns_read else ()
    for _, batch in batches:
        for name in columns_read:
            column = batch.column(name)
            pairs = pc.value_counts(flatten_lists(column)[0])
            counted_values = zip(
                pairs.field("values").to_pylist(), pairs.field("counts").to_pylist(), strict=True
            )
            if name == DATE:
                days += periods.count_dates(counted_values)
                continue
            filled[name] += len(column) - column.null_count
            counts[name].update({value: n for value, n in counted_values if value})
            if len(counts[name]) > 2 * COUNTED_VALUES:
                dropped[name] += len(counts[name]) - COUNTED_VALUES
                counts[name] = Counter(dict(counts[name].most_common(COUNTED_VALUES)))
    columns = []
    for name in names:
        ranked = sorted(counts[name].items(), key=lambda t: (-t[1], t[0]))
        top = ranked[:most]
        entries = counts[name].total() + dropped[name]
        distinct = len(ranked) + dropped[name]
        few = len(ranked) < 2 or top[0][1] < 5 or sum(n for _, n in top) < 0.005 * filled[name]
        if by is None and (few or distinct > MOST_DISTINCT * entries):
            continue  # titles, addresses: nearly every document has its own
        columns.append(Column(name, [value for value, _ in top], distinct))
    if by is None:  # parties before authors, and these before the books that parts are of
        columns.sort(key=lambda column: column.distinct)
    chosen = periods.choose_without_strays(days, grain)
    return Survey(Time(*chosen) if chosen else None, columns)


def gather_report(
    shown: ShownModel,
    corpus: Corpus,
    metadata: Survey,
    *,
    docs: int = 5,
    cross: str | None = None,
    between: bool = True,
    progress: ProgressLike = None,
) -> ReportSums:
    """Stream the topics of all training documents once and add them up.

    Parameters
    ----------
    shown
        The model, its topics as edited, and the threads that may work.
    corpus
        The store that the model was trained on.
    metadata
        Columns and periods to group by.
    docs
        Typical documents of a topic.
    cross
        A column whose values are also grouped by period.
    between
        Sum the products of shares, which ``correlations`` needs.
    progress
        Reports the documents that have been read.
    """
    # a second thread mostly waits on products this thin, and would decide their last bits
    one_blas_thread()
    topics = len(shown.view)
    tell = listener(progress)
    groupings: dict[str, Column | Time] = {column.name: column for column in metadata.columns}
    if metadata.time is not None:
        groupings[DATE] = metadata.time
    sizes = {name: len(grouping.values) for name, grouping in groupings.items()}
    parents = ParentIds() if groupings and corpus.manifest.has_parts else None
    out = ReportSums(
        0,
        0,
        np.zeros(topics),
        np.zeros(topics, np.int64),
        Best(min(docs, max(1, corpus.n_docs)), topics),
        {name: Groups(size, topics) for name, size in sizes.items()},
        {cross: Groups(sizes[cross] * sizes[DATE], topics)}
        if cross is not None and DATE in sizes
        else {},
        np.zeros((topics, topics)) if between else None,
    )
    table = Metadata(
        corpus, list(dict.fromkeys([*groupings, *(["id", PARENT] if parents is not None else [])]))
    )
    spacing = -(-corpus.n_docs // LINKED)
    blocks = document_shares(shown.trained, corpus, view=shown.view, threads=shown.threads)
    for number, block in enumerate(blocks):
        first = block.first
        shares = block.shares
        rows, has_row = table.read_rows(first, len(shares))
        if not groupings:
            has_row = np.ones(len(shares), bool)
        counting = has_row & block.counted
        all_count = bool(counting.all())
        counted_shares = shares if all_count else shares[counting]
        out.docs += len(counted_shares)
        out.left_out += int(has_row.sum()) - len(counted_shares)
        out.share += np.ones(len(counted_shares), counted_shares.dtype) @ counted_shares
        out.first += np.bincount(largest_topics(counted_shares, shown.model), minlength=topics)
        out.top.add(first, shares if all_count else np.where(counting[:, None], shares, -np.inf))
        if out.product is not None and number % spacing == 0:
            out.product += counted_shares.T @ counted_shares
            out.linked += len(counted_shares)
        row_parents = None if parents is None else parents.number_rows(parents_of(rows))
        _add_groups(out, groupings, rows, block, row_parents)
        tell.step("topics of documents", first + len(shares), corpus.n_docs, "documents")
    return out


def correlations(sums: ReportSums) -> np.ndarray:
    """Correlate the topics' shares over the documents, float64[K, K].

    A topic whose share never changes has correlation 0 with all others.
    """
    assert sums.product is not None
    mean = sums.share / max(1, sums.docs)
    covariance = sums.product / max(1, sums.linked) - mean[:, None] * mean
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(covariance / deviation / deviation[:, None])


PARENT = "document"
"""The column that names the document that a part was cut from."""


def parents_of(rows: pa.Table) -> pa.ChunkedArray:
    """Return the id of the document that each row is a part of.

    A whole document has its own.

    Parameters
    ----------
    rows
        With the columns ``id`` and ``document``.
    """
    return pc.coalesce(rows[PARENT], rows["id"])


class ParentIds:
    """Numbers of the documents that parts were cut from, in stream order."""

    def __init__(self) -> None:
        self._last: Any = None
        self._number = 0

    def number_rows(self, names: pa.ChunkedArray) -> np.ndarray:
        """Assign a number to the parent of each row, int64[D], ascending from call to call.

        Parts that follow each other and name the same parent have the same number.
        """
        names = np.array([self._last, *names.to_pylist()], object)
        numbers = self._number + np.cumsum(names[1:] != names[:-1])
        self._last = names[-1]
        self._number = int(numbers[-1]) if len(numbers) else self._number
        return numbers


def _add_groups(
    out: ReportSums,
    groupings: dict[str, Column | Time],
    rows: pa.Table,
    block: BlockShares,
    parents: np.ndarray | None,
) -> None:
    """Add a block of documents to its groups."""
    m = block.shares
    entries = {
        name: codes_of(rows[name].combine_chunks(), grouping.code)
        for name, grouping in groupings.items()
    }
    for name, (docs, codes) in entries.items():
        out.by[name].add(docs, codes, block, parents)
    if not out.by_over:
        return
    period = np.full(len(m), -1)
    period[entries[DATE][0]] = entries[DATE][1]
    for name, groups in out.by_over.items():
        docs, codes = entries[name]
        dated = period[docs] >= 0
        codes = codes * len(groupings[DATE].values) + period[docs]
        groups.add(docs[dated], codes[dated], block, parents)


def need_time(metadata: Survey, corpus: Corpus) -> Time:
    """Return the survey's periods, or raise InputError if the documents have none."""
    if metadata.time is None:
        if DATE in columns_of(corpus):
            needed = "can be read and is exact enough for the period (1999, 1999-05, 1999-05-31)"
            raise InputError(f"{corpus.path}: no date of the column {DATE} {needed}")
        raise InputError(
            f"{corpus.path}: the documents have no dates; ingest with --meta date=FIELD"
        )
    return metadata.time


def describe_documents(
    corpus: Corpus, numbers: np.ndarray, columns: Sequence[str], heldout: bool = False
) -> dict[int, dict[str, Any]]:
    """Read id and columns of some documents, by their global numbers."""
    distinct = np.unique(numbers)
    out = {number: {"id": str(number)} for number in distinct.tolist()}
    for of_batch, batch in stream_documents(
        corpus, heldout, ["id", *[c for c in columns if c != "id"]]
    ):
        hits = np.flatnonzero(np.isin(of_batch, distinct))
        out.update(
            zip(of_batch[hits].tolist(), batch.take(pa.array(hits)).to_pylist(), strict=True)
        )
    return out
