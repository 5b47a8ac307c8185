"""Learn which pairs of words are phrases, by normalised pointwise mutual information.

Bouma, "Normalized (Pointwise) Mutual Information in Collocation Extraction", GSCL 2009: npmi(a, b)
= ln(p(a b) / (p(a) p(b))) / -ln p(a b), from -1 over 0 (independent) to 1 (never apart); p(a b)
over the pairs of neighbours, p(a) over the words, as the recipe makes them (stop words part a
pair).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from topicstream.base.errors import InputError
from topicstream.base.relations import Relations
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.vocabulary import word_table
from topicstream.ingestion.tokens.word_counts import WordCounts, WordLimits, add_totals

_JOINER = "\x1f"
MOST = 50_000


def learn_phrases(
    texts: Iterable[pa.Array],
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    memory_bytes: int,
    threshold: float = 0.5,
    min_count: int = 20,
    asked: Collection[str] = (),
) -> Recipe:
    """Learn the phrases of ``texts`` (large_string, all of a corpus or a sample).

    Phrases are pairs that occur ``min_count`` times or more with an npmi of ``threshold`` or more,
    the ``MOST`` frequent ones if there are more, in the order of their bytes. Returns the recipe
    with them.

    Counts every pair exactly, out of core in the scratch ``folder``. Phrases that the recipe has
    already are replaced. InputError for a threshold outside [-1, 1]. asked: tools that the command
    names.
    """
    if not -1.0 <= threshold <= 1.0:
        raise InputError(f"phrase threshold {threshold}: normalised PMI lies between -1 and 1")
    tokenizer = Tokenizer(
        replace(recipe, phrases=(), phrase_threshold=None, ngrams=2), joiner=_JOINER, asked=asked
    )
    documents = 0
    with Relations(Path(folder), memory_bytes) as relations:
        word_counts = WordCounts(relations)
        for some in texts:
            counted = tokenizer.count(some)
            sums = np.zeros(len(counted.types), np.int64)
            df = np.zeros(len(counted.types), np.int64)
            every = np.ones(len(some), np.bool_)
            add_totals((counted.indptr, counted.words, counted.counts), every, sums, df)
            word_counts.add(word_table(counted.types, sums, df))
            documents += len(some)
        both = relations.number("select coalesce(sum(count), 0) from words")
        pairs = relations.number(
            f"select coalesce(sum(count), 0) from words where contains(word, '{_JOINER}')"
        )
        words = both - pairs
        try:
            vocabulary = word_counts.choose(
                WordLimits(min_count=min_count), documents=documents
            ).vocabulary
        except InputError:  # nothing is that frequent
            return replace(recipe, phrases=(), phrase_threshold=threshold)
    count = {word: int(n) for word, n in zip(vocabulary.words.to_pylist(), vocabulary.counts)}
    learned: list[str] = []
    for pair, n in count.items():  # by descending count
        first, joiner, second = pair.partition(_JOINER)
        known = joiner and first in count and second in count
        if not known or len(first.split()) != 1 or len(second.split()) != 1 or len(learned) == MOST:
            continue
        p = n / pairs
        pmi = np.log(p) - np.log(count[first] / words) - np.log(count[second] / words)
        if p == 1.0 or pmi / -np.log(p) >= threshold:
            learned.append(f"{first} {second}")
    return replace(
        recipe, phrases=tuple(sorted(learned, key=str.encode)), phrase_threshold=threshold
    )
