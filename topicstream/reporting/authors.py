"""Who writes about what: the authors of a topic, the topics of an author, authors like one, and who knows about a text.

theta_a[k] = (T[a, k] + alpha_k) / (sum_k T[a, k] + sum alpha), T as ``train --algo atm`` leaves it; the table is streamed.  Where
authors are compared with each other (nearest, experts) the mixture begins with EVIDENCE tokens of the corpus' topics instead of
alpha: an author of one short abstract is not sure to be like anybody.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, one_line
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.keys import corpus_vocabulary, match_words
from topicstream.model.edits import View, seen, view_of
from topicstream.model.store import StoredTable
from topicstream.model.top import Best, top_words
from topicstream.model.topic_model import TopicModel

AXIS = "authors"
EVIDENCE = 100.0
"""Tokens.  acl: without them the first eight experts of a sentence on parsing Arabic had written 15 to 181 tokens."""
SHARPNESS = 4.0
"""Power of a document's cosine: one document that is very like the text says more than many that are a little like it.  MRR of
test documents' authors by powers 1, 2, 3, 4, 6: nips12 .25, .54, .63, .63, .61; acl .07, .21, .27, .27, .27."""
NEAR = 1 << 22
"""Numbers of the authors x words of a text that are in memory at a time."""


def _open(model: str | Path | TopicModel) -> tuple[TopicModel, StoredTable, Any, View]:
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    table = opened.table(AXIS)
    if table.names is None or table.columns != opened.n_topics:
        raise InputError(f"{opened.path}: its table of authors is not over its topics; train with --algo atm")
    return opened, table, table.names, view_of(opened)


def _first_words(model: TopicModel, view: View, n: int) -> list[list[str]]:
    shown = seen(model, view)
    ids, _ = top_words(shown, n)
    return [shown.words.take(pa.array(column)).to_pylist() for column in ids.T]


def _topic(view: View, column: int, words: list[list[str]]) -> dict[str, Any]:
    number = view.ids[column]
    named = {"label": view.labels[number]} if number in view.labels else {}
    return {"topic": number, **named, "words": words[column]}


def top_authors(
    model: str | Path | TopicModel, *, n: int = 10, words: int = 6, topics: list[int] | None = None
) -> dict[str, Any]:
    """The n authors who have most tokens of each topic (or of ``topics``, by their numbers), the largest topic first.

    ``topics``: a list of topic, words, share (of all tokens that have an author) and authors (author, tokens, share of the
    author's own tokens).  StoreError: the model has no authors.
    """
    opened, table, every, view = _open(model)
    chosen = list(range(len(view))) if topics is None else [view.column_of(k) for k in topics]
    best, tokens = Best(min(n, table.n_rows), len(view)), np.zeros(table.n_rows)
    for first, rows in table.rows.spans():
        counts = view.columns(np.maximum(rows, 0.0))
        tokens[first : first + len(rows)] = rows.sum(1, dtype=np.float64)
        best.add(first, counts)
    sizes = view.columns(np.maximum(table.totals, 0.0)[None])[0]
    order = chosen if topics is not None else sorted(chosen, key=lambda k: -sizes[k])
    first_words, found = _first_words(opened, view, words), []
    for k in order:
        there = best.scores[:, k] > 0.5
        ids = best.ids[there, k]
        names = every.take(pa.array(ids)).to_pylist()
        authors = [
            {"author": name, "tokens": float(score), "share": float(score / max(tokens[a], 1e-300))}
            for name, score, a in zip(names, best.scores[there, k], ids, strict=True)
        ]
        share = float(sizes[k] / max(sizes.sum(), 1e-300))
        found.append({**_topic(view, k, first_words), "share": share, "authors": authors})
    return {"model": str(opened.path), "authors": table.n_rows, "topics": found}


def top_lines(result: dict[str, Any]) -> list[str]:
    """``top_authors`` for people."""
    out = []
    for t in result["topics"]:
        name = f"{one_line(t['label'])}: " if "label" in t else ""
        out.append(f"{t['topic']:>4} {100 * t['share']:5.1f} %  {name}{one_line(' '.join(t['words']))}")
        out.append(
            "     " + ("; ".join(f"{one_line(a['author'])} {a['tokens']:,.0f}" for a in t["authors"]) or "nobody")
        )
    return out


def _evidence(table: StoredTable) -> np.ndarray:
    sizes = np.maximum(table.totals, 0.0)
    return np.asarray(EVIDENCE * (sizes + 1e-9) / (sizes + 1e-9).sum())


def _theta(counts: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    whole = np.maximum(counts, 0.0).astype(np.float64) + alpha
    return np.asarray(whole / np.maximum(whole.sum(1, keepdims=True), 1e-300))


def author_id(names: Any, name: str) -> int:
    """The row of an author; InputError with the nearest names."""
    at = pc.index(names, pa.scalar(name, names.type)).as_py()
    if at >= 0:
        return int(at)
    inside = names.filter(pc.match_substring(names, name, ignore_case=True)).slice(0, 5).to_pylist()
    folded = {n.casefold(): n for n in names.slice(0, 0 if inside else 200_000).to_pylist()}
    near = inside or [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, 3)]
    hint = f"; did you mean {', '.join(map(one_line, near))}?" if near else ""
    raise InputError(f"--author {one_line(name)}: the model knows no such author{hint}")


def author(model: str | Path | TopicModel, name: str, *, n: int = 10, words: int = 6) -> dict[str, Any]:
    """The n largest topics of an author, and the n authors whose topics are most like them.

    Likeness is the Bhattacharyya coefficient of the mixtures, 1 for the same.  Returns author, tokens, ``topics`` (topic, share,
    words) and ``nearest`` (author, likeness, tokens).  InputError: no such author.
    """
    opened, table, every, view = _open(model)
    own = author_id(every, name)
    counts = table.gather(np.array([own]))
    theta = view.shares(_theta(counts, opened.alpha))[0]
    prior = _evidence(table)
    root, best = np.sqrt(view.shares(_theta(counts, prior))[0]), Best(min(n + 1, table.n_rows), 1)
    tokens = np.zeros(table.n_rows)
    for first, rows in table.rows.spans():
        tokens[first : first + len(rows)] = rows.sum(1, dtype=np.float64)
        like = np.sqrt(view.shares(_theta(rows, prior))) @ root
        like[tokens[first : first + len(rows)] < 0.5] = -np.inf  # of held-out documents alone: nothing is known of them
        best.add(first, like[:, None])
    found = [(int(a), float(s)) for a, s in zip(best.ids[:, 0], best.scores[:, 0], strict=True) if np.isfinite(s)]
    found = [(a, s) for a, s in found if a != own and s > -1][:n]
    names = every.take(pa.array([a for a, _ in found], pa.int64())).to_pylist()
    first_words, order = _first_words(opened, view, words), np.argsort(-theta, kind="stable")[:n]
    return {
        "author": name,
        "tokens": float(max(counts.sum(), 0.0)),
        "topics": [{**_topic(view, int(k), first_words), "share": float(theta[k])} for k in order],
        "nearest": [
            {"author": other, "likeness": min(1.0, s), "tokens": float(tokens[a])}
            for other, (a, s) in zip(names, found, strict=True)
        ],
    }


def author_lines(result: dict[str, Any]) -> list[str]:
    """``author`` for people."""
    out = [f"{one_line(result['author'])}: {result['tokens']:,.0f} tokens"]
    for t in result["topics"]:
        if t["share"] >= 0.005:
            name = f"{one_line(t['label'])}: " if "label" in t else ""
            out.append(f"{t['topic']:>4} {100 * t['share']:5.1f} %  {name}{one_line(' '.join(t['words']))}")
    near = "; ".join(f"{one_line(a['author'])} {a['likeness']:.3f}" for a in result["nearest"])
    return [*out, f"nearest: {near or 'nobody'}"]


def experts(
    model: str | Path | TopicModel,
    documents: Any,
    *,
    corpus: str | Path | Corpus | None = None,
    n: int = 10,
    mem_limit: str | int | None = None,
    **reading: Any,
) -> dict[str, Any]:
    """Who knows about a text: the n authors whose training documents are most like it, or whose topics make it most likely.

    Documents tell experts far better than topics do (docs/decisions/authors.md), so topics are for where there is no store.

    Parameters
    ----------
    documents
        As ``infer`` takes them; all of them together are the text.
    corpus
        A store with authors: they rank by the documents that they wrote (``document_votes``).  None: by
        p(w|a) = sum_k theta_a[k] p(w|k), of a model of ``--algo atm``.

    Returns
    -------
    dict
        ``by`` (``documents`` or ``topics``), tokens, oov_rate and ``experts``: author, and either likeness (0 to 1 where one
        document is all) and documents, or perplexity of the text and tokens.

    Raises
    ------
    InputError
        No word is known, or the store has no authors.
    """
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    ids, x, about = _words_of(opened, documents, mem_limit, reading)
    if corpus is None:
        return {"by": "topics", **about, "experts": _by_topics(opened, ids, x, n)}
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    strangers(opened, store)
    return {"by": "documents", **about, "experts": _by_documents(opened, store, ids, x, n)}


def _words_of(
    model: TopicModel, documents: Any, mem_limit: str | int | None, reading: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """(the model's ids of a text's words int64[U], how often each float64[U], tokens and oov_rate)."""
    from topicstream.inference.config import InferConfig
    from topicstream.inference.infer import Answers

    run = Answers(InferConfig(model=model, documents=documents, threads=1, mem_limit=mem_limit, edits=False, **reading))
    counts: dict[int, float] = {}
    tokens = unknown = 0.0
    for some in run.source.documents():
        tokens, unknown = tokens + float(some.tokens.sum()), unknown + float(some.unknown.sum())
        ids, at = np.unique(some.words, return_inverse=True)
        for w, x in zip(ids.tolist(), np.bincount(at, some.counts, len(ids)).tolist(), strict=True):
            counts[w] = counts.get(w, 0.0) + x
    if not counts:
        raise InputError("the text has no word that the model knows")
    known = sorted(counts)
    about = {"tokens": tokens, "oov_rate": unknown / tokens if tokens else 0.0}
    return np.array(known, np.int64), np.array([counts[w] for w in known]), about


def _by_topics(model: TopicModel, ids: np.ndarray, x: np.ndarray, n: int) -> list[dict[str, Any]]:
    opened, table, every, _ = _open(model)
    p = opened.probabilities(ids).T  # [K, words]
    best, of, prior = Best(min(n, table.n_rows), 1), np.zeros(table.n_rows), _evidence(table)
    step = max(1, NEAR // max(len(ids), 1))
    for first, rows in table.rows.spans():
        sums = rows.sum(1, dtype=np.float64)
        of[first : first + len(rows)] = sums
        for a in range(0, len(rows), step):
            said = np.log(np.maximum(_theta(rows[a : a + step], prior) @ p, 1e-300)) @ x
            said[sums[a : a + step] < 0.5] = -np.inf
            best.add(first + a, said[:, None])
    there = np.isfinite(best.scores[:, 0]) & (best.scores[:, 0] > -1e300)
    chosen = best.ids[there, 0]
    names = every.take(pa.array(chosen)).to_pylist()
    return [
        {"author": name, "perplexity": float(np.exp(-s / x.sum())), "tokens": float(of[a])}
        for name, s, a in zip(names, best.scores[there, 0], chosen, strict=True)
    ]


def _by_documents(model: TopicModel, store: Corpus, ids: np.ndarray, x: np.ndarray, n: int) -> list[dict[str, Any]]:
    index = match_words(model.vocabulary, store)
    text = np.zeros(store.n_words)
    if index is None:
        text[ids] = x
    else:
        at = np.searchsorted(ids, index).clip(max=len(ids) - 1)
        text = np.where(ids[at] == index, x[at], 0.0)
    votes, documents = document_votes(store, text)
    best = Best(min(n, len(votes)), 1)
    best.add(0, votes[:, None])
    chosen = best.ids[best.scores[:, 0] > 0, 0]
    names = store.axes[AXIS].names().take(pa.array(chosen)).to_pylist()
    return [
        {"author": name, "likeness": float(votes[a] ** (1 / SHARPNESS)), "documents": int(documents[a])}
        for name, a in zip(names, chosen.tolist(), strict=True)
    ]


def document_votes(store: Corpus, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the training documents say for each author: (votes float64[A], documents of each int64[A]), streamed.

    A document gives every author of its own the fourth power of its cosine with the text, both weighed by
    log(1 + count) log(D / df).  InputError: the store has no authors.

    text: float64[W], how often it has each word of the store.
    """
    if AXIS not in store.axes:
        raise InputError(f"{store.path}: has no authors; ingest with --meta authors=FIELD")
    df = corpus_vocabulary(store).df[: store.n_words]
    rarity = np.log(store.n_docs / np.clip(df, 1, max(store.n_docs, 1)))
    asked = np.log1p(text) * rarity
    asked /= max(float(np.sqrt(asked @ asked)), 1e-300)
    authors = store.axes[AXIS].size
    votes, documents = np.zeros(authors), np.zeros(authors, np.int64)
    for block in store.blocks(axes=[AXIS]):
        weights = np.log1p(block.counts.astype(np.float64)) * rarity[block.vocab][block.words]
        owner = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        dots = np.bincount(owner, weights * asked[block.vocab][block.words], block.n_docs)
        norms = np.sqrt(np.bincount(owner, weights * weights, block.n_docs))
        rows = block.rows(AXIS)
        who, of = rows.ids[rows.local], np.repeat(np.arange(block.n_docs), np.diff(rows.indptr))
        votes += np.bincount(who, (dots / np.maximum(norms, 1e-300))[of] ** SHARPNESS, authors)
        documents += np.bincount(who, minlength=authors)
    return votes, documents


def expert_lines(result: dict[str, Any]) -> list[str]:
    """``experts`` for people."""
    asked = f"{result['tokens']:,.0f} tokens, {100 * result['oov_rate']:.1f} % of them unknown"
    if result["by"] == "topics":
        rows = [f"{a['perplexity']:>9.1f}  {one_line(a['author'])}  ({a['tokens']:,.0f} tokens)" for a in result["experts"]]
        return [f"{asked}; no corpus store, so perplexity of the text by the topics of authors, a weak guide", *rows]
    rows = [f"{a['likeness']:>7.3f}  {one_line(a['author'])}  ({a['documents']:,} documents)" for a in result["experts"]]
    return [f"{asked}; likeness of the authors' documents", *(rows or ["no author's documents have anything of it"])]
