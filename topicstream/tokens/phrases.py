"""Learn which pairs of words are phrases, by normalised pointwise mutual information.

Bouma, "Normalized (Pointwise) Mutual Information in Collocation Extraction", GSCL 2009:
npmi(a, b) = ln(p(a b) / (p(a) p(b))) / -ln p(a b), from -1 over 0 (independent) to 1 (never apart); p(a b) over the pairs of
neighbours, p(a) over the words, as the recipe makes them (stop words part a pair).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

import numpy as np

from topicstream.errors import InputError
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.documents import TextRun
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer

_JOINER = "\x1f"


def learn_phrases(
    runs: Iterable[TextRun],
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    memory_bytes: int,
    threshold: float = 0.5,
    min_count: int = 20,
    most: int = 50_000,
) -> Recipe:
    """The recipe with the phrases of ``runs`` (all of a corpus or a sample): pairs that occur ``min_count`` times or more
    with an npmi of ``threshold`` or more, the ``most`` frequent ones if there are more, in the order of their bytes.

    Counts every pair exactly, out of core in the scratch ``folder``.  Phrases that the recipe has already are replaced.
    InputError for a threshold outside [-1, 1]."""
    if not -1.0 <= threshold <= 1.0:
        raise InputError(f"phrase threshold {threshold}: normalised PMI lies between -1 and 1")
    tokenizer = Tokenizer(dataclasses.replace(recipe, phrases=(), phrase_threshold=None, ngrams=2), joiner=_JOINER)
    builder = VocabularyBuilder(folder, memory_bytes)
    words = pairs = documents = 0
    for run in runs:
        counted = tokenizer.count(run)
        counts, df = counted.totals()
        joined = _pairs_among(counted.types, counted.type_offsets)
        words += int(counts[~joined].sum())
        pairs += int(counts[joined].sum())
        documents += len(run)
        builder.add(counted.types, counted.type_offsets, counts, df)
    if pairs == 0:
        return dataclasses.replace(recipe, phrases=(), phrase_threshold=threshold)
    try:
        vocabulary = builder.finish(documents=documents, min_count=min_count).vocabulary
    except InputError:  # nothing is that frequent
        return dataclasses.replace(recipe, phrases=(), phrase_threshold=threshold)
    count = {word: int(n) for word, n in zip(vocabulary.words.to_pylist(), vocabulary.counts)}
    found: list[str] = []
    for pair, n in count.items():  # by descending count
        first, joiner, second = pair.partition(_JOINER)
        if (
            not joiner
            or len(first.split()) != 1
            or len(second.split()) != 1
            or first not in count
            or second not in count
        ):
            continue
        p = n / pairs
        pmi = np.log(p) - np.log(count[first] / words) - np.log(count[second] / words)
        if len(found) < most and (p == 1.0 or pmi / -np.log(p) >= threshold):
            found.append(f"{first} {second}")
    found.sort(key=str.encode)
    return dataclasses.replace(recipe, phrases=tuple(found), phrase_threshold=threshold)


def _pairs_among(types: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """bool[T]: whether a type holds the joiner."""
    joined = np.zeros(offsets.size - 1, bool)
    joined[np.searchsorted(offsets, np.flatnonzero(types == ord(_JOINER)), side="right") - 1] = True
    return joined
