"""Topics of the training documents, streamed: each document's theta is folded in with the model's topics fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.evaluation.memory import open_within
from topicstream.evaluation.visiting import document_shares
from topicstream.inference.output import AnswersFile, Lists, answer_batch, answer_schema, check_answers, keep
from topicstream.inference.source import columns_within
from topicstream.model.edits import View, view_of
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.options import option
from topicstream.progress import Told, listener
from topicstream.records import Json
from topicstream.reporting.metadata import Metadata
from topicstream.reporting.view import ModelView
from topicstream.text import counted

BLOCK_DOCS = 1 << 12


def shares(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray]]:
    """(global number of the first document, p(k|d) float32[D, K]) block by block, in document order.

    theta: what ``infer`` answers by default; a document without a known word gets the prior's mean.
    """
    for first, theta, _ in document_shares(model, corpus, heldout=heldout, threads=threads):
        yield first, theta


def typical_documents(
    model: TopicModel, corpus: Corpus, n: int, threads: int, view: View
) -> tuple[np.ndarray, np.ndarray]:
    """The n training documents with the largest share of each topic: numbers int64[n, K] and shares float64[n, K], best
    first.  (The prior keeps documents of a few words from the first places.)"""
    best = Best(min(n, corpus.n_docs), len(view))
    for first, theta in shares(model, corpus, threads=threads):
        best.add(first, view.shares(theta).astype(np.float64))
    return best.ids, best.scores


def best_documents(
    corpus: Corpus,
    n: int,
    scores: Callable[[bool], Iterator[tuple[int, np.ndarray]]],
    without: set[tuple[bool, int]],
    progress: Told = None,
) -> list[tuple[float, bool, int]]:
    """The n documents of both parts with the highest score: (score, whether set aside, number in its part).

    Parameters
    ----------
    scores
        Of a part (True: the documents set aside), streamed: (first document, float64[D]); -inf is never among the best.
    without
        Documents that are left out: (whether set aside, number).
    """
    found: list[tuple[float, bool, int]] = []
    tell = listener(progress)
    for heldout in (False, True):
        if not (docs := corpus.part(heldout).docs):
            continue
        best = Best(min(n + len(without), docs), 1)
        for first, values in scores(heldout):
            best.add(first, values[:, None])
            tell.step("topics of documents", first + len(values), docs, "documents")
        scored = zip(best.scores[:, 0].tolist(), best.ids[:, 0].tolist(), strict=True)
        found += [
            (-score, heldout, number)
            for score, number in scored
            if np.isfinite(score) and (heldout, number) not in without
        ]
    return [(-score, heldout, number) for score, heldout, number in sorted(found)[:n]]


@dataclass(frozen=True)
class Layout:
    """What a row of a file of topics holds: ``infer``'s lists of topics and shares, or a column for each topic.

    Attributes
    ----------
    top
        Only so many topics a document, largest first; None: all, by number.
    with_columns
        Metadata beside the topics.
    wide
        A column for each topic, by its number (``.parquet`` and ``.csv``).
    """

    top: int | None = None
    with_columns: Sequence[str] = ()
    wide: bool = False

    def schema(self, types: dict[str, pa.DataType], view: View, whole: bool) -> pa.Schema:
        """Of a file with metadata of these types; whole: ids are integers."""
        if not self.wide:
            return answer_schema(types, facts=False, integer_ids=whole)
        columns = {"id": pa.int64() if whole else pa.large_string(), **types}
        return pa.schema([*columns.items(), *((f"topic_{number}", pa.float32()) for number in view.ids)])

    def rows(self, schema: pa.Schema, view: View, ids: pa.Array, beside: list[pa.Array], theta: np.ndarray) -> pa.RecordBatch:
        """Documents with their metadata and p(k|d) of the view, float32[D, K]."""
        if self.wide:
            return pa.record_batch([ids, *beside, *map(pa.array, np.ascontiguousarray(theta.T))], schema)
        lists = keep(theta, self.top)
        return answer_batch(schema, ids, Lists(lists.offsets, view.numbers[lists.topics], lists.shares), beside)


def write_theta(
    path: str | Path,
    model: TopicModel,
    corpus: Corpus,
    layout: Layout = Layout(),
    *,
    parts: tuple[str, ...] = ("train",),
    threads: int = 1,
    force: bool = False,
    progress: Told = None,
) -> int:
    """Write the topics of all documents of the parts (``train``, ``heldout``), streamed, in their order; returns how many.

    By suffix: ``.parquet`` (id, topics list<int32>, shares list<float>), ``.jsonl`` (the same names), ``.csv`` (a line a
    document and topic: id, topic, share); then the columns asked for.  Edits are honoured.  The file appears when it is
    complete; ``force`` replaces one of ours that is there.
    """
    done, view, types, tell = 0, view_of(model), columns_within(corpus, layout.with_columns), listener(progress)
    total = sum(corpus.part(p == "heldout").docs for p in parts)
    whole = corpus.manifest.ids == "integer"
    schema = layout.schema(types, view, whole)
    with AnswersFile(path, schema, option="--theta", force=force, inputs=[corpus.path], wide=layout.wide) as file:
        for part in parts:
            heldout = part == "heldout"
            names = Metadata(corpus, ["id", *types], heldout)
            for first, theta in shares(model, corpus, heldout=heldout, threads=threads):
                rows, listed = names.of(first, len(theta))
                rows = rows.filter(pa.array(listed)).combine_chunks()
                columns = {name: rows[name].combine_chunks() for name in rows.column_names}
                ids, beside = typed_ids(columns["id"], whole), [columns[name] for name in types]
                file.add(layout.rows(schema, view, ids, beside, view.shares(theta[listed])))
                done += len(rows)
                tell.step("topics of documents", done, total, "documents")
        file.commit()
    return done


@dataclass(frozen=True)
class ThetaView(ModelView):
    """The topics of every document, to a file."""

    title: ClassVar[str] = "Topics of all documents (--theta)"
    theta: str | None = option(
        None, "Write the topics of documents to this .parquet, .jsonl or .csv file.", path="file", metavar="FILE"
    )
    top: int | None = option(None, "Only the N largest topics of each document.", min=1, metavar="N")
    wide: bool = option(False, "Write one column per topic instead of lists (.parquet, .csv).")
    part: str = option("train", "Which documents to write.", choices=("train", "heldout", "all"), show=True)
    force: bool = option(False, "Replace an existing output file.")

    def result(self) -> dict[str, Json]:
        assert self.theta is not None
        check_answers(self.theta, "--theta", [self.corpus, self.model], force=self.force)
        if self.wide and (self.top is not None or not self.theta.endswith((".parquet", ".csv"))):
            raise UsageError("--wide writes all topics, to a .parquet or .csv file; leave out --top")
        opened, workers = open_within(self.model, self.mem_limit, self.threads)
        store = self.corpus if isinstance(self.corpus, Corpus) else Corpus.open(self.corpus)
        if self.part == "train" and (aside := store.part(True).docs):
            listener(self.progress).say(f"{aside:,} held-out documents are left out; --part all includes them")
        parts = ("train", "heldout") if self.part == "all" else (self.part,)
        done = write_theta(
            self.theta, opened, store, Layout(self.top, self.with_columns or [], self.wide), parts=parts,
            threads=workers, force=self.force, progress=self.progress,
        )  # fmt: skip
        return {"theta": self.theta, "documents": done}

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        return [f"{result['theta']}: {counted(result['documents'], 'document')}"]
