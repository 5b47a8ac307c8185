"""Whom a document may well be linked with: candidates by the topics of both, out of core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, one_line, shown
from topicstream.evaluation.keys import first_documents
from topicstream.evaluation.links import check_model, trained_shares, word_shares
from topicstream.evaluation.memory import open_within
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.metadata import check_columns, columns_of
from topicstream.reporting.similar import find_document

STEP = 1 << 14


def links(
    model: str | Path | TopicModel,
    corpus: str | Path | Corpus,
    document: str,
    *,
    n: int = 10,
    with_columns: list[str] | None = None,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """The n documents of both parts with which a document (its id) is most likely linked, but is not yet.

    Their ratio says how many times as likely as of any two documents a link is, by the model's eta:
    sum over topics k, j of theta_dk eta_kj / e_j theta_d'j, e the share of the links' ends by topic (Zeng, Cheung & Liu 2013,
    eq. 28).  Training documents have the topics that the model was trained to, others those of their words.

    Returns ``document``, ``part``, ``linked`` (how many it is linked with already) and ``candidates``: a
    list of id, part, ratio and the columns asked for (None: the title, where there is one).  InputError for an id that is
    not there, a model without links or of another state of the corpus.
    """
    opened, workers = open_within(model, mem_limit, threads)
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    if "eta" not in (opened.manifest.get("tables") or {}):
        raise InputError(f"{opened.path}: was trained without links; --links goes with a model of --algo rtm")
    check_model(opened, store)
    if with_columns is not None:
        check_columns(store, with_columns)
    kept = with_columns if with_columns is not None else [c for c in ("title",) if c in columns_of(store)]
    part, number = find_document(store, document, "--links")
    already = _linked(store, part, number)
    own = _own(opened, store, part, number, workers)
    found: list[tuple[float, bool, int]] = []
    for heldout in (False, True):
        docs = store.part(heldout)["docs"]
        if not docs:
            continue
        best = Best(min(n + 1 + len(already), docs), 1)
        for first, theta, tokens in _all(opened, store, heldout, workers):
            best.add(first, np.where(tokens > 0, theta @ own, -np.inf)[:, None])
            if progress is not None:
                progress("topics of documents", first + len(theta), docs)
        good = np.isfinite(best.scores[:, 0])
        found += [(-float(s), heldout, int(d)) for s, d in zip(best.scores[good, 0], best.ids[good, 0], strict=True)]
    found = sorted(f for f in found if f[1:] != (part, number) and f[1:] not in already)[:n]
    rows = {
        h: describe_documents(store, np.array([d for _, of, d in found if of == h], np.int64), kept, h)
        for h in (False, True)
    }
    return {
        "document": document,
        "part": "heldout" if part else "train",
        "linked": len(already),
        "candidates": [
            {
                "id": rows[h][d]["id"],
                "part": "heldout" if h else "train",
                "ratio": -score,
                **{c: v for c in kept if (v := rows[h][d].get(c)) is not None},
            }
            for score, h, d in found
        ],
    }


def _linked(corpus: Corpus, heldout: bool, number: int) -> set[tuple[bool, int]]:
    """(whether set aside, number) of the documents that a document is linked with; between two set aside, no link counts."""
    first = first_documents(corpus, heldout)
    storage = int(np.searchsorted(first, number, "right")) - 1
    lengths, ids = corpus.ragged("links", storage, heldout)
    ends = np.cumsum(lengths, dtype=np.int64)
    row = number - int(first[storage])
    found = {(False, int(i)) for i in ids[ends[row] - lengths[row] : ends[row]]}
    if not heldout:
        first = first_documents(corpus, True)
        for b in range(len(first) - 1):
            lengths, ids = corpus.ragged("links", b, True)
            found |= {(True, int(first[b] + d)) for d in np.repeat(np.arange(len(lengths)), lengths)[ids == number]}
    return found


def _own(model: TopicModel, corpus: Corpus, heldout: bool, number: int, threads: int) -> np.ndarray:
    """float64[K]: what a document's topics say of the topics of those that it is linked with, as a ratio to chance."""
    topics = model.n_topics
    eta = model.table("eta").gather(np.arange(topics)).astype(np.float64)
    ends = model.table("ends").gather(np.arange(1))[0].astype(np.float64)
    ratio = np.divide(eta, ends, out=np.zeros_like(eta), where=ends > 0)
    if not heldout:
        return np.asarray(trained_shares(model, np.array([number]))[0][0] @ ratio)
    for first, theta, _ in word_shares(model, corpus, heldout=True, threads=threads):
        if first <= number < first + len(theta):
            return np.asarray(theta[number - first].astype(np.float64) @ ratio)
    raise InputError(f"{corpus.path}: document {number} lies past the blocks; ingest again")


def _all(
    model: TopicModel, corpus: Corpus, heldout: bool, threads: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(first document, p(k|d) [D, K], tokens float64[D]) of a part, in order."""
    if heldout:
        yield from word_shares(model, corpus, heldout=True, threads=threads)
        return
    rows = model.table("theta").n_rows
    for first in range(0, rows, STEP):
        yield first, *trained_shares(model, np.arange(first, min(first + STEP, rows)))


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people: a line a candidate."""
    if not result["candidates"]:
        return ["no candidates: no other document has topics that links of this one's would lead to"]
    return [
        f"{c['ratio']:7.2f}  {shown(c['id'])}  {one_line(c.get('title') or '')}".rstrip() for c in result["candidates"]
    ]
