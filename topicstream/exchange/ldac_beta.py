"""Blei's LDA-C: final.beta (a line a topic, log p of every word), final.other (topics, words, alpha), vocab.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError, UsageError
from topicstream.exchange.common import (
    Imported,
    TopicSpool,
    check_size,
    checked_words,
    fit_for_text,
    join_lists,
    prior,
    text_lines,
    topic_rows,
    write_word_list,
)
from topicstream.files.outputs import written
from topicstream.model.topic_model import TopicModel

BETA, OTHER, WORDS = "final.beta", "final.other", "vocab.txt"
LEAST = -100.0
"""log p of a word that a topic does not have, as LDA-C writes it."""


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder.  LDA-C has one alpha for all topics: the mean."""
    fit_for_text(model.words, "", "--format ldac-beta")
    norms = np.log(model.norms)
    with written(path / BETA, force=force) as file:
        for topic, counts in topic_rows(model):
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log(counts.astype(np.float64) + model.beta) - norms[topic], LEAST)
            file.write(text_lines(join_lists([0, len(logs)], pa.array(logs), " ")))
    with written(path / OTHER, force=force) as file:
        alpha = float(model.alpha.mean())
        file.write(f"num_topics {model.n_topics}\nnum_terms {model.n_words}\nalpha {alpha!r}\n".encode())
    write_word_list(path / WORDS, model.words, force=force)
    return {"topics": model.n_topics, "words": model.n_words, "alpha": float(model.alpha.mean())}


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A folder with the three files, or ``final.beta``; the words beside it in vocab.txt, or from --words."""
    path = path / BETA if path.is_dir() else path
    if beta:
        raise UsageError("--beta: LDA-C's topics hold no prior; leave it out")
    if words is None:
        from topicstream.ingestion.parsing.vocabulary import read_vocabulary_file

        if not (beside := path.with_name(WORDS)).is_file():
            raise InputError(f"{path}: the words are not in it; give --words FILE, a word a line")
        words = checked_words(read_vocabulary_file(beside), str(beside))
    spool, number = TopicSpool(folder, len(words)), 0
    check_size(str(path), len(words), 1)
    with open(path, "rb") as file:
        while line := file.readline(64 * len(words) + 4096):
            number += 1
            if not line.strip():
                continue
            fields = line.split()
            if len(fields) != len(words):
                raise InputError(f"{path}:{number}: {len(fields)} numbers for {len(words)} words")
            try:
                logs = np.array(fields, np.float64)
            except ValueError:
                raise InputError(f"{path}:{number}: a value that is no number") from None
            if not (logs <= 1e-3).all():
                raise InputError(f"{path}:{number}: not logarithms of probabilities")
            p = np.where(logs <= LEAST, 0.0, np.exp(logs))
            if not 0.9 < p.sum() < 1.1:
                raise InputError(f"{path}:{number}: probabilities that sum to {p.sum():.4g}; is it cut short?")
            spool.add(p)
    if not spool.topics:
        raise InputError(f"{path}: holds no topic")
    notes = ["the file does not say how large the topics are: they count alike"]
    if alpha is None:
        alpha, known = _alpha(path.with_name(OTHER), spool.topics, len(words))
        if not known:
            notes.append(f"no {OTHER} beside it: alpha {alpha:g} (--alpha)")
    return Imported(
        words=words,
        topics=spool.topics,
        rows=spool.rows(),
        alpha=prior(alpha, spool.topics, "--alpha"),
        beta=0.0,
        notes=tuple(notes),
    )


def _alpha(path: Path, topics: int, words: int) -> tuple[float, bool]:
    if not path.is_file():
        return 1.0 / topics, False
    said: dict[str, float] = {}
    for line in path.read_text(errors="replace").splitlines()[:10]:
        name, _, value = line.partition(" ")
        try:
            said[name] = float(value)
        except ValueError:
            raise InputError(f"{path}: {line[:80]!r} is not 'name number'") from None
    if said.get("num_topics", topics) != topics or said.get("num_terms", words) != words:
        raise InputError(f"{path}: says other numbers of topics or words than {topics} and {words}")
    return said.get("alpha", 1.0 / topics), "alpha" in said
