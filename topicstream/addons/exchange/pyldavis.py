"""The JSON of pyLDAvis and LDAvis (Sievert & Shirley 2014), made without the documents.

The model's own counts are the sizes. Topic k of the model is topic k + 1 of the page, in the same
order. The file holds only the first words of each topic, so a model read from it knows no others.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, one_line
from topicstream.base.files.outputs import written
from topicstream.display.geometry import gram, layout
from topicstream.model.exchange import Export, Given, Imported, check_words
from topicstream.model.top import Best, words_by_relevance
from topicstream.model.topic_model import TopicModel

TEXT = pa.large_string()


def write(job: Export) -> dict[str, float]:
    """Write one JSON file, with ``words`` words a topic for each lambda (R)."""
    model = job.model
    topics = job.model.n_topics
    r = min(job.words or 30, model.n_words)
    sizes = np.maximum(model.totals, 1e-12)
    marginal, salient = _word_sums(model, sizes, r)
    offsets, words, _, _ = words_by_relevance(model, r)
    shown = np.unique(np.concatenate([salient, words]))
    x, y = layout(gram(model)).T / np.sqrt(2)  # of the squares 1 - gram
    page = {
        "mdsDat": {
            "x": np.ascontiguousarray(x),
            "y": np.ascontiguousarray(y),
            "topics": list(range(1, topics + 1)),
            "cluster": [1] * topics,
            "Freq": 100 * (sizes / sizes.sum()),
        },
        "tinfo": _term_table(
            model, sizes, marginal, salient, words, np.repeat(np.arange(topics), np.diff(offsets))
        ),
        "token.table": _token_table(model, sizes, marginal, shown),
        "R": r,
        "lambda.step": 0.01,
        "plot.opts": {"xlab": "PC1", "ylab": "PC2"},
        "topic.order": list(range(1, topics + 1)),
        "topic.ids": list(job.numbers),
    }
    text = orjson.dumps(page, option=orjson.OPT_SERIALIZE_NUMPY)
    with written(job.path, force=job.force) as file:
        # pages embed it in a script, which no tag in a word may end
        file.write(text.replace(b"<", b"\\u003c"))
    return {"topics": topics, "words": len(shown)}


def _word_sums(model: TopicModel, sizes: np.ndarray, r: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the tokens of each word, float64[W], and the r most salient words."""
    marginal = np.empty(model.n_words)
    salient = Best(r, 1)
    share = sizes / sizes.sum()
    for start, rows in model.spans():
        expected = (rows.astype(np.float64) + model.beta) / model.norms * sizes
        n_w = expected.sum(axis=1)
        conditional = expected / np.maximum(n_w, 1e-300)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(conditional > 0, conditional * np.log(conditional / share), 0.0)
        marginal[start : start + len(rows)] = n_w
        salient.add(start, (n_w * terms.sum(axis=1))[:, None])
    return marginal, salient.ids[:, 0]


def _term_table(
    model: TopicModel,
    sizes: np.ndarray,
    marginal: np.ndarray,
    salient: np.ndarray,
    word: np.ndarray,
    topic: np.ndarray,
) -> dict[str, list[str] | np.ndarray]:
    """Build the words of the bars: those of all topics first, then topic by topic."""
    p = np.maximum(model.pair_probabilities(word, topic), 1e-300)
    lifts = np.log(p) - np.log(np.maximum(marginal[word], 1e-300) / float(marginal.sum()))
    counts = np.floor(marginal[salient])
    ranks = np.arange(len(salient), 0, -1.0)
    return {
        "Term": model.vocabulary.words.take(pa.array(np.concatenate((salient, word)))).to_pylist(),
        "Freq": np.concatenate([counts, p * sizes[topic]]),
        "Total": np.concatenate([counts, marginal[word]]),
        "Category": ["Default"] * len(salient) + [f"Topic{k + 1}" for k in topic.tolist()],
        "logprob": np.concatenate([ranks, np.round(np.log(p), 4)]),
        "loglift": np.concatenate([ranks, np.round(lifts, 4)]),
    }


def _token_table(
    model: TopicModel, sizes: np.ndarray, marginal: np.ndarray, shown: np.ndarray
) -> dict[str, list[str] | np.ndarray]:
    """Build the shares of the shown words over the topics, in order of their texts."""
    texts = model.vocabulary.words.take(pa.array(shown)).to_pylist()
    order = np.array(sorted(range(len(shown)), key=texts.__getitem__))
    expected = model.probabilities(shown[order]) * sizes
    place, topic = np.nonzero(expected >= 0.5)
    return {
        "Topic": topic + 1,
        "Freq": np.round(expected[place, topic])
        / np.maximum(marginal[shown[order]][place], 1e-300),
        "Term": [texts[i] for i in order[place].tolist()],
    }


def read(path: Path, given: Given) -> Imported:
    """Read topics over the words that the page shows.

    Topics are numbered from 0 in the order of the page's original model.
    """
    try:
        page = json.loads(path.read_bytes())
        names = pa.array(page["tinfo"]["Category"], TEXT)
        terms = pa.array(page["tinfo"]["Term"], TEXT)
        freq = np.array(page["tinfo"]["Freq"], np.float64)
        order = [int(k) for k in page["topic.order"]]
        numbers = [int(k) for k in page["mdsDat"]["topics"]]
        shares = len(page["mdsDat"]["Freq"])
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
        RecursionError,
        pa.ArrowException,
    ) as e:
        raise InputError(
            f"{path}: not the JSON of pyLDAvis ({type(e).__name__}: {one_line(e)[:200]})"
        ) from None
    topics = len(order)
    first = min(order, default=0)
    if (
        sorted(order) != list(range(first, first + topics))
        or len(numbers) != topics
        or shares != topics
    ):
        raise InputError(f"{path}: its topics are not numbered one by one")
    if not len(terms) == len(freq) == len(names):
        raise InputError(f"{path}: its words are damaged")
    vocabulary = given.words if given.words is not None else check_words(pc.unique(terms), path)
    # the page's topic n (in mdsDat) was topic order[n - first] of the model
    column = {f"Topic{n}": order[i] - first for i, n in enumerate(sorted(numbers))}
    shown = np.flatnonzero(pc.not_equal(names, "Default").to_numpy(zero_copy_only=False))
    topic = np.array([column.get(n, -1) for n in names.take(pa.array(shown)).to_pylist()], np.int64)
    word = pc.fill_null(pc.index_in(terms, value_set=vocabulary), -1).to_numpy()[shown]
    freq = freq[shown]
    for i in np.flatnonzero((word < 0) | (topic < 0) | ~((freq >= 0) & (freq < 3e38)))[:1].tolist():
        word_text = str(terms[shown[i]])[:80]
        topic_text = str(names[shown[i]])[:80]
        if word[i] < 0 or topic[i] < 0:
            raise InputError(f"{path}: {topic_text!r} or {word_text!r} is not listed")
        raise InputError(f"{path}: the frequency of {word_text!r} is {freq[i]}")
    phi = np.zeros((len(vocabulary), topics), np.float32)
    phi[word, topic] = freq
    notes = (
        f"the page shows {len(vocabulary):,} words; a topic's other words are not in it and are "
        f"not in the model",
    )
    return Imported(vocabulary, phi, None, 0.0, notes=notes)
