"""Topics of the training documents, streamed: each document's theta is folded in with the model's topics fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.evaluation.completion import LANES, block_cells
from topicstream.evaluation.keys import documents, match_words
from topicstream.inference.keep import keep
from topicstream.inference.output import OutputFile
from topicstream.kernels.fold_in import INNER, TOLERANCE, fold_in_block, inverse_norms, padded_floats
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order

BLOCK_DOCS = 1 << 12


def shares(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray]]:
    """(global number of the first document, p(k|d) float32[D, K]) block by block, in document order.

    theta: the EM fixed point of each document on its own, all its known words observed (tolerance 1e-3, at most 100 inner
    iterations); a document without a known word gets the prior's mean.
    """
    ids_of_words = match_words(model.vocabulary, corpus)
    width = -(-model.n_topics // LANES) * LANES
    inverse = inverse_norms(model.totals, model.n_words, model.beta, width)
    prior = padded_floats(model.alpha, width)

    def visit(block: Block) -> tuple[int, np.ndarray]:
        ids = block.vocab.astype(np.int64) if ids_of_words is None else ids_of_words[block.vocab]
        known = ids >= 0
        base = np.zeros((max(1, int(known.sum())), width), np.float32)
        if known.any():
            model.rows(ids[known], out=base)
        index = np.where(known, np.cumsum(known) - 1, -1)
        out = np.empty((block.n_docs, model.n_topics), np.float32)
        fold_in_block(
            block.indptr, block.words, block.counts, index, base, prior, inverse, model.beta, TOLERANCE, INNER, out
        )
        return block.first_doc, out

    grid = corpus.grid(block_cells(model.n_topics), BLOCK_DOCS, heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)


def typical_documents(
    model: TopicModel, corpus: Corpus, n: int, threads: int = 1
) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """The n training documents with the largest share of each topic: numbers int64[n, K] and shares float64[n, K], best
    first, and the ids by number.  (The prior keeps documents of a few words from the first places.)"""
    best = Best(min(n, corpus.n_docs), model.n_topics)
    for first, theta in shares(model, corpus, threads=threads):
        best.add(first, theta.astype(np.float64))
    wanted = np.unique(best.ids)
    ids: dict[int, str] = {}
    for numbers, batch in documents(corpus, False, ["id"]):
        hit = np.flatnonzero(np.isin(numbers, wanted))
        column = batch.column("id")
        ids.update((int(numbers[i]), column[int(i)].as_py()) for i in hit)
    for number in wanted.tolist():
        ids.setdefault(number, str(number))
    return best.ids, best.scores, ids


class Names:
    """Ids of consecutive documents out of the streamed documents' table; the number where the store has no table; None
    for documents that the table no longer lists (replaced by a later version)."""

    def __init__(self, corpus: Corpus, heldout: bool) -> None:
        self._stream = documents(corpus, heldout, ["id"])
        self._table = bool(corpus.manifest.get("docs"))
        self._ahead: dict[int, str] = {}
        self._over = not self._table
        self._path = corpus.path

    def of(self, first: int, count: int) -> list[str | None]:
        """Ids of documents ``first .. first + count - 1``; calls must ascend."""
        if not self._table:
            return [str(d) for d in range(first, first + count)]
        while not self._over and (not self._ahead or max(self._ahead) < first + count):
            step = next(self._stream, None)
            if step is None:
                self._over = True
                break
            numbers, batch = step
            if len(numbers) and numbers.min() < first:
                raise StoreError(f"{self._path}/docs: documents are not in the order of the blocks; ingest again")
            self._ahead.update(zip(numbers.tolist(), batch.column("id").to_pylist(), strict=True))
        return [self._ahead.pop(d, None) for d in range(first, first + count)]


def write_theta(
    path: str | Path,
    model: TopicModel,
    corpus: Corpus,
    *,
    top: int | None = None,
    threads: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> int:
    """Write the topics of all training documents, streamed, in their order; returns how many.

    By suffix: ``.parquet`` (id, topics list<int32>, shares list<float>), ``.jsonl`` (the same names), ``.csv`` (a line a
    document and topic: id, topic, share).  ``top``: only so many topics a document, largest first; else all, by number.
    The file appears when it is complete.  ``progress`` is called with (what, documents done, documents in all).
    """
    names, done = Names(corpus, False), 0
    with OutputFile(path, about=False, option="--theta") as file:
        for first, theta in shares(model, corpus, threads=threads):
            ids = names.of(first, len(theta))
            kept = [i for i, name in enumerate(ids) if name is not None]
            listed = pa.array([ids[i] for i in kept], pa.large_string())
            file.format.write(file.format.encode(listed, keep(theta[kept], top), None))
            done += len(kept)
            if progress is not None:
                progress("topics of documents", done, corpus.n_docs)
        file.commit()
    return done
