"""Words broken at the ends of lines, joined where the vocabulary of the corpus says so.

``govern-`` at the end of a line and ``ment`` at the beginning of the next are ``government`` where
the corpus has that word, or lacks one of the halves; ``well-`` and ``known`` stay two words. Marks
that stand only for breaks (``¬``, the double hyphen of old prints, the soft hyphen) always join.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from topicstream.base.relations import Relations
from topicstream.ingestion.tokens.line_breaks import CERTAIN, replace_breaks
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer, prepared_text
from topicstream.ingestion.tokens.vocabulary import word_table
from topicstream.ingestion.tokens.word_counts import WordCounts, add_totals

MOST = 50_000
"""Joined words of a recipe, at most; the most frequent ones."""


def learn_joined_words(
    texts: Iterable[pa.Array],
    recipe: Recipe,
    folder: str | os.PathLike[str],
    *,
    memory_bytes: int,
    tools: Collection[str] = (),
) -> Recipe:
    """Learn which words that are broken at line ends are one word.

    Parameters
    ----------
    texts
        Columns of large_string, all of a corpus.
    recipe
        Recipe of the corpus.
    folder
        Folder for scratch files: words are counted out of core.
    memory_bytes
        Room for the counts in memory.
    tools
        Tools that the command names.

    Returns
    -------
    Recipe
        The recipe with the joined words, at most ``MOST``, in the order of their bytes.
    """
    plain = replace(
        recipe,
        join_hyphens=False,
        final_sigma=False,  # the end of a half is none of a word
        fold_accents=None,
        stopwords=(),
        phrases=(),
        phrase_threshold=None,
        ngrams=1,
        min_length=1,
        pattern=None,
        replace=(),
        lemmas=None,
        stem=None,
        keep=(),
    )
    tokenizer = Tokenizer(plain, tools)
    with Relations(Path(folder), memory_bytes) as relations:
        words = WordCounts(relations)
        relations.insert("breaks", _BREAKS.empty_table())
        for column in texts:
            breaks: Counter[tuple[str, str, bool]] = Counter()
            unbroken = replace_breaks(prepared_text(column, plain), _counter(breaks, tokenizer))
            counted = tokenizer.count(unbroken)
            sums = np.zeros(len(counted.types), np.int64)
            df = np.zeros(len(counted.types), np.int64)
            all_documents = np.ones(len(column), np.bool_)
            add_totals((counted.indptr, counted.words, counted.counts), all_documents, sums, df)
            words.add(word_table(counted.types, sums, df))
            rows = [(*broken, n) for broken, n in breaks.items()]
            if rows:
                columns = [list(column) for column in zip(*rows)]
                relations.insert("breaks", pa.table(columns, schema=_BREAKS))
        joined = _judge(relations)
    return replace(recipe, joined_words=tuple(sorted(joined, key=str.encode)))


_BREAKS = pa.schema(
    [
        ("first", pa.large_string()),
        ("second", pa.large_string()),
        ("certain", pa.bool_()),
        ("count", pa.int64()),
    ]
)


def _counter(breaks: Counter[tuple[str, str, bool]], tokenizer: Tokenizer) -> Callable[..., str]:
    """Make a function that counts broken words and takes them out of the text."""

    def count(first: str, mark: str, second: str) -> str:
        halves = (tokenizer.as_counted(first), tokenizer.as_counted(second))
        breaks[(*halves, mark in CERTAIN)] += 1
        return " "

    return count


def _judge(relations: Relations) -> list[str]:
    """Decide by the words of the corpus which broken words are joined."""
    query = f"""
        with known as (select distinct word from words where count > 0)
        select first || second as word, sum(count) as n from breaks
        where certain or first || second in (from known)
            or first not in (from known) or second not in (from known)
        group by 1 order by n desc, word limit {MOST}"""
    joined: list[str] = []
    for batch in relations.stream(query):
        joined += batch["word"].to_pylist()
    return joined
