"""Documents like one document, by their topics, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.display.doc_topics import best_documents
from topicstream.display.listed import document_lines, find_document, list_documents
from topicstream.display.metadata import choose_columns
from topicstream.display.view import ModelView
from topicstream.evaluation.visiting import NO_TOPICS, document_shares, infer_shares


@dataclass(frozen=True)
class SimilarView(ModelView, heeds=("words", "with_columns")):
    """Documents like one."""

    title: ClassVar[str] = "Similar documents (--similar)"
    similar: str | None = option(
        None, "Documents with the most similar topics; -n sets how many.", metavar="ID"
    )

    def result(self) -> dict[str, Json]:
        """List the documents of both parts that are most like one, streamed twice.

        Likeness is the Bhattacharyya coefficient of p(k|d), 1 for the same shares.

        Returns
        -------
        dict
            ``document``, ``part``, ``topics`` (its largest) and ``similar`` (id, part, likeness,
            columns; the title by default).
        """
        shown = self.shown
        view = self.shown.view
        store = self.store
        columns = choose_columns(store, self.with_columns)
        part, number = find_document(store, str(self.similar), "--similar")

        topics = infer_shares(
            shown.trained,
            store,
            np.array([number]),
            view=view,
            heldout=part,
            threads=shown.threads,
        )
        if not topics.counted[0]:
            raise InputError(f"--similar {self.similar}: {NO_TOPICS}")
        shares = topics.shares[0].astype(np.float64)
        root = np.sqrt(shares)

        def likeness(heldout: bool) -> Iterator[tuple[int, np.ndarray]]:
            for block in document_shares(
                shown.trained, store, view=view, heldout=heldout, threads=shown.threads
            ):
                alike = np.sqrt(block.shares).astype(np.float64) @ root
                yield block.first, np.where(block.counted, alike, -np.inf)

        best = best_documents(store, self.words, likeness, {(part, number)}, self.progress)
        best = [(min(1.0, value), heldout, d) for value, heldout, d in best]
        return {
            "document": self.similar,
            "part": "heldout" if part else "train",
            "topics": [
                {**shown.entry(k), "share": float(shares[k])} for k in shown.ranked(shares)[:5]
            ],
            "similar": list_documents(best, "likeness", store, columns),
        }

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        return document_lines(result["similar"], "likeness", width)
