"""Who knows about a text: by the documents that authors wrote, or by their topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.evaluation.keys import corpus_vocabulary, match_words
from topicstream.inference.answers import Answers
from topicstream.inference.config import InferConfig
from topicstream.model.top import Best
from topicstream.options import option
from topicstream.records import Json
from topicstream.reporting.authors import AXIS, OfAuthors, author_names, evidence, mixtures
from topicstream.reporting.view import largest
from topicstream.text import each, render

SHARPNESS = 4.0
"""Power of a document's cosine: one document that is very like the text says more than many that
are a little like it (docs/decisions/authors.md)."""
NEAR = 1 << 22
"""Numbers of the authors x words of a text that are in memory at a time."""


def document_votes(store: Corpus, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the training documents say for each author: (votes float64[A], documents of each
    int64[A]), streamed.

    A document gives every author of its own the fourth power of its cosine with the text, both
    weighed by
    log(1 + count) log(D / df).  InputError: the store has no authors.

    text: float64[W], how often it has each word of the store.
    """
    authors, df = store.axes[AXIS].size, corpus_vocabulary(store).df[: store.n_words]
    rarity = np.log(store.n_docs / np.clip(df, 1, max(store.n_docs, 1)))
    query = np.log1p(text) * rarity
    query /= max(float(np.sqrt(query @ query)), 1e-300)
    votes, documents = np.zeros(authors), np.zeros(authors, np.int64)
    for block in store.blocks(axes=[AXIS]):
        weights = np.log1p(block.counts.astype(np.float64)) * rarity[block.vocab][block.words]
        owner = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        dots = np.bincount(owner, weights * query[block.vocab][block.words], block.n_docs)
        norms = np.sqrt(np.bincount(owner, weights * weights, block.n_docs))
        rows = block.rows(AXIS)
        who, document = (
            rows.ids[rows.local],
            np.repeat(np.arange(block.n_docs), np.diff(rows.indptr)),
        )
        votes += np.bincount(
            who, (dots / np.maximum(norms, 1e-300))[document] ** SHARPNESS, authors
        )
        documents += np.bincount(who, minlength=authors)
    return votes, documents


@dataclass(frozen=True)
class ExpertsView(OfAuthors, heeds=("words",)):
    """Who knows about a text."""

    title: ClassVar[str] = "Authors who know about a text (--experts)"
    experts: str | None = option(
        None,
        "Rank authors by their knowledge of a text, using their documents in the corpus or, "
        "without a corpus, "
        "the topics of an atm model (less accurate); -n sets how many.",
        metavar="FILE",
    )

    def result(self) -> dict[str, Json]:
        """The authors whose training documents are most like a text or, without a store, whose
        topics make it most likely.

        Documents tell experts far better than topics do (docs/decisions/authors.md), so topics are
        for where there is no store.

        ``by`` (``documents`` or ``topics``), tokens, oov_rate and ``experts``: author, and either
        likeness (the fourth root of
        the votes, 1 where one document is all) and documents, or perplexity of the text and tokens.
        InputError: no word is known,
        or the store has no authors.
        """
        counts, about = self._words_of_text()
        if (
            isinstance(self.corpus, str)
            and self.corpus == "corpus.zarr"
            and not Path(self.corpus).exists()
        ):
            return {"by": "topics", **about, "experts": self._by_topics(counts)}
        return {"by": "documents", **about, "experts": self._by_documents(counts)}

    def _words_of_text(self) -> tuple[np.ndarray, dict[str, float]]:
        """(how often the text has each word of the model float64[W], tokens and oov_rate)."""
        run = Answers(
            InferConfig(
                self.shown.trained,
                Path(str(self.experts)),
                threads=1,
                mem_limit=self.mem_limit,
                edits=False,
            )
        )
        counts, tokens, unknown = np.zeros(self.shown.trained.n_words), 0.0, 0.0
        for some in run.source.documents():
            tokens, unknown = tokens + float(some.tokens.sum()), unknown + float(some.unknown.sum())
            counts += np.bincount(some.words, some.counts, len(counts))
        if not counts.any():
            raise InputError("the text contains no word that the model knows")
        return counts, {"tokens": tokens, "oov_rate": unknown / tokens}

    def _by_topics(self, counts: np.ndarray) -> list[dict[str, Any]]:
        """By p(w|a) = sum_k theta_a[k] p(w|k)."""
        ids, table = np.flatnonzero(counts), self.table
        x, p = counts[ids], self.shown.trained.probabilities(ids).T  # [K, words]
        best, tokens, prior = (
            Best(min(self.words, table.n_rows), 1),
            np.zeros(table.n_rows),
            evidence(table),
        )
        step = max(1, NEAR // max(len(ids), 1))
        for first, rows in table.spans():
            tokens[first : first + len(rows)] = sums = rows.sum(1, dtype=np.float64)
            for a in range(0, len(rows), step):
                loglik = np.log(np.maximum(mixtures(rows[a : a + step], prior) @ p, 1e-300)) @ x
                best.add(first + a, np.where(sums[a : a + step] < 0.5, -np.inf, loglik)[:, None])
        scored = best.scores[:, 0] > -1e300
        rows, scores = best.ids[scored, 0], best.scores[scored, 0]
        return [
            {
                "author": name,
                "perplexity": float(np.exp(-score / x.sum())),
                "tokens": float(tokens[row]),
            }
            for name, score, row in zip(author_names(table, rows), scores, rows, strict=True)
        ]

    def _by_documents(self, counts: np.ndarray) -> list[dict[str, Any]]:
        """By the documents that they wrote (``document_votes``)."""
        model, store = self.shown.trained, self.store
        index = match_words(model.vocabulary, store)
        query = counts if index is None else np.where(index < 0, 0.0, counts[index])
        votes, documents = document_votes(store, query[: store.n_words])
        rows = [row for row in largest(votes, self.words) if votes[row] > 0]
        names = store.axes[AXIS].names().take(rows).to_pylist()
        return [
            {
                "author": name,
                "likeness": float(votes[a] ** (1 / SHARPNESS)),
                "documents": int(documents[a]),
            }
            for name, a in zip(names, rows, strict=True)
        ]

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        head = "{tokens:,.0f} tokens, {oov_rate:.1p} % of them unknown; "
        if result["by"] == "topics":
            rows = each("{perplexity:>9.1f}  {author}  ({tokens:,.0f} tokens)", result["experts"])
            return (
                render(
                    head + "no corpus store, so perplexity of the text by the topics of authors, a "
                    "weak guide",
                    result,
                )
                + rows
            )
        rows = each("{likeness:>7.3f}  {author}  ({documents:document})", result["experts"])
        return render(head + "likeness of the authors' documents", result) + (
            rows or ["no author's documents have any of its words"]
        )
