"""MALLET's topic-word-weights (topic, word, weight: a line an entry, the prior added) and topic-keys (topic, alpha, words).

alpha is in the keys only, beta in neither: it is the smallest weight, as long as any word is missing from any topic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import InputError, UsageError
from topicstream.exchange.common import (
    Imported,
    check_size,
    checked_words,
    fit_for_text,
    numbers_of,
    prior,
    read_table,
    table_of,
    text_lines,
)
from topicstream.files.outputs import written
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import as_words

WEIGHTS, KEYS = "topic-word-weights.txt", "topic-keys.txt"
ALPHA_SUM = 5.0
"""MALLET's default, for weights without keys."""
_COLUMNS = {"topic": pa.int64(), "word": pa.large_string(), "weight": pa.float64()}


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool, words: int = 20) -> dict[str, Any]:
    """``path``: a folder; words: so many a topic in the keys."""
    fit_for_text(model.words, "\\t", "--format mallet")
    phi = table_of(model)
    with written(path / WEIGHTS, force=force) as file:
        for topic in range(model.n_topics):
            weights = phi[:, topic].astype(np.float64) + model.beta
            file.write(text_lines(pa.scalar(topic), model.words, pa.array(weights)))
    top = model.top_words(words)["words"]
    with written(path / KEYS, force=force) as file:
        for topic in range(model.n_topics):
            keys = " ".join(top[topic].as_py())
            file.write(f"{topic}\t{float(model.alpha[topic])!r}\t{keys} \n".encode())
    return {"topics": model.n_topics, "words": model.n_words}


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A folder with both files, or the weights alone."""
    keys = path / KEYS if path.is_dir() else path.with_name(KEYS)
    path = path / WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    listed, weights = _weights(path, words)
    topics, smallest = weights.shape[1], float(weights.min())
    least = smallest if beta is None else float(beta)
    if least > smallest:
        raise UsageError(f"--beta {least:g}: is above the smallest weight, {smallest:g}")
    notes = []
    if alpha is None:
        alpha = _alphas(keys, topics) if keys.is_file() else ALPHA_SUM / topics
        if not keys.is_file():
            notes.append(f"no {KEYS} beside it: alpha {ALPHA_SUM:g} over all topics, MALLET's default (--alpha)")
    if beta is None:
        notes.append(f"beta {least:g}, the smallest weight (--beta)")
    phi = (weights - least).astype(np.float32)
    return Imported(words=listed, phi=phi, alpha=prior(alpha, topics, "--alpha"), beta=least, notes=tuple(notes))


def _weights(path: Path, words: Any) -> tuple[Any, np.ndarray]:
    """(the words, weights float64[W, K]); every topic has a line for every word, topic after topic."""
    table = read_table(path, str(path), _COLUMNS, list(_COLUMNS))
    topic, named = table["topic"].to_numpy(), as_words(table["word"])
    values = numbers_of(table["weight"].to_numpy(), str(path), "weight")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(topic)) + 1))
    for before, number in enumerate(topic[starts].tolist(), -1):
        if number != before + 1:
            raise InputError(f"{path}: topic {number} after topic {before}; lines go by topic, from 0")
    lengths = np.diff(np.append(starts, len(topic)))
    listed = words if words is not None else checked_words(named.slice(0, lengths[0]), f"{path}: topic 0")
    for k in np.flatnonzero(lengths != len(listed)).tolist():
        raise InputError(f"{path}: topic {k} has {lengths[k]} words where {len(listed)} are wanted; cut short?")
    check_size(str(path), len(listed), len(starts))
    ids = pc.index_in(named, value_set=listed)
    if ids.null_count:
        raise InputError(f"{path}: unknown word {named.filter(ids.is_null())[0].as_py()!r}")
    weights = np.full((len(listed), len(starts)), -1.0)
    weights[ids.to_numpy(), topic] = values
    if weights.min() < 0:
        raise InputError(f"{path}: topic {int(weights.min(axis=0).argmin())}: a word twice")
    return listed, weights


def _alphas(path: Path, topics: int) -> list[float]:
    found: list[float] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            fields = line.split("\t")
            try:
                if int(fields[0]) != len(found):
                    raise ValueError
                found.append(float(fields[1]))
            except (ValueError, IndexError):
                raise InputError(f"{path}:{number}: not 'topic, alpha, words' parted by tabs, topics from 0") from None
    if len(found) != topics:
        raise InputError(f"{path}: {len(found)} topics where the weights have {topics}")
    return found
