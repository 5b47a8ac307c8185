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
from topicstream.ingestion.tokens.word_counts import WordCounts, add_totals

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
    tools: Collection[str] = (),
) -> Recipe:
    """Learn the phrases of texts, and return the recipe with them.

    Counts every pair exactly, out of core. Phrases that the recipe has already are replaced.

    Parameters
    ----------
    texts
        Columns of large_string: all of a corpus, or a sample.
    recipe
        Recipe whose words are paired.
    folder
        Folder for scratch files.
    memory_bytes
        Room for the counts in memory.
    threshold
        Least npmi of a phrase.
    min_count
        Least number of occurrences of a phrase.
    tools
        Tools that the command names.

    Returns
    -------
    Recipe
        The recipe with the phrases in the order of their bytes: the ``MOST`` frequent pairs if
        there are more.

    Raises
    ------
    InputError
        For a threshold outside [-1, 1].
    """
    if not -1.0 <= threshold <= 1.0:
        raise InputError(f"phrase threshold {threshold}: normalised PMI lies between -1 and 1")
    tokenizer = Tokenizer(
        replace(recipe, phrases=(), phrase_threshold=None, ngrams=2), tools, joiner=_JOINER
    )
    with Relations(Path(folder), memory_bytes) as relations:
        word_counts = WordCounts(relations)
        for column in texts:
            counted = tokenizer.count(column)
            sums = np.zeros(len(counted.types), np.int64)
            df = np.zeros(len(counted.types), np.int64)
            all_documents = np.ones(len(column), np.bool_)
            add_totals((counted.indptr, counted.words, counted.counts), all_documents, sums, df)
            word_counts.add(word_table(counted.types, sums, df))
        word_counts.merge_rows()
        learned = _judge(relations, threshold, min_count)
    return replace(
        recipe, phrases=tuple(sorted(learned, key=str.encode)), phrase_threshold=threshold
    )


def _judge(relations: Relations, threshold: float, min_count: int) -> list[str]:
    """List the pairs that are phrases, by descending count.

    The query engine finds the counts of a pair's words: pairs grow with the corpus, and a part of
    them at a time is in memory.
    """
    is_pair = f"contains(word, '{_JOINER}')"
    total = "select coalesce(sum(count), 0) from words where"
    pairs = relations.number(f"{total} {is_pair}")
    words = relations.number(f"{total} not {is_pair}")
    relations.execute(
        f"create table single as select word, count from words "
        f"where count >= {min_count} and not {is_pair}"
    )
    rows = relations.stream(f"""
        with pair as (
            select split_part(word, '{_JOINER}', 1) as first,
                split_part(word, '{_JOINER}', 2) as second, count
            from words where count >= {min_count} and {is_pair}
        )
        select first, second, pair.count as n, a.count as n_first, b.count as n_second
        from pair join single a on a.word = first join single b on b.word = second
        order by n desc, first || '{_JOINER}' || second
    """)
    learned: list[str] = []
    for batch in rows:
        p = batch["n"].to_numpy() / pairs
        p_first = batch["n_first"].to_numpy() / words
        p_second = batch["n_second"].to_numpy() / words
        pmi = np.log(p) - np.log(p_first) - np.log(p_second)
        with np.errstate(divide="ignore", invalid="ignore"):  # p = 1
            passes = (p == 1.0) | (pmi / -np.log(p) >= threshold)
        chosen = batch.filter(pa.array(passes))
        for first, second in zip(chosen["first"].to_pylist(), chosen["second"].to_pylist()):
            if len(first.split()) == 1 and len(second.split()) == 1:
                learned.append(f"{first} {second}")
        if len(learned) >= MOST:
            break
    return learned[:MOST]
