"""Models of Blei's LDA-C.

final.beta has a line a topic, log p of every word; final.other topics, words and alpha; vocab.txt
the words.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError, one_line
from topicstream.ingestion.parse.counts import read_vocabulary_file
from topicstream.model.exchange import Given, Imported, check_words, read_table

BETA = "final.beta"
OTHER = "final.other"
WORDS = "vocab.txt"
LEAST = -100.0
"""log p of a word that a topic does not have, as LDA-C writes it."""


def read(path: Path, given: Given) -> Imported:
    """Read a folder with the three files, or ``final.beta``.

    The words are beside it in vocab.txt, or come from ``--words``.
    """
    path = path / BETA if path.is_dir() else path
    if given.beta:
        raise UsageError("--beta: LDA-C topics contain no prior; leave it out")
    words = given.words
    words_file = path.with_name(WORDS)
    facts_file = path.with_name(OTHER)
    if words is None:
        if not words_file.is_file():
            raise InputError(
                f"{path}: the format contains no words; give --words FILE with one word per line"
            )
        words = check_words(read_vocabulary_file(words_file), words_file)
    p = _read_probabilities(path, len(words))
    topics = len(p)
    notes = ["the file does not say how large the topics are: they count alike"]
    alpha = _read_alpha(facts_file, topics, len(words)) if facts_file.is_file() else None
    if alpha is None and given.alpha is None:
        notes.append(f"no {OTHER} beside it: alpha {1 / topics:g} (--alpha)")
    return Imported(words, np.ascontiguousarray(p.T, np.float32), alpha, 0.0, notes=tuple(notes))


def _read_probabilities(path: Path, words: int) -> np.ndarray:
    """Read and check p(w|k), float64[K, W]."""
    try:
        with warnings.catch_warnings(category=UserWarning, action="error"):  # of an empty file
            logs = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError, UserWarning) as e:
        raise InputError(f"{path}: {one_line(e)[:200]}") from None
    if logs.shape[1] != words:
        raise InputError(f"{path}: {logs.shape[1]} numbers per line, but {words} words")
    if not (logs <= 1e-3).all():
        raise InputError(f"{path}: not logarithms of probabilities")
    p = np.where(logs <= LEAST, 0.0, np.exp(logs))
    for line in np.flatnonzero(np.abs(p.sum(axis=1) - 1.0) >= 0.1).tolist():
        raise InputError(
            f"{path}:{line + 1}: probabilities that sum to {p[line].sum():.4g}; is it truncated?"
        )
    return p


def _read_alpha(path: Path, topics: int, words: int) -> float | None:
    """Read alpha of final.other, which must name the same numbers of topics and words."""
    table = read_table(path, {"name": pa.string(), "value": pa.float64()}, delimiter=" ")
    values = dict(zip(*table.to_pydict().values(), strict=True))
    if values.get("num_topics", topics) != topics or values.get("num_terms", words) != words:
        raise InputError(
            f"{path}: states other numbers of topics or words than the {topics} and {words} in "
            f"the other files"
        )
    return values.get("alpha")
