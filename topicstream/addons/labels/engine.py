"""Labeled LDA by belief propagation, whose topics are the labels.

See Zeng, Cheung & Liu (2013), section 5.1.

A cell's message lives on the labels of its document and on the shared topics only; elsewhere it is
zero:

    mu_k  ~  (theta_dk - x mu_k + a_k) (phi_wk - x mu_k + beta) / (lam_k - x mu_k + W beta),   k in
          topics(d)

a_k is ``label_alpha`` for the document's own labels, of which it is known that they apply (flat by
default; with the sparse prior of inference, labels of few documents starve beside frequent ones),
alpha for the rest.

The ``free`` shared topics are numbers 0 .. free - 1, label l is topic free + l: labels that an
append brings are new last columns. A document of one topic has mu = 1: it is counted at the start
and costs nothing but its likelihood afterwards.

A document without labels has every topic open. It enters in pass 1, into topics that the labelled
documents have made: were its cells spread at random first, a label of few documents would drown in
them. Or (``skip``) it is left out.

A block is swept word by word (within a word, document by document): phi_w and theta_d move after
each cell, lam after each block. A message is stored as 16-bit integers q, mu_k = q_k / sum q: what
is stored is what was added, so exclusion is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.base.text import counted
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Engine,
    Layout,
    Options,
    Out,
    PassEnd,
    Rows,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.engines.parts import PART, DeltaParts
from topicstream.numeric.kernels.arrays import (
    Array,
    Bytes,
    CellsByWord,
    Doubles,
    Floats,
    Ints,
    Longs,
    RowEntries,
    Shorts,
    borrow,
    sort_by_word,
)
from topicstream.numeric.kernels.dirichlet import log, sum_x_log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, step, stream, uniform

TOP = 65535.0
VISIT = 0
RANDOM = 1
SEEDED = 2
LABELS = "labels"


@dataclass(frozen=True)
class LabeledOptions(Options):
    """Options of ``llda``."""

    label_alpha: float = option(
        1.0,
        "Prior of a document's own labels during training; --alpha applies to shared topics, to "
        "documents "
        "without labels, and at inference.",
        min=0.0,
    )
    free: int = option(
        0,
        "Number of topics that all documents share, in addition to one per label.",
        min=0,
        max=65536,
    )
    no_label: str = option(
        "all",
        "Documents without labels: let them use all topics (all), or leave them out (skip).",
        choices=("all", "skip"),
    )


@kernel
def sum_theta(
    cells: CellsByWord, lists: Longs, stored: Bytes, theta: Doubles, messages: Shorts
) -> None:
    """Add the tokens of each document's cells to its topics, from the stored messages.

    theta[lists[d] + j] += x mu_j.

    Parameters
    ----------
    lists
        int64[D+1], topics of each document.
    stored
        uint8[D], 1 for documents that keep messages.
    theta
        float64, zeros.
    """
    _, doc, x = cells
    at = np.int64(0)
    for i in range(len(doc)):
        d = doc[i]
        if stored[d]:
            first = lists[d]
            n = lists[d + 1] - lists[d]
            total = 0.0
            for j in range(n):
                total += messages[at + j]
            if total > 0.0:
                for j in range(n):
                    theta[first + j] += x[i] * (messages[at + j] / total)
            at += n


class Documents(NamedTuple):
    """Documents of a block while it is swept.

    Attributes
    ----------
    lists, topics
        int64[D+1], int32[E], topics of each document.
    stored
        uint8[D], 1 if it keeps messages (it has two topics or more).
    waits
        uint8[D], 1: not before pass 1.
    theta, mass
        float64[E], and its sum float64[D]: before the sweep, and afterwards.
    prior
        float64[E], a_k.
    """

    lists: Longs
    topics: Ints
    stored: Bytes
    waits: Bytes
    theta: Doubles
    mass: Doubles
    prior: Doubles


class Topics(NamedTuple):
    """Rows and totals of phi for a sweep.

    phi of local word u is base[row[u]]. ``lam`` is float64[K], lam + W beta (seeds: column sums),
    no less than ``least`` after exclusion.
    """

    base: Floats
    row: Longs
    beta: float
    lam: Doubles
    least: float


class Messages(NamedTuple):
    """Messages of a block, uint16, cell by cell: the stored ones, and those of this sweep.

    place: int64[1], where the messages of the next cells begin.
    """

    place: Longs
    old: Shorts
    new: Shorts


class Work(NamedTuple):
    """Work arrays of a sweep.

    Attributes
    ----------
    likely
        float64[nnz], ones: p(w | all other cells) before the update.
    change
        float64[K], zeros between words: the changes of the present word.
    share
        float64[K], p_j of the present cell.
    """

    likely: Doubles
    change: Doubles
    share: Doubles


@kernel(inline="always")
def _take_change(
    first: int, last: int, topics: Ints, change: Doubles, n: int, delta: RowEntries
) -> int:
    """Move a document's changes into the delta, each topic once, and return its new length."""
    for j in range(first, last):
        t = topics[j]
        if change[t] != 0.0:
            delta.topic[n] = t
            delta.value[n] = change[t]
            change[t] = 0.0
            n += 1
    return n


@kernel
def begin_messages(
    cells: CellsByWord,
    rows: Topics,
    documents: Documents,
    streams: Array,
    messages: Messages,
    work: Work,
    delta: RowEntries,
) -> int:
    """Make the first messages of some words' cells, and return the entries of the delta.

    Parameters
    ----------
    streams
        uint64[D], of each document: the state of its draws, which moves on. Length 0: messages are
        made from ``rows``, those of seed topics.
    """
    ptr, doc, x = borrow(cells)
    base, index, _, lam, _ = rows
    lists, topics, stored, waits, _, _, _ = borrow(documents)
    _, change, share = borrow(work)
    delta = borrow(delta)
    new = borrow(messages).new
    n_out = 0
    at = messages.place[0]
    delta.ptr[0] = 0
    for u in range(len(ptr) - 1):
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            first = lists[d]
            n = lists[d + 1] - first
            c = np.float64(x[i])
            # one topic: mu = 1, counted here once and for all
            if not stored[d]:
                if n == 1:
                    change[topics[first]] += c
                continue
            # no label: its messages begin in pass 1, as all zero
            if waits[d]:
                for j in range(n):
                    new[at + j] = 0
                at += n
                continue
            # p_j: a draw of Exp(1), so that messages are uniform on the simplex, or phi_wt / lam_t
            peak = 0.0
            for j in range(n):
                t = topics[first + j]
                if len(streams):
                    p = -log(1.0 - uniform(bits(streams[d])))
                    streams[d] = step(streams[d])
                else:
                    p = base[index[u], t] / lam[t] if lam[t] > 0.0 else 0.0
                share[j] = p
                peak = max(peak, p)
            # the message q_j as 16-bit integers, the largest near TOP
            stretch = TOP / peak if peak > 0.0 else 0.0
            s = 0.0
            for j in range(n):
                q = np.uint16(share[j] * stretch + 0.5) if stretch > 0.0 else np.uint16(1)
                new[at + j] = q
                s += q
            # phi_w gains x mu_j
            for j in range(n):
                change[topics[first + j]] += c * (new[at + j] / s)
            at += n
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            n_out = _take_change(lists[d], lists[d + 1], topics, change, n_out, delta)
        delta.ptr[u + 1] = n_out
    messages.place[0] = at
    return n_out


@kernel
def sweep(
    cells: CellsByWord,
    rows: Topics,
    documents: Documents,
    messages: Messages,
    work: Work,
    delta: RowEntries,
) -> int:
    """Visit the cells of some words of a block once, and return the entries of the delta."""
    ptr, doc, x = borrow(cells)
    base, index, beta, lam, least = rows
    lists, topics, stored, _, theta, mass, prior = borrow(documents)
    likely, change, share = borrow(work)
    delta = borrow(delta)
    place, old, new = borrow(messages)
    n_out = 0
    at = place[0]
    delta.ptr[0] = 0
    # word by word, and document by document within a word
    for u in range(len(ptr) - 1):
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            first = lists[d]
            n = lists[d + 1] - first
            c = np.float64(x[i])
            # one topic: mu = 1, which was counted at the start
            if not stored[d]:
                if n == 1:
                    t = topics[first]
                    f = max(base[index[u], t] + change[t] - c, 0.0) + beta
                    likely[i] = max(f / max(lam[t] - c, least), 1e-300)
                continue
            # the stored message q_j: mu_j = q_j / sum q, so x mu_j = scale q_j
            total = 0.0
            for j in range(n):
                total += old[at + j]
            scale = c / total if total > 0.0 else 0.0
            # p_j ~ (theta_dj - own + a_j) (phi_wt - own + beta) / (lam_t - own), own = x mu_j
            s = 0.0
            norm = 0.0
            peak = 0.0
            for j in range(n):
                t = topics[first + j]
                own = scale * old[at + j]
                f = max(base[index[u], t] + change[t] - own, 0.0) + beta
                p = (max(theta[first + j] - own, 0.0) + prior[first + j]) * f
                p /= max(lam[t] - own, least)
                share[j] = p
                s += p
                norm += prior[first + j]
                peak = max(peak, p)
            # p(w | the other cells) = sum_j p_j / (sum a + n_d - x)
            likely[i] = max(s / max(norm + mass[d] - scale * total, 1e-300), 1e-300)
            # the new message q_j as 16-bit integers, the largest near TOP
            stretch = TOP / peak if peak > 0.0 else 0.0
            s = 0.0
            for j in range(n):
                q = np.uint16(share[j] * stretch + 0.5) if stretch > 0.0 else np.uint16(1)
                new[at + j] = q
                s += q
            # theta_d and phi_w move by x (new mu_j - old mu_j)
            for j in range(n):
                moved = c * (new[at + j] / s) - scale * old[at + j]
                theta[first + j] += moved
                change[topics[first + j]] += moved
            mass[d] += c - scale * total
            at += n
        # the word's changes as entries of the delta
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            if stored[d]:
                n_out = _take_change(lists[d], lists[d + 1], topics, change, n_out, delta)
        delta.ptr[u + 1] = n_out
    place[0] = at
    return n_out


@kernel
def begin_streams(seed: int, number: int, first: int, streams: Array) -> None:
    """Begin the stream of draws of each document, of which ``first`` is the number of the first."""
    for d in range(len(streams)):
        streams[d] = stream(seed, number, first + d)


def count_topics(axes: Mapping[str, int], options: Any, stated: int | None) -> int:
    """Return the number of topics: one for each label, and the shared ones."""
    topics = int(options.free + axes[LABELS])
    if not axes[LABELS]:
        raise InputError("no document has a label; ingest with --meta labels=FIELD")
    if stated not in (None, topics):
        shared = f" and {options.free:,} shared ones" if options.free else ""
        raise UsageError(
            f"-K {stated}: llda has a topic for each of the {axes[LABELS]:,} labels{shared}; "
            f"leave --topics out"
        )
    return topics


class LabeledBeliefPropagation(Engine):
    """Table: phi. Block state: the messages of documents of two topics or more, ragged."""

    name = "llda"
    cites = (
        "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, section 5.1, L-LDA"
    )
    Options = LabeledOptions
    about = About(
        starts=("random", "warm"),
        learns_priors=False,
        axes=(LABELS,),
        topics_axis=LABELS,
        topics=count_topics,
    )
    options: LabeledOptions

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="part", delta="sparse")}

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        return {
            "messages": ArraySpec(
                "block",
                "uint16",
                limit=lambda b: b.cells * self._most_topics(b),
                total=self._count_messages,
            )
        }

    @property
    def stats(self) -> Mapping[str, int]:
        return {**super().stats, "unlabelled": 1}

    @property
    def layout(self) -> Layout:
        """Layout with blocks so small that a thousand topics fit 512 MB.

        Documents without labels have K messages a cell, and a block may have only such. Messages,
        lists and deltas count.
        """
        cells = min(max(self.shape.cells // 64, 1 << 16), 1 << 20)
        docs = max(min(1 << 16, (1 << 21) // padded(self.shape.topics)), 1 << 8)
        return Layout(max(min(cells, (1 << 23) // padded(self.shape.topics)), 1 << 12), docs, 8)

    def _most_topics(self, block: BlockShape) -> int:
        """Count the topics that a document of the block can have, at most."""
        unlabelled = self.options.no_label == "all" and self.shape.bare.get(LABELS, 1)
        if unlabelled or LABELS not in block.axes:
            return self.shape.topics
        return min(self.options.free + block.axes[LABELS].longest, self.shape.topics)

    def _count_messages(self, corpus: BlockShape) -> int:
        """Count the numbers of the messages of all blocks, at most."""
        open_to_all = (
            self.shape.bare.get(LABELS, corpus.cells) if self.options.no_label == "all" else 0
        )
        few = min(self.options.free + corpus.axes[LABELS].longest, self.shape.topics)
        return (corpus.cells - open_to_all) * few + open_to_all * self.shape.topics

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        topics = self.shape.topics
        most = self._most_topics(block)
        entries = min(block.words * topics, block.cells * most)
        return {
            "ptr": Buffer(block.words + 1, "int64"),
            "doc": Buffer(block.cells, "int32"),
            "x": Buffer(block.cells, "float32"),
            "likely": Buffer(block.cells, "float64"),
            "theta": Buffer((block.docs, most), "float64"),
            "lists and priors": Buffer(block.docs * (6 + 3 * most), "float64"),
            "documents of cells": Buffer((2, block.cells), "float64"),
            "change and shares": Buffer((4, topics), "float64"),
            "delta ptr": Buffer(block.words + 1, "int64", keep=True),
            "delta topic": Buffer(entries, "int32", keep=True, part=PART + topics),
            "delta value": Buffer(entries, "float32", keep=True, part=PART + topics),
        }

    def start(self, visit: Visit, out: Out) -> None:
        topics = self.shape.topics
        if "phi" in visit.rows:
            self._sweep(SEEDED, visit, visit.rows["phi"], visit.totals["phi"], out)
        else:
            none = Rows(
                np.zeros((1, padded(topics)), np.float32), np.zeros(visit.block.n_words, np.int64)
            )
            self._sweep(RANDOM, visit, none, np.ones(topics), out)

    def process(self, visit: Visit, out: Out) -> None:
        lam = visit.totals["phi"] + self.shape.words * float(visit.params["beta"][0])
        self._sweep(VISIT, visit, visit.rows["phi"], lam, out)

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        n = int(end.stats["unlabelled"][0])
        if end.key.pass_number == 1 and self.options.no_label == "skip" and n:
            end.say(f"warning: {counted(n, 'document')} without labels left out")
        return {"unlabelled": n}

    def list_topics(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List the topics of each document of a block.

        Returns
        -------
        tuple
            int64[D+1] and int32[E], topics in ascending order, and bool[D], True for documents with
            labels.
        """
        labels = block.rows(LABELS)
        n_labels = np.diff(labels.indptr)
        free = self.options.free
        topics = self.shape.topics
        open_topics = (
            np.where(np.diff(block.indptr) > 0, topics, 0) if self.options.no_label == "all" else 0
        )
        lengths = np.where(n_labels > 0, n_labels + free, open_topics)
        ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        # 0, 1, .. of each document: right for all but labels
        place = np.arange(ptr[-1]) - np.repeat(ptr[:-1], lengths)
        topic_ids = place.astype(np.int32)
        labelled = np.repeat(n_labels > 0, lengths) & (place >= free)
        topic_ids[labelled] = free + labels.ids[labels.local]
        return ptr, topic_ids, n_labels > 0

    def _sweep(self, mode: int, visit: Visit, phi: Rows, lam: np.ndarray, out: Out) -> None:
        """Sweep a block part by part, and write its messages, delta and statistics."""
        block = visit.block
        key = visit.key
        old = visit.state.get("messages", np.zeros(0, np.uint16))
        new = out.state["messages"]
        cells = CellsByWord(out.array("ptr"), out.array("doc"), out.array("x"))
        sort_by_word(block.cells, cells)
        lists, topics, labelled = self.list_topics(block)
        widths = np.diff(lists)
        lengths = np.diff(block.indptr)
        n_messages = int((lengths * widths)[widths > 1].sum())
        if len(new) < n_messages or (mode == VISIT and len(old) != n_messages):
            raise StoreError(
                f"block {block.index}: its messages belong to other labels; start over with --force"
            )
        documents = self._describe_documents(
            visit, lists, topics, labelled, out.array("theta", len(topics))
        )
        if mode == SEEDED:
            documents.waits[:] = 0
        if mode == VISIT:
            sum_theta(cells, lists, documents.stored, documents.theta, old)
        owner = np.repeat(np.arange(block.n_docs), widths)
        documents.mass[:] = np.bincount(owner, documents.theta, block.n_docs)
        streams = np.zeros(block.n_docs if mode == RANDOM else 0, np.uint64)
        begin_streams(key.seed, key.pass_number, block.first_doc, streams)
        beta = float(visit.params["beta"][0])
        rows = Topics(phi.base, phi.index, beta, lam, max(self.shape.words * beta, 1e-12))
        messages = Messages(np.zeros(1, np.int64), old, new)
        none = np.zeros((2, self.shape.topics))
        work = Work(out.array("likely"), none[0], none[1])
        work.likely[:] = 1.0
        cell_widths = np.repeat(widths, lengths)
        topics_of_words = np.bincount(block.words, cell_widths, block.n_words).astype(np.int64)
        parts = DeltaParts(out, "phi", np.cumsum(np.minimum(topics_of_words, self.shape.topics)))
        for a, b in parts:
            part_cells = CellsByWord(cells.ptr[a : b + 1], cells.doc, cells.x)
            part_rows = rows._replace(row=phi.index[a:b])
            delta = RowEntries(*parts.arrays)
            if mode == VISIT:
                parts.add(sweep(part_cells, part_rows, documents, messages, work, delta))
            else:
                parts.add(
                    begin_messages(part_cells, part_rows, documents, streams, messages, work, delta)
                )
        out.state["messages"] = new[:n_messages]
        out.stats["tokens"][0] = block.counts[cell_widths > 0].sum(dtype=np.float64)
        out.stats["loglik"][0] = sum_x_log(work.likely, cells.x, 0, block.n_cells, 1.0, 0.0)
        out.stats["unlabelled"][0] = (~labelled & (lengths > 0)).sum()

    def _describe_documents(
        self,
        visit: Visit,
        lists: np.ndarray,
        topics: np.ndarray,
        labelled: np.ndarray,
        theta: np.ndarray,
    ) -> Documents:
        """Describe the documents of a block, with zeros for theta.

        ``lists``, ``topics`` and ``labelled`` are as of ``list_topics``.
        """
        widths = np.diff(lists)
        theta[:] = 0.0
        prior = visit.params["alpha"][topics]
        own_labels = np.repeat(labelled, widths) & (topics >= self.options.free)
        prior[own_labels] = self.options.label_alpha
        stored = (widths > 1).astype(np.uint8)
        waits = (~labelled).astype(np.uint8)
        return Documents(lists, topics, stored, waits, theta, np.zeros(len(widths)), prior)
