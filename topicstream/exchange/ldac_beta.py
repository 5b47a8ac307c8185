"""Blei's LDA-C: final.beta (a line a topic, log p of every word), final.other (topics, words, alpha), vocab.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError, UsageError, one_line
from topicstream.exchange.common import (
    Imported,
    check_size,
    checked_words,
    fit_for_text,
    join_lists,
    prior,
    table_of,
    text_lines,
    write_word_list,
)
from topicstream.files.outputs import written
from topicstream.ingestion.parsing.vocabulary import read_vocabulary_file
from topicstream.model.topic_model import TopicModel

BETA, OTHER, WORDS = "final.beta", "final.other", "vocab.txt"
LEAST = -100.0
"""log p of a word that a topic does not have, as LDA-C writes it."""


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder.  LDA-C has one alpha for all topics: the mean."""
    fit_for_text(model.words, "", "--format ldac-beta")
    norms, phi = np.log(model.norms), table_of(model)
    with written(path / BETA, force=force) as file:
        for topic in range(model.n_topics):
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log(phi[:, topic].astype(np.float64) + model.beta) - norms[topic], LEAST)
            file.write(text_lines(join_lists([0, len(logs)], pa.array(logs), " ")))
    with written(path / OTHER, force=force) as file:
        alpha = float(model.alpha.mean())
        file.write(f"num_topics {model.n_topics}\nnum_terms {model.n_words}\nalpha {alpha!r}\n".encode())
    write_word_list(path / WORDS, model.words, force=force)
    return {"topics": model.n_topics, "words": model.n_words, "alpha": float(model.alpha.mean())}


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A folder with the three files, or ``final.beta``; the words beside it in vocab.txt, or from --words."""
    path = path / BETA if path.is_dir() else path
    if beta:
        raise UsageError("--beta: LDA-C's topics hold no prior; leave it out")
    if words is None:
        if not (beside := path.with_name(WORDS)).is_file():
            raise InputError(f"{path}: the words are not in it; give --words FILE, a word a line")
        words = checked_words(read_vocabulary_file(beside), str(beside))
    p = _probabilities(path, len(words))
    topics = len(p)
    notes = ["the file does not say how large the topics are: they count alike"]
    if alpha is None:
        alpha, known = _alpha(path.with_name(OTHER), topics, len(words))
        if not known:
            notes.append(f"no {OTHER} beside it: alpha {alpha:g} (--alpha)")
    phi = np.ascontiguousarray(p.T, np.float32)
    return Imported(words=words, phi=phi, alpha=prior(alpha, topics, "--alpha"), beta=0.0, notes=tuple(notes))


def _probabilities(path: Path, words: int) -> np.ndarray:
    """p(w|k), float64[K, W], checked."""
    try:
        logs = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: {one_line(e)[:200]}") from None
    check_size(str(path), words, len(logs))
    if logs.shape[1] != words:
        raise InputError(f"{path}: {logs.shape[1]} numbers a line for {words} words")
    if not (logs <= 1e-3).all():
        raise InputError(f"{path}: not logarithms of probabilities")
    p = np.where(logs <= LEAST, 0.0, np.exp(logs))
    for line in np.flatnonzero(np.abs(p.sum(axis=1) - 1.0) >= 0.1).tolist():
        raise InputError(f"{path}:{line + 1}: probabilities that sum to {p[line].sum():.4g}; is it cut short?")
    return p


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
