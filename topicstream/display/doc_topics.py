"""Topics of a store's documents, streamed; each theta is folded in with the topics fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.errors import UsageError
from topicstream.base.options import option
from topicstream.base.progress import ProgressLike, listener
from topicstream.base.records import Json
from topicstream.base.text import render
from topicstream.corpus.reader import Corpus
from topicstream.display.view import ModelView
from topicstream.evaluation.visiting import document_shares
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.output import check_answers, open_answers
from topicstream.model.edits import View
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel


def typical_documents(
    model: TopicModel, corpus: Corpus, n: int, threads: int, view: View
) -> tuple[np.ndarray, np.ndarray]:
    """Rank the n training documents with the largest share of each topic.

    The prior keeps documents of a few words from the first places. Those without a known word are
    never among them.

    Returns
    -------
    Numbers int64[n, K] and shares float64[n, K], best first; -inf where there are fewer documents.
    """
    best = Best(min(n, corpus.n_docs), len(view))
    for block in document_shares(model, corpus, view=view, threads=threads):
        scores = np.where(block.counted[:, None], block.shares.astype(np.float64), -np.inf)
        best.add(block.first, scores)
    return best.ids, best.scores


def best_documents(
    corpus: Corpus,
    n: int,
    scores: Callable[[bool], Iterator[tuple[int, np.ndarray]]],
    without: set[tuple[bool, int]],
    progress: ProgressLike = None,
) -> list[tuple[float, bool, int]]:
    """Rank the n documents of both parts with the highest scores.

    Parameters
    ----------
    corpus
        The store of the documents.
    n
        Documents wanted.
    scores
        Yields (first document, float64[D] scores) of a part; its argument is True for the
        documents set aside. A score of -inf is never among the best.
    without
        Documents to leave out, as (set aside, number in the part).
    progress
        Reports the documents that have been scored.

    Returns
    -------
    list
        (score, set aside, number in the part), best first.
    """
    candidates: list[tuple[float, bool, int]] = []
    tell = listener(progress)
    for heldout in (False, True):
        docs = corpus.part(heldout).docs
        best = Best(min(n + len(without), docs), 1)
        for first, values in scores(heldout):
            best.add(first, values[:, None])
            tell.step("topics of documents", first + len(values), docs, "documents")
        scored = zip(best.scores[:, 0].tolist(), best.ids[:, 0].tolist(), strict=True)
        candidates += [
            (-score, heldout, number)
            for score, number in scored
            if np.isfinite(score) and (heldout, number) not in without
        ]
    return [(-score, heldout, number) for score, heldout, number in sorted(candidates)[:n]]


FILE_LINE = (
    "{theta}: {documents:document}[; the prior stands for {without_known_word:document} without a "
    "known word]"
)


@dataclass(frozen=True)
class ThetaView(ModelView, heeds=("with_columns",)):
    """View that writes the topics of every document to a file."""

    title: ClassVar[str] = "Topics of all documents (--theta)"
    theta: str | None = option(
        None,
        "Write the topics of documents to this .parquet, .jsonl or .csv file.",
        path="file",
        metavar="FILE",
    )
    top: int | None = option(
        None, "Only the N largest topics of each document.", min=1, metavar="N"
    )
    wide: bool = option(False, "Write one column per topic instead of lists (.parquet, .csv).")
    part: str = option(
        "train", "Which documents to write.", choices=("train", "heldout", "all"), show=True
    )
    force: bool = option(False, "Replace an existing output file.")

    def result(self) -> dict[str, Json]:
        """Infer the topics of the store's documents and write them."""
        assert self.theta is not None
        check_answers(self.theta, "--theta", [self.corpus, self.model], force=self.force)
        if self.wide and (self.top is not None or not self.theta.endswith((".parquet", ".csv"))):
            raise UsageError(
                "--wide writes all topics, to a .parquet or .csv file; leave out --top"
            )
        store = self.corpus if isinstance(self.corpus, Corpus) else Corpus.open(self.corpus)
        heldout = store.part(True).docs
        if self.part == "train" and heldout:
            listener(self.progress).say(
                f"{heldout:,} held-out documents are left out; --part all includes them"
            )
        options = {
            name: getattr(self, name) for name in ("top", "threads", "mem_limit", "progress")
        }
        run = Answers(
            InferConfig(
                self.model, store, parts=self.part, with_columns=self.with_columns or (), **options
            )
        )
        schema = self._schema(run)
        with open_answers(
            Path(self.theta),
            schema,
            option="--theta",
            force=self.force,
            inputs=[store.path],
            wide=self.wide,
        ) as file:
            for encoded in run.encode_all(lambda answers: file.encode(self._rows(answers, schema))):
                file.write(encoded)
        return {
            "theta": self.theta,
            "documents": run.tally.documents,
            "without_known_word": run.tally.without_known_word,
        }

    def _schema(self, run: Answers) -> pa.Schema:
        """Return the file's columns: lists of topics, or with ``--wide`` a column per topic."""
        columns = run.source.columns
        view = run.view
        if not self.wide or view is None:
            return pa.schema(
                [run.schema.field(name) for name in ("id", "topics", "shares", *columns)]
            )
        return pa.schema(
            [
                run.schema.field(0),
                *columns.items(),
                *((f"topic_{number}", pa.float32()) for number in view.ids),
            ]
        )

    def _rows(self, answers: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Convert answers of ``infer`` to rows of the file."""
        present = answers.select([name for name in schema.names if name in answers.schema.names])
        if present.num_columns == len(schema):
            return present
        theta = answers.column("shares").values.to_numpy().reshape(len(answers), -1)
        return pa.record_batch(
            [*present.columns, *map(pa.array, np.ascontiguousarray(theta.T))], schema
        )

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        """Describe the file that was written."""
        return render(FILE_LINE, result)
