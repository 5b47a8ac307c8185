"""Topics of the training documents, streamed: each document's theta is folded in with the model's topics fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.corpus.block import Block
from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import documents, match_words
from topicstream.evaluation.memory import block_cells
from topicstream.inference import methods
from topicstream.inference.documents import known
from topicstream.inference.infer import columns_within
from topicstream.inference.keep import Lists, keep
from topicstream.inference.method import TopicRows
from topicstream.inference.output import AnswersFile
from topicstream.model.edits import View, view_of
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order
from topicstream.progress import Told, listener
from topicstream.reporting.metadata import Metadata

BLOCK_DOCS = 1 << 12


def shares(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray]]:
    """(global number of the first document, p(k|d) float32[D, K]) block by block, in document order.

    theta: what ``infer`` answers by default; a document without a known word gets the prior's mean.
    """
    for first, theta, _ in shares_and_tokens(model, corpus, heldout=heldout, threads=threads):
        yield first, theta


def shares_and_tokens(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """As ``shares``, with the known tokens of each document, float64[D]."""
    ids_of_words = match_words(model.vocabulary, corpus)
    means = methods.find_method(methods.of_model(model))(TopicRows(model))

    def visit(block: Block) -> tuple[int, np.ndarray, np.ndarray]:
        ids = block.vocab.astype(np.int64) if ids_of_words is None else ids_of_words[block.vocab]
        numbers = pa.nulls(block.n_docs, pa.large_string())
        found = known(numbers, block.indptr, block.words, block.counts, ids)
        return block.first_doc, means.shares(found), found.tokens - found.unknown

    grid = corpus.grid(block_cells(model.n_topics), BLOCK_DOCS, heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)


def typical_documents(
    model: TopicModel, corpus: Corpus, n: int, threads: int = 1, view: View | None = None
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """The n training documents with the largest share of each topic: numbers int64[n, K] and shares float64[n, K], best
    first, and the ids by number.  (The prior keeps documents of a few words from the first places.)"""
    best = Best(min(n, corpus.n_docs), model.n_topics if view is None else len(view))
    for first, theta in shares(model, corpus, threads=threads):
        best.add(first, (theta if view is None else view.shares(theta)).astype(np.float64))
    wanted = np.unique(best.ids)
    ids: dict[int, str] = {}
    for numbers, batch in documents(corpus, False, ["id"]):
        hit = np.flatnonzero(np.isin(numbers, wanted))
        column = batch.column("id")
        ids.update((int(numbers[i]), column[int(i)].as_py()) for i in hit)
    for number in wanted.tolist():
        ids.setdefault(number, str(number))
    return best.ids, best.scores, ids


def write_theta(
    path: str | Path,
    model: TopicModel,
    corpus: Corpus,
    *,
    top: int | None = None,
    parts: tuple[str, ...] = ("train",),
    with_columns: Sequence[str] = (),
    threads: int = 1,
    force: bool = False,
    progress: Told = None,
) -> int:
    """Write the topics of all documents of the parts (``train``, ``heldout``), streamed, in their order; returns how many.

    By suffix: ``.parquet`` (id, topics list<int32>, shares list<float>), ``.jsonl`` (the same names), ``.csv`` (a line a
    document and topic: id, topic, share); then the columns asked for.  ``top``: only so many topics a document, largest
    first; else all, by number.  Edits are honoured.  The file appears when it is complete; ``force`` replaces one of
    ours that is there.
    """
    done, view, types, tell = 0, view_of(model), columns_within(corpus, with_columns), listener(progress)
    total = sum(corpus.part(p == "heldout")["docs"] for p in parts)
    whole = corpus.manifest.get("ids") == "integer"
    given = {**({"id": pa.int64()} if whole else {}), **types}
    with AnswersFile(path, about=False, option="--theta", force=force, inputs=[corpus.path], columns=given) as file:
        for part in parts:
            heldout = part == "heldout"
            names = Metadata(corpus, ["id", *types], heldout)
            for first, theta in shares(model, corpus, heldout=heldout, threads=threads):
                rows, listed = names.of(first, len(theta))
                if not corpus.manifest.get("docs"):
                    numbers = np.arange(first, first + len(theta)) + (corpus.n_docs if heldout else 0)
                    rows, listed = {"id": pa.array(numbers.astype(str), pa.large_string())}, np.ones(len(theta), bool)
                if not listed.all():
                    kept = pa.array(np.flatnonzero(listed))
                    rows, theta = {n: column.take(kept) for n, column in rows.items()}, theta[listed]
                lists = keep(view.shares(theta), top)
                lists = Lists(lists.offsets, view.numbers[lists.topics], lists.shares)
                more = {n: rows[n] for n in types}
                file.format.write(file.format.encode(typed_ids(rows["id"], whole), lists, None, more))
                done += len(theta)
                tell.step("topics of documents", done, total, "documents")
        file.commit()
    return done
