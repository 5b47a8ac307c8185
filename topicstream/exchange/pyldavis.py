"""The JSON that pyLDAvis and LDAvis show (Sievert & Shirley 2014), made without the documents: the model's own counts are
the sizes.  Topic k of the model is topic k + 1 of the page, in the same order.

The file holds only the first words of each topic; a model read from it knows no others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.exchange.common import Imported, checked_words, prior
from topicstream.files.outputs import written
from topicstream.model.top import Best, top_words
from topicstream.model.topic_model import TopicModel
from topicstream.model.views import ROWS, probabilities_of

LAMBDAS = np.linspace(0.0, 1.0, 11)
MOST_BYTES = 1 << 30


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool, words: int = 30) -> dict[str, Any]:
    """``path``: one file; words: R, so many a topic for each lambda."""
    topics, r = model.n_topics, min(words, model.n_words)
    sizes = np.maximum(model.totals, 1e-12)
    marginal, salient, gram = np.empty(model.n_words), Best(r, 1), np.zeros((topics, topics))
    share = sizes / sizes.sum()
    for start, rows in model.spans():
        p = (rows.astype(np.float64) + model.beta) / model.norms
        root = np.sqrt(p)
        gram += root.T @ root
        expected = p * sizes
        n_w = expected.sum(axis=1)
        given = expected / np.maximum(n_w, 1e-300)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = given * np.log(given / share)
        marginal[start : start + len(rows)] = n_w
        salient.add(start, (n_w * np.where(given > 0, terms, 0.0).sum(axis=1))[:, None])
    x, y = _coordinates(gram)
    chosen = [np.concatenate(c) for c in zip(*(top_words(model, r, float(lam))[0].T for lam in LAMBDAS))]
    listed = [np.unique(c) for c in chosen]
    default = salient.ids[:, 0]
    shown = np.unique(np.concatenate([default, *listed]))
    texts = model.words.take(pa.array(shown)).to_pylist()
    place = {int(w): i for i, w in enumerate(shown)}
    total = float(marginal.sum())
    info: dict[str, list[Any]] = {k: [] for k in ("Term", "Freq", "Total", "Category", "logprob", "loglift")}
    for rank, w in enumerate(default.tolist()):
        whole = float(np.floor(marginal[w]))
        _row(info, texts[place[w]], whole, whole, "Default", float(r - rank), float(r - rank))
    of_topic = np.repeat(np.arange(topics), [len(ids) for ids in listed])
    of_word = np.concatenate(listed)
    p = np.maximum(probabilities_of(model, of_word, of_topic), 1e-300)
    lifts = np.log(p) - np.log(np.maximum(marginal[of_word], 1e-300) / total)
    figures = (p * sizes[of_topic], marginal[of_word], np.round(np.log(p), 4), np.round(lifts, 4))
    for k, w, freq, whole, logprob, lift in zip(of_topic.tolist(), of_word.tolist(), *(f.tolist() for f in figures)):
        _row(info, texts[place[w]], freq, whole, f"Topic{k + 1}", logprob, lift)
    table: dict[str, list[Any]] = {"Topic": [], "Freq": [], "Term": []}
    by_text = sorted(range(len(shown)), key=texts.__getitem__)
    step = max(1, ROWS // topics)
    for first in range(0, len(shown), step):
        some = by_text[first : first + step]
        expected = model.probabilities(shown[some]) * sizes
        which, topic = np.nonzero(expected >= 0.5)
        freqs = np.round(expected[which, topic]) / np.maximum(marginal[shown[some]][which], 1e-300)
        table["Topic"] += (topic + 1).tolist()
        table["Freq"] += freqs.tolist()
        table["Term"] += [texts[some[i]] for i in which.tolist()]
    page = {
        "mdsDat": {
            "x": x.tolist(),
            "y": y.tolist(),
            "topics": list(range(1, topics + 1)),
            "cluster": [1] * topics,
            "Freq": (100 * share).tolist(),
        },
        "tinfo": info,
        "token.table": table,
        "R": r,
        "lambda.step": 0.01,
        "plot.opts": {"xlab": "PC1", "ylab": "PC2"},
        "topic.order": list(range(1, topics + 1)),
    }
    with written(path, force=force) as file:
        file.write(json.dumps(page, allow_nan=False).replace("<", "\\u003c").encode())
    return {"topics": topics, "words": len(shown)}


def _row(info: dict[str, list[Any]], *values: Any) -> None:
    for name, value in zip(info, values):
        info[name].append(value)


def _coordinates(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal coordinates of the Hellinger distances; gram: sums of sqrt(p_k p_j), symmetric."""
    distances = np.maximum(1.0 - gram, 0.0)
    n = len(distances)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances @ centre)
    axes = np.zeros((n, 2))
    for i in range(min(2, n)):
        vector = vectors[:, -1 - i]
        sign = -1.0 if vector[np.argmax(np.abs(vector))] < 0 else 1.0
        axes[:, i] = sign * vector * np.sqrt(max(values[-1 - i], 0.0))
    return axes[:, 0], axes[:, 1]


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """Topics over the words that the page shows; topics numbered from 0 in the order of the page's original model."""
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: more than {MOST_BYTES >> 20} MiB; pyLDAvis writes no such file")
    try:
        page = json.loads(path.read_bytes())
        info, order = page["tinfo"], [int(k) for k in page["topic.order"]]
        terms, freq, category = (info[k] for k in ("Term", "Freq", "Category"))
        shares = np.asarray(page["mdsDat"]["Freq"], np.float64)
        numbers = [int(k) for k in page["mdsDat"]["topics"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise InputError(f"{path}: not the JSON of pyLDAvis ({type(e).__name__}: {e})") from None
    topics = len(order)
    first = min(order, default=0)
    if sorted(order) != list(range(first, first + topics)) or len(numbers) != topics or len(shares) != topics:
        raise InputError(f"{path}: its topics are not numbered one by one")
    if not len(terms) == len(freq) == len(category) or not all(isinstance(t, str) for t in terms):
        raise InputError(f"{path}: its words are damaged")
    listed = words if words is not None else checked_words(list(dict.fromkeys(terms)), str(path))
    ids = {w: i for i, w in enumerate(listed.to_pylist())}
    # the page's topic n (in mdsDat) was topic order[n - first] of the model
    column = {f"Topic{n}": order[i] - first for i, n in enumerate(sorted(numbers))}
    phi = np.zeros((len(listed), topics), np.float32)
    for term, count, name in zip(terms, freq, category):
        if name == "Default":
            continue
        if name not in column or term not in ids:
            raise InputError(f"{path}: {name!r} or {term[:80]!r} is not listed")
        if not isinstance(count, (int, float)) or not 0 <= count < 3e38:
            raise InputError(f"{path}: the frequency of {term[:80]!r} is {count!r}")
        phi[ids[term], column[name]] = count
    kept = float(phi.sum())
    if not kept > 0:
        raise InputError(f"{path}: every frequency is zero")
    return Imported(
        words=listed,
        topics=topics,
        rows=[phi],
        alpha=prior(1.0 / topics if alpha is None else alpha, topics, "--alpha"),
        beta=0.0 if beta is None else beta,
        notes=(f"the page shows {len(listed):,} words; a topic's other words are not in it and are not in the model",),
    )
