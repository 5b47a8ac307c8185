"""Which topics go together in documents: the pair matrix of a full dependence mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import InputError, shown
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import seen, view_of
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel


def topic_pairs(
    model: str | Path | TopicModel = "model", *, n: int = 10, words: int = 4, mem_limit: str | int | None = None
) -> dict[str, Any]:
    """The n pairs of different topics that go together most beyond chance, by the matrix a that the engine ``fdm`` learned.

    a_kj is the probability that the first of two tokens of a document is of topic k and the second of topic j.  Of each
    pair: topics, share (of pairs of tokens, both orders), and, among pairs of different topics alone (nearly every topic goes
    best with itself), lift q_kj / e_kj, e_kj ~ r_k r_j with r the sums of q, and what it adds to the mutual information in
    nats, by which pairs are ordered; words: the first words of both.  ``apart``: the share of pairs of tokens that are of
    different topics.  Edits are honoured.  InputError for a model of another engine.
    """
    opened, _ = open_within(model, mem_limit, None)
    if "pairs" not in (opened.manifest.get("tables") or {}):
        raise InputError(f"{opened.path}: has no matrix of topic pairs; --pairs goes with a model of --algo fdm")
    view = view_of(opened)
    a = view.columns(opened.table("pairs").gather(np.arange(opened.n_topics)).astype(np.float64))
    a = view.columns(np.ascontiguousarray(a.T))
    a /= max(float(a.sum()), 1e-300)
    q = a - np.diag(np.diag(a))
    q /= max(float(q.sum()), 1e-300)
    chance = np.outer(q.sum(0), q.sum(0))
    np.fill_diagonal(chance, 0.0)
    chance /= max(float(chance.sum()), 1e-300)
    lift = np.divide(q, chance, out=np.zeros_like(q), where=chance > 0)
    gain = 2 * q * np.log(np.where(lift > 0, lift, 1.0))
    one, two = np.triu_indices(len(a), 1)
    best = np.argsort(-gain[one, two], kind="stable")[:n]
    looked = seen(opened, view)
    ids, _scores = top_words(looked, words)

    def described(k: int) -> dict[str, Any]:
        entry: dict[str, Any] = {"topic": view.ids[k], "words": [looked.words[int(w)].as_py() for w in ids[:, k]]}
        return {**entry, "label": view.labels[view.ids[k]]} if view.ids[k] in view.labels else entry

    return {
        "model": str(opened.path),
        "apart": float(1.0 - np.trace(a)),
        "pairs": [
            {
                "topics": [described(int(one[i])), described(int(two[i]))],
                "share": float(2 * a[one[i], two[i]]),
                "lift": float(lift[one[i], two[i]]),
                "nats": float(gain[one[i], two[i]]),
            }
            for i in best
        ],
    }


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    out = [f"{100 * result['apart']:.1f} % of the pairs of a document's words are of two different topics"]
    for pair in result["pairs"]:
        both = [
            f"{t['topic']} ({shown(t['label']) if t.get('label') else ' '.join(map(shown, t['words']))})"
            for t in pair["topics"]
        ]
        out.append(f"{100 * pair['share']:6.2g} %  {pair['lift']:6.2f} x chance  {both[0]} + {both[1]}")
    return out
