"""MALLET's files of topics: topic-word-weights and topic-keys.

The former has a line an entry (topic, word, weight with the prior added), the latter a line a topic
(topic, alpha, words). alpha is in the keys only, beta in neither: it is the smallest weight, as
long as any word is missing from any topic.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.outputs import written
from topicstream.corpus.vocabulary import as_words
from topicstream.model.exchange import (
    Export,
    Given,
    Imported,
    check_separators,
    check_words,
    find_places,
    read_counts,
    read_table,
    sum_cells,
    text_lines,
)
from topicstream.model.top import topic_table

WEIGHTS = "topic-word-weights.txt"
KEYS = "topic-keys.txt"
ALPHA_SUM = 5.0
"""MALLET's default, for weights without keys."""
COLUMNS = {"topic": pa.int64(), "word": pa.large_string(), "weight": pa.float64()}


def write(job: Export) -> dict[str, float]:
    """Write MALLET's folder, with ``words`` keys a topic."""
    model = job.model
    check_separators(model.vocabulary.words, "\\t", "--format mallet")
    phi = read_counts(model)
    with written(job.path / WEIGHTS, force=job.force) as file:
        for topic in range(model.n_topics):
            weights = phi[:, topic].astype(np.float64) + model.beta
            file.write(text_lines(pa.scalar(topic), model.vocabulary.words, pa.array(weights)))
    top = topic_table(model, job.words or 20)["words"]
    with written(job.path / KEYS, force=job.force) as file:
        for topic in range(model.n_topics):
            keys = " ".join(top[topic].as_py())
            file.write(f"{topic}\t{float(model.alpha[topic])!r}\t{keys} \n".encode())
    return {"topics": model.n_topics, "words": model.n_words}


def read(path: Path, given: Given) -> Imported:
    """Read a folder with both files, or the weights alone."""
    keys = path / KEYS if path.is_dir() else path.with_name(KEYS)
    path = path / WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    words, weights = _read_weights(path, given.words)
    topics = weights.shape[1]
    smallest = float(weights.min())
    beta = smallest if given.beta is None else float(given.beta)
    if beta > smallest:
        raise UsageError(f"--beta {beta:g}: is above the smallest weight, {smallest:g}")
    notes = []
    if given.alpha is None and not keys.is_file():
        notes.append(
            f"no {KEYS} beside it: alpha {ALPHA_SUM:g} over all topics, MALLET's default (--alpha)"
        )
    if given.beta is None:
        notes.append(f"beta {beta:g}, the smallest weight (--beta)")
    alpha = (
        _read_alphas(keys, topics) if keys.is_file() and given.alpha is None else ALPHA_SUM / topics
    )
    return Imported(words, (weights - beta).astype(np.float32), alpha, beta, notes=tuple(notes))


def _read_weights(path: Path, words: pa.Array | None) -> tuple[pa.Array, np.ndarray]:
    """Read the words and the weights, float64[W, K].

    Every topic has a line for every word.
    """
    table = read_table(path, COLUMNS)
    topic = table["topic"].to_numpy()
    names = as_words(table["word"])
    weight = table["weight"].to_numpy()
    vocabulary = (
        words
        if words is not None
        else check_words(names.filter(pc.equal(table["topic"], 0)), f"{path}: topic 0")
    )
    word = find_places(names, vocabulary, path)
    topics = int(topic.max(initial=-1)) + 1
    lines = sum_cells(path, word, topic, None, (len(vocabulary), topics))
    for k in np.flatnonzero((lines != 1).any(axis=0)).tolist():
        if lines[:, k].max() > 1:
            raise InputError(f"{path}: topic {k}: a word twice")
        raise InputError(
            f"{path}: topic {k} has {lines[:, k].sum():.0f} words, expected {len(vocabulary)}; is "
            f"the file truncated?"
        )
    if not (np.isfinite(weight).all() and weight.min(initial=0.0) >= 0):
        raise InputError(f"{path}: a weight is negative or not finite")
    weights = np.empty(lines.shape)
    weights[word, topic] = weight
    return vocabulary, weights


def _read_alphas(path: Path, topics: int) -> list[float]:
    """Read alpha of each topic from the keys."""
    table = read_table(path, {"topic": pa.int64(), "alpha": pa.float64(), "words": pa.binary()})
    if table["topic"].to_pylist() != list(range(topics)):
        raise InputError(
            f"{path}: {len(table)} lines; expected topics 0 to {topics - 1} in order, as the "
            f"weights have them"
        )
    alphas: list[float] = table["alpha"].to_pylist()
    return alphas
