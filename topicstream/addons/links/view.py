"""The most likely missing links of a document, by the topics of both ends, out of core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.links.scorer import check_model, trained_shares
from topicstream.base.errors import InputError
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.corpus.reader import Corpus
from topicstream.display.doc_topics import best_documents
from topicstream.display.listed import document_lines, find_document, list_documents
from topicstream.display.metadata import choose_columns
from topicstream.display.view import ModelView
from topicstream.evaluation.keys import first_documents
from topicstream.evaluation.visiting import NO_TOPICS, BlockShares, document_shares, infer_shares
from topicstream.model.topic_model import TopicModel

STEP = 1 << 14


def find_linked(corpus: Corpus, heldout: bool, number: int) -> set[tuple[bool, int]]:
    """Find the documents that a document is linked with.

    Between two held-out documents, no link counts.

    Returns
    -------
    set
        Pairs of (held out, number).
    """
    first = first_documents(corpus, heldout)
    storage = int(np.searchsorted(first, number, "right")) - 1
    lengths, ids = corpus.lists("links", storage, heldout)
    ends = np.cumsum(lengths, dtype=np.int64)
    row = number - int(first[storage])
    linked = {(False, int(i)) for i in ids[ends[row] - lengths[row] : ends[row]]}
    if not heldout:
        first = first_documents(corpus, True)
        for b in range(len(first) - 1):
            lengths, ids = corpus.lists("links", b, True)
            linked |= {
                (True, int(first[b] + d))
                for d in np.repeat(np.arange(len(lengths)), lengths)[ids == number]
            }
    return linked


def stream_topics(
    model: TopicModel, corpus: Corpus, heldout: bool, threads: int
) -> Iterator[BlockShares]:
    """Stream the topics of a part's documents, in order."""
    if heldout:
        yield from document_shares(model, corpus, heldout=True, threads=threads)
        return
    rows = model.table("theta").n_rows
    for first in range(0, rows, STEP):
        numbers = np.arange(first, min(first + STEP, rows))
        yield BlockShares(first, *trained_shares(model, numbers))


@dataclass(frozen=True)
class LinksView(ModelView, heeds=("words", "with_columns")):
    """Candidates for links."""

    title: ClassVar[str] = "Predicted links (--links)"
    links: str | None = option(
        None,
        "For an rtm model: the most likely missing links of this document; -n sets how many.",
        metavar="ID",
    )

    def result(self) -> dict[str, Json]:
        """List the documents with which this one is most likely linked, but is not yet.

        The ratio says how many times as likely as between any two documents a link is, by the
        model's eta: sum over topics k, j of theta_dk eta_kj / e_j theta_d'j, e the share of the
        links' ends by topic (Zeng, Cheung & Liu 2013, eq. 28). Training documents have the topics
        that the model was trained to, others those of their words.

        Returns
        -------
        dict
            ``document``, ``part``, ``linked`` (number of its links) and ``candidates`` of both
            parts (id, part, ratio, columns; the title by default).

        Raises
        ------
        InputError
            For a model without links or of another state of the corpus.
        """
        opened = self.shown.trained
        store = self.store
        workers = self.shown.threads
        if "eta" not in opened.manifest.tables:
            raise InputError(
                f"{opened.path}: was trained without links; --links goes with a model of --algo rtm"
            )
        check_model(opened, store)
        columns = choose_columns(store, self.with_columns)
        part, number = find_document(store, str(self.links), "--links")
        linked = find_linked(store, part, number)
        eta = opened.table("eta").gather(np.arange(opened.n_topics)).astype(np.float64)
        ends = opened.table("ends").gather(np.arange(1))[0].astype(np.float64)
        ratio = np.divide(eta, ends, out=np.zeros_like(eta), where=ends > 0)
        single = np.array([number])
        topics = (
            infer_shares(opened, store, single, heldout=True, threads=workers)
            if part
            else BlockShares(number, *trained_shares(opened, single))
        )
        if not topics.counted[0]:
            raise InputError(f"--links {self.links}: {NO_TOPICS}")
        weights = topics.shares[0] @ ratio

        def ratios(heldout: bool) -> Iterator[tuple[int, np.ndarray]]:
            for block in stream_topics(opened, store, heldout, workers):
                yield block.first, np.where(block.counted, block.shares @ weights, -np.inf)

        best = best_documents(store, self.words, ratios, linked | {(part, number)}, self.progress)
        candidates = list_documents(best, "ratio", store, columns)
        return {
            "document": self.links,
            "part": "heldout" if part else "train",
            "linked": len(linked),
            "candidates": candidates,
        }

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        """Format a line for each candidate."""
        if not result["candidates"]:
            return [
                "no candidates: no other document has topics that links of this one's would lead to"
            ]
        return document_lines(result["candidates"], "ratio", width)
