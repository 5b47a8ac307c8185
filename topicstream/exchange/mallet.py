"""MALLET's topic-word-weights (topic, word, weight: a line an entry, the prior added) and topic-keys (topic, alpha, words).

alpha is in the keys only, beta in neither: it is the smallest weight, as long as any word is missing from any topic.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import InputError, UsageError
from topicstream.exchange.common import (
    Imported,
    TopicSpool,
    checked_words,
    fit_for_text,
    numbers_of,
    prior,
    read_table,
    text_lines,
    topic_rows,
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
    with written(path / WEIGHTS, force=force) as file:
        for topic, counts in topic_rows(model):
            file.write(text_lines(pa.scalar(topic), model.words, pa.array(counts.astype(np.float64) + model.beta)))
    top = model.top_words(words)["words"]
    with written(path / KEYS, force=force) as file:
        for topic in range(model.n_topics):
            keys = " ".join(top[topic].as_py())
            file.write(f"{topic}\t{float(model.alpha[topic])!r}\t{keys} \n".encode())
    return {"topics": model.n_topics, "words": model.n_words}


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A folder with both files, or the weights alone."""
    keys = path / KEYS if path.is_dir() else path.with_name(KEYS)
    path = path / WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    listed: Any = words
    pending: list[pa.RecordBatch] = []
    lowest: list[float] = []
    spool: TopicSpool | None = None
    current = 0

    def close_topic() -> None:
        nonlocal spool, listed
        if not pending:
            raise InputError(f"{path}: topic {current} has no line; MALLET writes every word of every topic")
        table = pa.Table.from_batches(pending)
        own, weights = as_words(table["word"]), table["weight"].to_numpy()
        if listed is None:
            listed = checked_words(own, f"{path}: topic {current}")
        if len(own) != len(listed):
            raise InputError(f"{path}: topic {current} has {len(own)} words where {len(listed)} are wanted; cut short?")
        if not own.equals(listed):
            at = pc.index_in(own, value_set=listed)
            if at.null_count or len(pc.unique(at)) != len(at):
                bad = own.filter(at.is_null())
                what = f"unknown word {bad[0].as_py()!r}" if len(bad) else "a word twice"
                raise InputError(f"{path}: topic {current}: {what}")
            weights = weights[np.argsort(at.to_numpy())]
        if spool is None:
            spool = TopicSpool(folder, len(listed), np.float64)
        lowest.append(float(weights.min()))
        spool.add(weights)
        pending.clear()

    for batch in read_table(path, str(path), _COLUMNS):
        numbers_of(batch.column("weight").to_numpy(), str(path), "weight")
        topics = batch.column("topic").to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(topics)) + 1).tolist(), len(topics)]
        for first, last in pairwise(edges):
            if first == last:
                continue
            topic = int(topics[first])
            if topic != current:
                if topic != current + 1:
                    raise InputError(f"{path}: topic {topic} after topic {current}; lines go by topic, from 0")
                close_topic()
                current = topic
            pending.append(batch.slice(first, last - first))
    close_topic()
    assert spool is not None
    least = min(lowest) if beta is None else float(beta)
    if least > min(lowest):
        raise UsageError(f"--beta {least:g}: is above the smallest weight, {min(lowest):g}")
    notes = []
    if alpha is None:
        alpha = _alphas(keys, spool.topics) if keys.is_file() else ALPHA_SUM / spool.topics
        if not keys.is_file():
            notes.append(f"no {KEYS} beside it: alpha {ALPHA_SUM:g} over all topics, MALLET's default (--alpha)")
    if beta is None:
        notes.append(f"beta {least:g}, the smallest weight (--beta)")
    return Imported(
        words=listed,
        topics=spool.topics,
        rows=spool.rows(minus=least),
        alpha=prior(alpha, spool.topics, "--alpha"),
        beta=least,
        notes=tuple(notes),
    )


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
            if len(found) > topics:
                break
    if len(found) != topics:
        raise InputError(f"{path}: {len(found)} topics where the weights have {topics}")
    return found
