"""The JSON that pyLDAvis and LDAvis show (Sievert & Shirley 2014), made without the documents: the model's own counts are
the sizes.  Topic k of the model is topic k + 1 of the page, in the same order.

The file holds only the first words of each topic; a model read from it knows no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import InputError, one_line
from topicstream.exchange.common import BUDGET, Imported, checked_words, prior
from topicstream.exchange.json_parts import read_lists
from topicstream.files.outputs import written
from topicstream.model.top import Best, top_words
from topicstream.model.topic_model import TopicModel
from topicstream.model.views import ROWS, probabilities_of

LAMBDAS = np.linspace(0.0, 1.0, 11)


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
    of_topic = np.repeat(np.arange(topics), [len(ids) for ids in listed])
    of_word = np.concatenate(listed)
    p = np.maximum(probabilities_of(model, of_word, of_topic), 1e-300)
    lifts = np.log(p) - np.log(np.maximum(marginal[of_word], 1e-300) / total)
    whole, ranks = np.floor(marginal[default]), np.arange(r, 0, -1.0)
    info = {  # the words of all topics first, then topic after topic
        "Term": (texts[place[w]] for w in (*default.tolist(), *of_word.tolist())),
        "Freq": np.concatenate([whole, p * sizes[of_topic]]),
        "Total": np.concatenate([whole, marginal[of_word]]),
        "Category": (f"Topic{k + 1}" if k >= 0 else "Default" for k in (*[-1] * r, *of_topic.tolist())),
        "logprob": np.concatenate([ranks, np.round(np.log(p), 4)]),
        "loglift": np.concatenate([ranks, np.round(lifts, 4)]),
    }
    by_text = np.array(sorted(range(len(shown)), key=texts.__getitem__))
    step = max(1, ROWS // topics)

    def table(column: str) -> Iterator[list[Any]]:
        """A column of the words' shares over the topics, in parts; each column reads the topics anew."""
        for first in range(0, len(shown), step):
            some = by_text[first : first + step]
            expected = model.probabilities(shown[some]) * sizes
            which, topic = np.nonzero(expected >= 0.5)
            if column == "Topic":
                yield (topic + 1).tolist()
            elif column == "Freq":
                yield (np.round(expected[which, topic]) / np.maximum(marginal[shown[some]][which], 1e-300)).tolist()
            else:
                yield [texts[some[i]] for i in which.tolist()]

    page = {
        "mdsDat": {
            "x": x.tolist(),
            "y": y.tolist(),
            "topics": list(range(1, topics + 1)),
            "cluster": [1] * topics,
            "Freq": (100 * share).tolist(),
        },
        "tinfo": {name: _parts(values) for name, values in info.items()},
        "token.table": {name: table(name) for name in ("Topic", "Freq", "Term")},
        "R": r,
        "lambda.step": 0.01,
        "plot.opts": {"xlab": "PC1", "ylab": "PC2"},
        "topic.order": list(range(1, topics + 1)),
    }
    with written(path, force=force) as file:
        for text in _json(page):
            file.write(text.replace("<", "\\u003c").encode())
    return {"topics": topics, "words": len(shown)}


def _parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    """A long column as lists."""
    rest = iter(values)
    while part := [v.item() if isinstance(v, np.generic) else v for v in islice(rest, 1 << 14)]:
        yield part


def _json(value: Any) -> Iterator[str]:
    """JSON in pieces; an iterator of lists is one list."""
    if isinstance(value, dict):
        for i, (name, inner) in enumerate(value.items()):
            yield ("{" if i == 0 else ", ") + json.dumps(name) + ": "
            yield from _json(inner)
        yield "}"
    elif isinstance(value, Iterator):
        between = "["
        for part in value:
            if part:
                yield between + json.dumps(part, allow_nan=False)[1:-1]
                between = ", "
        yield "[]" if between == "[" else "]"
    else:
        yield json.dumps(value, allow_nan=False)


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
    try:
        with open(path, "rb") as file:
            page = read_lists(file, COLUMNS)
        (terms, term), (names, name) = (_coded(page["tinfo", k]) for k in ("Term", "Category"))
        freq = np.concatenate([np.zeros(0), *page["tinfo", "Freq"]])
        order, numbers = (
            [int(k) for part in page[at] for k in part] for at in (("topic.order",), ("mdsDat", "topics"))
        )
        shares = sum(map(len, page["mdsDat", "Freq"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
        raise InputError(f"{path}: not the JSON of pyLDAvis ({type(e).__name__}: {one_line(e)[:200]})") from None
    topics = len(order)
    first = min(order, default=0)
    if sorted(order) != list(range(first, first + topics)) or len(numbers) != topics or shares != topics:
        raise InputError(f"{path}: its topics are not numbered one by one")
    if not len(term) == len(freq) == len(name):
        raise InputError(f"{path}: its words are damaged")
    listed = words if words is not None else checked_words(terms, str(path))
    # the page's topic n (in mdsDat) was topic order[n - first] of the model
    column = {f"Topic{n}": order[i] - first for i, n in enumerate(sorted(numbers))}
    topic = np.array([column.get(n, -1) for n in names.to_pylist()], np.int32)[name]
    word = pc.fill_null(pc.index_in(terms, listed), -1).to_numpy()[term]
    shown = np.flatnonzero(np.array([n != "Default" for n in names.to_pylist()], bool)[name])
    word, topic, freq = word[shown], topic[shown], freq[shown]
    wrong = (word < 0) | (topic < 0) | ~((freq >= 0) & (freq < 3e38))
    if wrong.any():
        i = int(wrong.argmax())
        what, of = terms[term[shown[i]]].as_py()[:80], names[name[shown[i]]].as_py()[:80]
        if word[i] < 0 or topic[i] < 0:
            raise InputError(f"{path}: {of!r} or {what!r} is not listed")
        raise InputError(f"{path}: the frequency of {what!r} is {freq[i]}")
    if not freq.sum() > 0:
        raise InputError(f"{path}: every frequency is zero")
    return Imported(
        words=listed,
        topics=topics,
        rows=_rows(len(listed), topics, word, topic, freq),
        alpha=prior(1.0 / topics if alpha is None else alpha, topics, "--alpha"),
        beta=0.0 if beta is None else beta,
        notes=(f"the page shows {len(listed):,} words; a topic's other words are not in it and are not in the model",),
    )


def _texts(part: list[Any]) -> Any:
    if not all(isinstance(t, str) for t in part):
        raise ValueError("a word or category that is no string")
    return pa.array(part, pa.large_string())


def _numbers(part: list[Any]) -> np.ndarray:
    if not all(isinstance(v, (int, float)) for v in part):
        raise ValueError("a frequency that is no number")
    return np.array(part, np.float64)


COLUMNS: dict[tuple[str, ...], Any] = {
    ("tinfo", "Term"): _texts,
    ("tinfo", "Category"): _texts,
    ("tinfo", "Freq"): _numbers,
    ("mdsDat", "Freq"): _numbers,
    ("mdsDat", "topics"): list,
    ("topic.order",): list,
}


def _coded(parts: list[Any]) -> tuple[Any, np.ndarray]:
    """The different strings of a column in the order of their first appearance, and for each row which one stands there."""
    coded = pa.chunked_array(parts, pa.large_string()).combine_chunks().dictionary_encode()
    return coded.dictionary, coded.indices.to_numpy()


def _rows(words: int, topics: int, word: np.ndarray, topic: np.ndarray, freq: np.ndarray) -> Iterator[np.ndarray]:
    """float32[n, K] over all words; of two entries of one cell the last counts."""
    order = np.argsort(word, kind="stable")
    word, topic, freq = word[order], topic[order], freq[order]
    step = max(1, BUDGET // 8 // (4 * topics))
    for at in range(0, words, step):
        held = np.zeros((min(step, words - at), topics), np.float32)
        some = slice(*np.searchsorted(word, [at, at + step]))
        held[word[some] - at, topic[some]] = freq[some]
        yield held
