"""``topicstream.show``: a model's topics for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.evaluation.evaluate import open_within
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel
from topicstream.report.doc_topics import typical_documents


def show(
    model: str | Path | TopicModel = "model",
    corpus: str | Path | Corpus = "corpus.zarr",
    *,
    words: int = 10,
    relevance: float = 1.0,
    docs: int = 0,
    topics: list[int] | None = None,
    threads: int | None = None,
    mem_limit: str | int | None = None,
) -> dict[str, Any]:
    """First words, sizes and (``docs`` > 0) most typical documents of topics, as plain values.

    words      words a topic, by relevance (Sievert & Shirley 2014) with ``relevance`` = lambda; 1: by probability
    docs       training documents of ``corpus`` with the largest share of the topic, theta folded in on all their words
    topics     only these; else all, the largest first

    Returns ``topics``: a list of topic, share (of all tokens), tokens, words [{word, p}], documents [{id, share}].
    """
    opened, workers = open_within(model, mem_limit, threads)
    if not 0.0 <= relevance <= 1.0:
        raise InputError(f"--relevance {relevance}: give a number in 0..1")
    if topics is not None and (wrong := [k for k in topics if not 0 <= k < opened.n_topics]):
        raise InputError(f"--topic {wrong[0]}: the topics are numbered 0..{opened.n_topics - 1}")
    ids, _ = top_words(opened, words, relevance)
    chosen = np.argsort(-opened.totals, kind="stable").tolist() if topics is None else topics
    texts = {int(w): opened.words[int(w)].as_py() for w in np.unique(ids[:, chosen])}
    unique = np.array(sorted(texts), np.int64)
    p = opened.probabilities(unique)
    all_tokens = float(opened.totals.sum()) or 1.0
    entries: list[dict[str, Any]] = []
    for k in chosen:
        at = np.searchsorted(unique, ids[:, k])
        entries.append(
            {
                "topic": int(k),
                "share": float(opened.totals[k] / all_tokens),
                "tokens": float(opened.totals[k]),
                "words": [{"word": texts[int(w)], "p": float(p[i, k])} for w, i in zip(ids[:, k], at, strict=True)],
            }
        )
    if docs:
        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        numbers, share, names = typical_documents(opened, store, docs, workers)
        for entry in entries:
            k = entry["topic"]
            entry["documents"] = [
                {"id": names[int(d)], "share": float(s)} for d, s in zip(numbers[:, k], share[:, k], strict=True)
            ]
    return {
        "model": str(opened.path or "in memory"),
        "vocabulary": opened.n_words,
        "relevance": relevance,
        "topics": entries,
    }


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people: a line a topic, its documents below."""
    wide = len(str(max((e["topic"] for e in result["topics"]), default=0)))
    out = []
    for e in result["topics"]:
        out.append(f"{e['topic']:>{wide}} {100 * e['share']:5.1f} %  {' '.join(w['word'] for w in e['words'])}")
        out += [f"{'':{wide}}          {d['share']:.2f}  {d['id']}" for d in e.get("documents", [])]
    return out
