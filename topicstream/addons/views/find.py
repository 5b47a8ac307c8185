"""Topics and documents for a query, by its words and by their probability in the topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.options import like, option
from topicstream.base.records import Json
from topicstream.base.text import render, render_each
from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.display.doc_topics import best_documents
from topicstream.display.listed import document_lines, list_documents
from topicstream.display.metadata import choose_columns
from topicstream.display.passages import DocumentTexts, count_candidates, skip_duplicates
from topicstream.display.show import marked_lines
from topicstream.display.view import ModelView, add_mark
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.visiting import BlockShares, documents_of_block
from topicstream.inference.config import InferConfig
from topicstream.inference.methods import make_block_method
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import NamesTools, check_same_tools, named_tools
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

SMOOTHING = 1000.0
"""Pseudo-tokens of the corpus' word distribution in a document (Dirichlet smoothing; Zhai &
Lafferty 2004).
"""
BY_WORDS = 0.7
"""Weight of a document's own words beside its topics (Wei & Croft 2006)."""


def tokenize_query(model: TopicModel, query: str, tools: NamesTools) -> np.ndarray:
    """Tokenise a query as the model's documents were, and return the ids of its words.

    ``tools`` names the tools that may run.

    Raises
    ------
    InputError
        If the model knows none of the words.
    """
    recipe = Recipe.from_json(model.manifest.tokenizer) if model.manifest.tokenizer else Recipe()
    check_same_tools(recipe, tools)
    tokenizer = Tokenizer(recipe, named_tools(tools))
    ids = model.vocabulary.find(tokenizer.count(pa.array([query], pa.large_string())).types)
    if not (ids >= 0).any():
        raise InputError(f"--find {query!r}: the model has none of these words")
    return ids[ids >= 0]


def score_documents(
    model: TopicModel, corpus: Corpus, words: np.ndarray, heldout: bool, threads: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the mean log-likelihood of the words in each document, block by block.

    An item is the number of the first document and the scores, float64[D]. A word's probability is
    .7 times its frequency in the document, with Dirichlet smoothing, plus .3 times its probability
    under the document's topics (Wei & Croft, SIGIR 2006).
    """
    index = match_words(model.vocabulary, corpus)
    method = make_block_method(model)
    table = model.probabilities(words)
    overall = table @ model.shares

    def visit(block: Block) -> tuple[int, np.ndarray]:
        docs = documents_of_block(block, index)
        owner = np.repeat(np.arange(len(docs)), np.diff(docs.indptr))
        total = np.zeros(len(docs))
        theta = method.shares(docs)
        by_topics = theta @ table.T
        for i, word in enumerate(words.tolist()):
            hits = docs.words == word
            counts = np.bincount(owner[hits], docs.counts[hits], len(docs))
            by_words = (counts + SMOOTHING * overall[i]) / (docs.tokens + SMOOTHING)
            total += np.log(BY_WORDS * by_words + (1 - BY_WORDS) * by_topics[:, i] + 1e-300)
        with_topics = BlockShares(block.first_doc, theta, docs.tokens - docs.unknown).counted
        return block.first_doc, np.where(with_topics, total / len(words), -np.inf)

    grid = corpus.grid(block_cells(model.n_topics), block_docs(model.n_topics), heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)


@dataclass(frozen=True)
class FindView(ModelView, heeds=("words", "docs", "text", "with_columns")):
    """Topics and documents for a query."""

    title: ClassVar[str] = "Search by words (--find)"
    find: str | None = option(
        None,
        "Rank topics and documents for these words; --docs sets how many documents.",
        metavar="TEXT",
    )
    lemmas: str | None = like(InferConfig, "lemmas")
    segmenter: str | None = like(InferConfig, "segmenter")

    def result(self) -> dict[str, Json]:
        """Find the topics and documents that a query is most likely of.

        Returns
        -------
        dict
            ``query``, ``words`` of it that the model knows, ``topics`` (p: that all of these words
            are of the topic, by its size and p(w|k)) and ``documents`` (score: mean log-likelihood
            of the words).
        """
        shown = self.shown
        store = self.store
        columns = choose_columns(store, self.with_columns)
        words = tokenize_query(shown.trained, str(self.find), self)
        n = self.docs or 5
        scores = np.log(shown.model.probabilities(words) + 1e-300).sum(axis=0) + np.log(
            shown.model.shares + 1e-300
        )
        p = np.exp(scores - scores.max())
        p /= p.sum()
        first = shown.first_words(self.words)
        ranked = best_documents(
            store,
            count_candidates(n) if self.text else n,
            lambda heldout: score_documents(shown.trained, store, words, heldout, shown.threads),
            set(),
            self.progress,
        )
        names = shown.trained.vocabulary.texts(words)
        described = list_documents(ranked, "score", store, columns)
        if self.text:
            described = self._with_passages(ranked, described, names)
        return {
            "query": self.find,
            "words": names,
            "topics": [
                {**shown.entry(k), "p": float(p[k]), "words": first[k]} for k in shown.ranked(p)[:5]
            ],
            "documents": described[:n],
        }

    def _with_passages(
        self,
        ranked: list[tuple[float, bool, int]],
        described: list[dict[str, Any]],
        words: list[str],
    ) -> list[dict[str, Any]]:
        """Add to the documents the passages with most of the words, without near-duplicates."""
        parts = {
            part: DocumentTexts(self.store, [d for _, h, d in ranked if h == part], heldout=part)
            for part in (False, True)
        }
        if all(texts.missing for texts in parts.values()):
            raise InputError(f"--text: {parts[False].missing}")
        for (_, heldout, number), entry in zip(ranked, described, strict=True):
            passage = parts[heldout].passage(number, words)
            if passage is not None:
                entry |= {"text": passage.text, "marks": passage.marks}
        return [described[i] for i in skip_duplicates([parts[h].words(d) for _, h, d in ranked])]

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        out = [
            *render("words: {words}", result),
            "topics: the probability that all of the words come from it",
            *render_each(
                "{topic:>5} {p:6.1p} %  [({mark}) ][{label}: ]{words: }",
                map(add_mark, result["topics"]),
            ),
            "documents: mean log-likelihood of the words, by their own words and their topics",
        ]
        for document in result["documents"]:
            out += [
                *document_lines([document], "score", width),
                *marked_lines(document, " " * 9, width),
            ]
        return out
