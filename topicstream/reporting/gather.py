"""What a report says of the documents, from one stream over the corpus: sums, never the documents' topics themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.reader import Corpus
from topicstream.dates import Day, iso, parse
from topicstream.errors import InputError
from topicstream.evaluation.keys import documents
from topicstream.evaluation.visiting import document_shares
from topicstream.machine import one_blas_thread
from topicstream.model.edits import View
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Told, listener
from topicstream.reporting import periods
from topicstream.reporting.metadata import Metadata, check_columns, codes_of, columns_of, flattened
from topicstream.text import counted


class Groups:
    """Shares of topics by group of documents, with standard errors.

    The share of topic k in group g is the mean of p(k|d) over its documents: the coefficients of the regression of document
    shares on the groups.  Roberts, Stewart & Tingley (2019, ``estimateEffect``) draw theta of every document from its
    posterior, fit by least squares for each draw, and pool: the variance of a coefficient is its mean within a draw plus its
    variance between draws.  With the posterior a Dirichlet both have closed forms.  With m[d], v[d] the mean and variance of
    p(k|d), n[g] the documents of g and N - G the degrees of freedom,

        within   E[sigma^2] / n[g],   E[sigma^2] = (sum_d (m^2 + v) - sum_g (n[g] M[g]^2 + sum_{d in g} v[d] / n[g])) / (N - G)
        between  sum_{d in g} v[d] / n[g]^2

    and for a line over time, with X = [1, x], the same with (X'X)^-1.

    Attributes
    ----------
    docs
        float64[G].
    mean, var
        float64[G, K], sums of m and of v.
    squares
        float64[K], sum of m^2 over all entries.
    """

    def __init__(self, groups: int, topics: int) -> None:
        self.docs = np.zeros(groups)
        self.mean, self.var = np.zeros((groups, topics)), np.zeros((groups, topics))
        self.squares = np.zeros(topics)

    def add(
        self, docs: np.ndarray, codes: np.ndarray, m: np.ndarray, square: np.ndarray, concentration: np.ndarray
    ) -> None:
        """Entries: document docs[i] (a row of m, float[D, K]) is in group codes[i], in each at most once.

        square  m * m; the Dirichlet's variance is v = (m - m^2) / (concentration + 1), so its sums need no array of their own
        """
        groups, place = np.unique(codes, return_inverse=True)
        g = len(groups)
        rows = np.zeros((2 * g + 1, len(m)), m.dtype)  # members, their weights in v, entries of each document
        rows[place, docs] = 1
        np.divide(rows[:g], concentration + 1.0, out=rows[g : 2 * g], casting="same_kind")
        rows[2 * g] = np.bincount(docs, minlength=len(m))
        first, second = rows[: 2 * g] @ m, rows[g:] @ square
        self.docs[groups] += np.bincount(place)
        self.mean[groups] += first[:g]
        self.var[groups] += first[g:] - second[:g]
        self.squares += second[g]

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(share float64[G, K], standard error float64[G, K]); NaN for groups without documents."""
        n = self.docs[:, None]
        filled = self.docs > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self.mean / n
            between = self.var / n**2
            spread = self.squares + self.var.sum(axis=0)
            fitted = (self.mean[filled] ** 2 / n[filled] + self.var[filled] / n[filled]).sum(axis=0)
            free = max(1.0, float(self.docs.sum()) - int(filled.sum()))
            sigma2 = np.maximum(0.0, spread - fitted) / free
            error = np.sqrt(sigma2 / n + between)
        return share, error

    def slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(slope of the share per unit of x, its standard error), float64[K], where all of group g lie at x[g]: float64[G]
        (time); the same pooling of draws.  NaN without two different x."""
        design = np.stack([np.ones_like(x), x])
        xx = (design * self.docs) @ design.T
        n = xx[0, 0]
        if n < 3 or np.linalg.det(xx) <= 1e-9 * max(1.0, xx[1, 1] * n):
            return np.full(self.mean.shape[1], np.nan), np.full(self.mean.shape[1], np.nan)
        inverse = np.linalg.inv(xx)
        b = inverse @ (design @ self.mean)
        # X' diag(v) X of each topic, [K, 2, 2]
        middle = np.einsum("ig,jg,gk->kij", design, design, self.var)
        between = inverse @ middle @ inverse
        fitted = np.einsum("ik,ij,jk->k", b, xx, b) + np.einsum("ij,kij->k", xx, between)
        sigma2 = np.maximum(0.0, self.squares + middle[:, 0, 0] - fitted) / (n - 2)
        return b[1], np.sqrt(sigma2 * inverse[1, 1] + between[:, 1, 1])


DATE = "date"
MOST_GROUPS = 24
MOST_DISTINCT = 0.5
"""Different values in a column's entries from which on they are no groups, but names of single documents."""
HELD = 1 << 18
"""Different values of a column that are counted at a time; the rarer ones are forgotten beyond that."""
LINKED = 1 << 18
"""Documents that likeness between topics is computed from: all, or in a larger corpus every n-th block (the correlations'
own errors are then 0.002)."""


@dataclass
class Column:
    """A column's groups: the values with the most documents.  distinct: different values seen (a lower bound)."""

    name: str
    values: list[str]
    distinct: int

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: i for i, value in enumerate(self.values)}

    def code(self, value: str) -> int:
        """The group of a value; -1 of none."""
        return self._codes.get(value, -1)


@dataclass
class Time:
    """The periods of the date column; strays: dates far from all others, which are in none."""

    grain: periods.Grain
    numbers: range
    strays: Counter[Day]

    @property
    def values(self) -> list[str]:
        """Their names."""
        return [self.grain.name(n) for n in self.numbers]

    @property
    def years(self) -> np.ndarray:
        """Years since the first period, float64[G]."""
        return np.arange(len(self.numbers)) * self.grain.years

    @property
    def note(self) -> str:
        """What is to be said of the strays, if any."""
        dates = [*map(iso, sorted(self.strays)[:5]), *["…"] * (len(self.strays) > 5)]
        documents = counted(self.strays.total(), "document")
        return f"Left out of the periods: {documents} dated far from all others ({', '.join(dates)})" if dates else ""

    def code(self, text: str) -> int:
        """The place of a date's period; -1 of none."""
        number = self.grain.of(parse(text))
        return -1 if number is None or number not in self.numbers else number - self.numbers[0]


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
    by       column (``date``: periods) -> Groups;  by_over: column -> Groups of (value, period), value-major
    product  float64[K, K], sum of m m';  linked: documents in it
    """

    docs: int
    share: np.ndarray
    first: np.ndarray
    top: Best
    by: dict[str, Groups]
    by_over: dict[str, Groups] = field(default_factory=dict)
    product: np.ndarray | None = None
    linked: int = 0


def survey(
    corpus: Corpus, *, by: Sequence[str] | None = None, grain: str | None = None, most: int = MOST_GROUPS
) -> Survey:
    """Count the values of the columns of the training documents, streamed.

    by  the columns wanted (InputError where one is missing); None: all whose values gather documents at all, those of few first
    """
    there = columns_of(corpus)
    if by is not None:
        check_columns(corpus, by, "--by")
    names = [name for name in (there if by is None else by) if name != DATE]
    wanted = [*names, *([DATE] if DATE in there else [])]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    filled, forgotten, days = Counter[str](), Counter[str](), Counter[Day]()
    for _, batch in documents(corpus, False, wanted) if wanted else ():
        for name in wanted:
            column = batch.column(name)
            pairs = pc.value_counts(flattened(column)[0])
            found = zip(pairs.field("values").to_pylist(), pairs.field("counts").to_pylist(), strict=True)
            if name == DATE:
                days += periods.count(found)
                continue
            filled[name] += len(column) - column.null_count
            counts[name].update({value: n for value, n in found if value})
            if len(counts[name]) > 2 * HELD:
                forgotten[name] += len(counts[name]) - HELD
                counts[name] = Counter(dict(counts[name].most_common(HELD)))
    columns = []
    for name in names:
        ranked = sorted(counts[name].items(), key=lambda t: (-t[1], t[0]))
        top = ranked[:most]
        entries, distinct = counts[name].total() + forgotten[name], len(ranked) + forgotten[name]
        few = len(ranked) < 2 or top[0][1] < 5 or sum(n for _, n in top) < 0.005 * filled[name]
        if by is None and (few or distinct > MOST_DISTINCT * entries):
            continue  # titles, addresses: nearly every document has its own
        columns.append(Column(name, [value for value, _ in top], distinct))
    if by is None:  # parties before authors, and these before the books that parts are of
        columns.sort(key=lambda column: column.distinct)
    chosen = periods.axis(days, grain)
    return Survey(Time(*chosen) if chosen else None, columns)


def gather_report(
    model: TopicModel,
    view: View,
    corpus: Corpus,
    found: Survey,
    *,
    docs: int = 5,
    cross: str | None = None,
    between: bool = True,
    threads: int = 1,
    progress: Told = None,
) -> Gathered:
    """Stream the topics of all training documents once and add them up.

    docs   typical documents a topic;  cross: a column whose values are counted by period too;  between: the products of shares
    """
    one_blas_thread()  # a second one mostly waits on products this thin, and would decide their last bits
    topics, tell = len(view), listener(progress)
    groupings: dict[str, Column | Time] = {column.name: column for column in found.columns}
    if found.time is not None:
        groupings[DATE] = found.time
    sizes = {name: len(grouping.values) for name, grouping in groupings.items()}
    out = Gathered(
        0,
        np.zeros(topics),
        np.zeros(topics, np.int64),
        Best(min(docs, max(1, corpus.n_docs)), topics),
        {name: Groups(size, topics) for name, size in sizes.items()},
        {cross: Groups(sizes[cross] * sizes[DATE], topics)} if cross is not None and DATE in sizes else {},
        np.zeros((topics, topics)) if between else None,
    )
    table, alpha, every = Metadata(corpus, list(groupings)), float(model.alpha.sum()), -(-corpus.n_docs // LINKED)
    for block, (first, theta, tokens) in enumerate(document_shares(model, corpus, threads=threads)):
        concentration = tokens + alpha
        if view.dropped:
            concentration = concentration * np.maximum(view.columns(theta).sum(axis=1, dtype=np.float64), 1e-12)
        m = view.shares(theta)
        rows, listed = table.of(first, len(m))
        if not groupings:
            listed = np.ones(len(m), bool)
        used = m if listed.all() else m[listed]
        out.docs += len(used)
        out.share += np.ones(len(used), used.dtype) @ used
        out.first += np.bincount(used.argmax(axis=1), minlength=topics) if len(used) else 0
        out.top.add(first, m if used is m else np.where(listed[:, None], m, -np.inf))
        if out.product is not None and block % every == 0:
            out.product += used.T @ used
            out.linked += len(used)
        _add_groups(out, groupings, rows, m, concentration)
        tell.step("topics of documents", first + len(m), corpus.n_docs, "documents")
    return out


def correlations(sums: Gathered) -> np.ndarray:
    """Correlations of the topics' shares over the documents, float64[K, K]; 0 for a topic whose share never changes."""
    assert sums.product is not None
    mean = sums.share / max(1, sums.docs)
    covariance = sums.product / max(1, sums.linked) - mean[:, None] * mean
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(covariance / deviation / deviation[:, None])


def _add_groups(
    out: Gathered, groupings: dict[str, Column | Time], rows: pa.Table, m: np.ndarray, concentration: np.ndarray
) -> None:
    """Add a block of documents to its groups."""
    square = m * m if groupings else m
    entries = {name: codes_of(rows[name].combine_chunks(), grouping.code) for name, grouping in groupings.items()}
    for name, (docs, codes) in entries.items():
        out.by[name].add(docs, codes, m, square, concentration)
    if not out.by_over:
        return
    period = np.full(len(m), -1)
    period[entries[DATE][0]] = entries[DATE][1]
    for name, groups in out.by_over.items():
        docs, codes = entries[name]
        dated = period[docs] >= 0
        codes = codes * len(groupings[DATE].values) + period[docs]
        groups.add(docs[dated], codes[dated], m, square, concentration)


def parts_note(corpus: Corpus) -> list[str]:
    """What is to be said of the standard errors of ``Groups`` where documents are parts of longer ones."""
    note = "Standard errors count parts of one document as independent documents; those of `topics effects` do not"
    return [note] if (corpus.manifest.reading or {}).get("split") else []


def need_time(found: Survey, corpus: Corpus) -> Time:
    """The survey's periods; InputError that says what to do where there are none."""
    if found.time is None:
        if DATE in columns_of(corpus):
            needed = "can be read and is exact enough for the period (1999, 1999-05, 1999-05-31)"
            raise InputError(f"{corpus.path}: no date of the column {DATE} {needed}")
        raise InputError(f"{corpus.path}: the documents have no dates; ingest with --meta date=FIELD")
    return found.time


def describe_documents(
    corpus: Corpus, numbers: np.ndarray, columns: Sequence[str], heldout: bool = False
) -> dict[int, dict[str, Any]]:
    """Rows of the documents' table for some documents by global number (id and the columns), streamed."""
    wanted = np.unique(numbers)
    out = {number: {"id": str(number)} for number in wanted.tolist()}
    for of_batch, batch in documents(corpus, heldout, ["id", *[c for c in columns if c != "id"]]):
        hit = np.flatnonzero(np.isin(of_batch, wanted))
        out.update(zip(of_batch[hit].tolist(), batch.take(pa.array(hit)).to_pylist(), strict=True))
    return out
