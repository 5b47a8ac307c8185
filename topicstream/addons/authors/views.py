"""The authors of a topic, the topics of an author, and similar authors.

theta_a[k] = (T[a, k] + alpha_k) / (sum_k T[a, k] + sum alpha), with T as ``train --algo atm``
leaves it. The table is streamed. Where authors are compared with each other (nearest, experts) the
mixture begins with EVIDENCE tokens of the corpus' topics instead of alpha: an author of one short
abstract is not sure to be like anybody.

Experts on a text are ranked by the documents that authors wrote, or by their topics.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, one_line
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.base.text import compose_text, render, render_each
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import spellings
from topicstream.display.view import ModelView, add_mark, largest
from topicstream.evaluation.keys import match_words
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.model.store import StoredTable
from topicstream.model.top import Best

AXIS = "authors"
WORDS = 6
"""Words listed for a topic."""
EVIDENCE = 100.0
"""Tokens of the corpus' topics with which a mixture begins (decisions/authors.md)."""
TOPIC = "{topic:>4} {share:5.1p} %  [({mark}) ][{label}: ]{words: }"


@dataclass(frozen=True)
class AuthorTableView(ModelView):
    """A view of a model's authors."""

    @cached_property
    def table(self) -> StoredTable:
        """Read the table of authors, their tokens by topic.

        Raises
        ------
        StoreError, InputError
            If the model has no such table over its topics.
        """
        model = self.shown.trained
        table = model.table(AXIS)
        if table.names is None or table.columns != model.n_topics:
            raise InputError(
                f"{model.path}: its table of authors is not over its topics; train with --algo atm"
            )
        return table


def author_names(table: StoredTable, rows: Any) -> list[str]:
    """Look up the names of authors."""
    assert table.names is not None
    names: list[str] = table.names.take(pa.array(rows, pa.int64())).to_pylist()
    return names


def prior_counts(table: StoredTable) -> np.ndarray:
    """Return the pseudo-counts of a mixture where authors are compared, float64[K]."""
    sizes = np.maximum(table.totals, 0.0) + 1e-9
    return np.asarray(EVIDENCE * sizes / sizes.sum())


def mixtures(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute p(topic | author) of rows of the table, float64[n, K]."""
    with_prior = np.maximum(counts, 0.0).astype(np.float64) + prior
    return np.asarray(with_prior / np.maximum(with_prior.sum(1, keepdims=True), 1e-300))


def find_author(names: Any, name: str) -> int:
    """Find the row of an author.

    Raises
    ------
    InputError
        With the nearest names, if there is no such author.
    """
    for spelling in spellings(name):
        row = pc.index(names, pa.scalar(spelling, names.type)).as_py()
        if row >= 0:
            return int(row)
    name = compose_text(name)
    inside = names.filter(pc.match_substring(names, name, ignore_case=True)).slice(0, 5).to_pylist()
    folded = {n.casefold(): n for n in names.slice(0, 0 if inside else 200_000).to_pylist()}
    near = inside or [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, 3)]
    hint = f"; did you mean {', '.join(map(one_line, near))}?" if near else ""
    raise InputError(f"--author {one_line(name)}: the model knows no such author{hint}")


@dataclass(frozen=True)
class AuthorsView(AuthorTableView, heeds=("words", "topics")):
    """Authors and their topics."""

    title: ClassVar[str] = "Authors and their topics (--authors, --author)"
    authors: bool = option(
        False, "For an author-topic model: the first authors of each topic; -n sets how many."
    )
    author: str | None = option(
        None,
        "For an author-topic model: the topics of an author, and the most similar authors.",
        metavar="NAME",
    )

    def result(self) -> dict[str, Json]:
        if self.author is not None:
            return self._describe_author(self.author)
        return self._list_by_topic()

    def _list_by_topic(self) -> dict[str, Json]:
        """List the authors with most tokens of each requested topic, the largest topic first.

        Returns
        -------
        dict
            ``topics``: a list of topic, words, share (of all tokens that have an author) and
            authors (author, tokens, share of the author's own tokens).
        """
        shown = self.shown
        table = self.table
        best = Best(min(self.words, table.n_rows), len(shown.view))
        tokens = np.zeros(table.n_rows)
        for first, rows in table.spans():
            tokens[first : first + len(rows)] = rows.sum(1, dtype=np.float64)
            best.add(first, shown.view.columns(np.maximum(rows, 0.0)))
        sizes = shown.view.columns(np.maximum(table.totals, 0.0)[None])[0]
        chosen = shown.columns(self.topics) if self.topics else shown.ranked(sizes)
        first_words = shown.first_words(WORDS)
        entries: list[Json] = []
        for k in chosen:
            relevant = best.scores[:, k] > 0.5
            rows = best.ids[relevant, k]
            scores = best.scores[relevant, k]
            authors: list[Json] = [
                {
                    "author": name,
                    "tokens": float(score),
                    "share": float(score / max(tokens[row], 1e-300)),
                }
                for name, score, row in zip(author_names(table, rows), scores, rows, strict=True)
            ]
            share = float(sizes[k] / max(sizes.sum(), 1e-300))
            entries.append(
                {**shown.entry(k), "words": first_words[k], "share": share, "authors": authors}
            )
        return {"model": shown.trained.name, "authors": table.n_rows, "topics": entries}

    def _describe_author(self, name: str) -> dict[str, Json]:
        """List the largest topics of an author, and the authors with the most similar topics.

        Likeness is the Bhattacharyya coefficient of the mixtures, 1 for the same.

        Returns
        -------
        dict
            author, tokens, ``topics`` (topic, share, words) and ``nearest`` (author, likeness,
            tokens).

        Raises
        ------
        InputError
            If there is no such author.
        """
        shown = self.shown
        table = self.table
        view = shown.view
        n = self.words
        author = find_author(table.names, name)
        counts = table.gather(np.array([author]))
        prior = prior_counts(table)
        theta = view.shares(mixtures(counts, shown.trained.alpha))[0]
        root = np.sqrt(view.shares(mixtures(counts, prior))[0])
        best = Best(min(n + 1, table.n_rows), 1)
        tokens = np.zeros(table.n_rows)
        for first, rows in table.spans():
            sums = rows.sum(1, dtype=np.float64)
            tokens[first : first + len(rows)] = sums
            like = np.sqrt(view.shares(mixtures(rows, prior))) @ root
            # authors of held-out documents alone have no tokens
            best.add(first, np.where(sums < 0.5, -np.inf, like)[:, None])
        similar = (best.ids[:, 0] != author) & (best.scores[:, 0] > -1)
        rows = best.ids[similar, 0][:n]
        scores = best.scores[similar, 0][:n]
        first_words = shown.first_words(WORDS)
        return {
            "author": name,
            "tokens": float(max(counts.sum(), 0.0)),
            "topics": [
                {**shown.entry(k), "words": first_words[k], "share": float(theta[k])}
                for k in shown.ranked(theta)[:n]
            ],
            "nearest": [
                {"author": other, "likeness": min(1.0, float(score)), "tokens": float(tokens[row])}
                for other, score, row in zip(author_names(table, rows), scores, rows, strict=True)
            ],
        }

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        if self.author is not None:
            near = "; ".join(render_each("{author} {likeness:.3f}", result["nearest"]))
            topics = render_each(
                TOPIC, [add_mark(t) for t in result["topics"] if t["share"] >= 0.005]
            )
            return [
                *render("{author}: {tokens:,.0f} tokens", result),
                *topics,
                f"nearest: {near or '-'}",
            ]
        described = [
            {
                **add_mark(t),
                "named": "; ".join(render_each("{author} {tokens:,.0f}", t["authors"])) or "-",
            }
            for t in result["topics"]
        ]
        return render_each(f"{TOPIC}\n     {{named}}", described)


SHARPNESS = 4.0
"""Power of a document's cosine: one document that is very like the text says more than many that
are a little like it (decisions/authors.md)."""
NEAR = 1 << 22
"""Numbers of the authors x words of a text that are in memory at a time."""


def document_votes(store: Corpus, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum the votes of the training documents for each author, streamed.

    A document gives each of its authors the fourth power of its cosine with the text, both weighted
    by log(1 + count) log(D / df).

    Parameters
    ----------
    text
        float64[W], counts of the store's words in the text.

    Returns
    -------
    tuple
        Votes float64[A] and documents int64[A] of each author.

    Raises
    ------
    InputError
        If the store has no authors.
    """
    authors = store.axes[AXIS].size
    df = store.read_vocabulary().df[: store.n_words]
    rarity = np.log(store.n_docs / np.clip(df, 1, max(store.n_docs, 1)))
    query = np.log1p(text) * rarity
    query /= max(float(np.sqrt(query @ query)), 1e-300)
    votes = np.zeros(authors)
    documents = np.zeros(authors, np.int64)
    for block in store.blocks(axes=[AXIS]):
        weights = np.log1p(block.counts.astype(np.float64)) * rarity[block.vocab][block.words]
        owner = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        dots = np.bincount(owner, weights * query[block.vocab][block.words], block.n_docs)
        norms = np.sqrt(np.bincount(owner, weights * weights, block.n_docs))
        rows = block.rows(AXIS)
        author = rows.ids[rows.local]
        document = np.repeat(np.arange(block.n_docs), np.diff(rows.indptr))
        votes += np.bincount(
            author, (dots / np.maximum(norms, 1e-300))[document] ** SHARPNESS, authors
        )
        documents += np.bincount(author, minlength=authors)
    return votes, documents


@dataclass(frozen=True)
class ExpertsView(AuthorTableView, heeds=("words",)):
    """A ranking of the authors who know about a text."""

    title: ClassVar[str] = "Authors who know about a text (--experts)"
    experts: str | None = option(
        None,
        "Rank authors by their knowledge of a text, using their documents in the corpus or, "
        "without a corpus, "
        "the topics of an atm model (less accurate); -n sets how many.",
        metavar="FILE",
    )

    def result(self) -> dict[str, Json]:
        """Rank the authors by their training documents or, without a store, by their topics.

        Documents reveal experts far better than topics do (docs/internals/decisions/authors.md), so
        topics are for models without a store.

        Returns
        -------
        dict
            ``by`` (``documents`` or ``topics``), tokens, oov_rate and ``experts``: author, and
            either likeness (the fourth root of the votes, 1 where one document is all) and
            documents, or perplexity of the text and tokens.

        Raises
        ------
        InputError
            If no word is known, or the store has no authors.
        """
        counts, about = self._count_words()
        if (
            isinstance(self.corpus, str)
            and self.corpus == "corpus.zarr"
            and not Path(self.corpus).exists()
        ):
            return {"by": "topics", **about, "experts": self._rank_by_topics(counts)}
        return {"by": "documents", **about, "experts": self._rank_by_documents(counts)}

    def _count_words(self) -> tuple[np.ndarray, dict[str, float]]:
        """Count the model's words in the text.

        Returns
        -------
        tuple
            Counts float64[W], and a record of tokens and oov_rate.
        """
        run = Answers(
            InferConfig(
                self.shown.trained,
                Path(str(self.experts)),
                threads=1,
                mem_limit=self.mem_limit,
                edits=False,
            )
        )
        counts = np.zeros(self.shown.trained.n_words)
        tokens = 0.0
        unknown = 0.0
        for some in run.source.documents():
            tokens += float(some.tokens.sum())
            unknown += float(some.unknown.sum())
            counts += np.bincount(some.words, some.counts, len(counts))
        if not counts.any():
            raise InputError("the text contains no word that the model knows")
        return counts, {"tokens": tokens, "oov_rate": unknown / tokens}

    def _rank_by_topics(self, counts: np.ndarray) -> list[dict[str, Any]]:
        """Rank authors by p(w|a) = sum_k theta_a[k] p(w|k)."""
        ids = np.flatnonzero(counts)
        table = self.table
        x = counts[ids]
        p = self.shown.trained.probabilities(ids).T  # [K, words]
        best = Best(min(self.words, table.n_rows), 1)
        tokens = np.zeros(table.n_rows)
        prior = prior_counts(table)
        step = max(1, NEAR // max(len(ids), 1))
        for first, rows in table.spans():
            sums = rows.sum(1, dtype=np.float64)
            tokens[first : first + len(rows)] = sums
            for a in range(0, len(rows), step):
                loglik = np.log(np.maximum(mixtures(rows[a : a + step], prior) @ p, 1e-300)) @ x
                best.add(first + a, np.where(sums[a : a + step] < 0.5, -np.inf, loglik)[:, None])
        scored = best.scores[:, 0] > -1e300
        rows = best.ids[scored, 0]
        scores = best.scores[scored, 0]
        return [
            {
                "author": name,
                "perplexity": float(np.exp(-score / x.sum())),
                "tokens": float(tokens[row]),
            }
            for name, score, row in zip(author_names(table, rows), scores, rows, strict=True)
        ]

    def _rank_by_documents(self, counts: np.ndarray) -> list[dict[str, Any]]:
        """Rank authors by the documents that they wrote (``document_votes``)."""
        model = self.shown.trained
        store = self.store
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
            rows = render_each(
                "{perplexity:>9.1f}  {author}  ({tokens:,.0f} tokens)", result["experts"]
            )
            return (
                render(
                    head + "no corpus store, so perplexity of the text by the topics of authors, a "
                    "weak guide",
                    result,
                )
                + rows
            )
        rows = render_each("{likeness:>7.3f}  {author}  ({documents:document})", result["experts"])
        return render(head + "likeness of the authors' documents", result) + (
            rows or ["no author's documents have any of its words"]
        )
