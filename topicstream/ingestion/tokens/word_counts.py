"""The words of a corpus of any size with their counts, and which of them make the vocabulary.

The query engine (``topicstream.base.relations``) sums the counts of all pieces, applies the limits,
and orders by count and by the bytes of the word, so neither the order of the pieces nor what does
not fit memory shows in the result.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.base.errors import NothingKept
from topicstream.base.memory import Room
from topicstream.base.records import Record
from topicstream.base.relations import Relations
from topicstream.ingestion.tokens.vocabulary import SCHEMA, TokenVocabulary, write_words
from topicstream.numeric.kernels.arrays import Bools, Ints, Longs
from topicstream.numeric.kernels.jit import kernel

WORD_BYTES = 120
"""Memory of a word until the store is written: its bytes, counts, hash table, Parquet."""
SUMMED_ROWS = 4 << 20
"""Rows that wait before they are summed: a piece of text has 60,000 words, most of which others
have too.
"""


class WordLimits(Record, frozen=True, kw_only=True):
    """Limits of the words that are kept.

    Attributes
    ----------
    min_df, max_df
        Fewest and most training documents of a word. None for any number.
    min_count
        Fewest occurrences of a word.
    max_vocab
        Most words, of which the most frequent ones are kept. None for any number.
    """

    min_df: int = 1
    max_df: int | None = None
    min_count: int = 1
    max_vocab: int | None = None


@dataclass(frozen=True)
class ChosenWords:
    """Figures of a choice of words.

    Attributes
    ----------
    words
        Words of the vocabulary.
    distinct, tokens
        Distinct words and their occurrences before the choice.
    pruned, pruned_tokens
        The same of those left out.
    top
        Words that ``drop_top`` left out.
    """

    words: int
    distinct: int
    tokens: int
    pruned: int
    pruned_tokens: int
    top: list[str]


def add_totals(
    cells: tuple[np.ndarray, np.ndarray, np.ndarray],
    chosen: np.ndarray,
    sums: np.ndarray,
    df: np.ndarray,
) -> None:
    """Add the counts and document frequencies of words over some documents.

    A cell of a weight (float) counts as one occurrence.

    Parameters
    ----------
    cells
        Pointers of the documents, words and counts, as in ``DocumentCells``.
    chosen
        True for a document that is counted, bool[D].
    sums, df
        Occurrences and documents of each word, which are added to, int64[T].
    """
    indptr, words, counts = cells
    if counts.dtype.kind == "f":
        counts = np.ones(len(counts), np.int32)
    _sum(indptr, words, counts, chosen, sums, df)


@kernel
def _sum(indptr: Longs, words: Ints, counts: Ints, chosen: Bools, sums: Longs, df: Longs) -> None:
    for d in range(len(indptr) - 1):
        if chosen[d]:
            for i in range(indptr[d], indptr[d + 1]):
                sums[words[i]] += counts[i]
                df[words[i]] += 1


class WordCounts:
    """Counts of words in the table ``words``, of rows of ``vocabulary.SCHEMA``.

    Parameters
    ----------
    relations
        Query engine without tables.
    """

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self._rows = 0
        self._summed = 0
        self._lookups = 0
        relations.insert("words", SCHEMA.empty_table())

    def add(self, words: pa.Table | pa.RecordBatch) -> None:
        """Add the words of some documents.

        A word may come any number of times.
        """
        self.relations.insert("words", words)
        self._rows += len(words)
        if self._rows > max(SUMMED_ROWS, 2 * self._summed):
            self.merge_rows()

    def merge_rows(self) -> None:
        """Sum the counts of each word, so that the table has a row a word."""
        self._summed = self.relations.number(
            "create or replace table words as select word, sum(count)::bigint as count, "
            "sum(df)::bigint as df from words group by word"
        )
        self._rows = self._summed

    def occur(self, words: pa.Array) -> np.ndarray:
        """Tell which of the words, large_string[n], were counted, bool[n]."""
        table = f"lookup{self._lookups}"
        self._lookups += 1
        self.relations.insert(table, _numbered(words))
        counted = np.zeros(len(words), np.bool_)
        for batch in self.relations.stream(
            f"select id from {table} semi join (from words where count > 0) using (word)"
        ):
            counted[batch["id"].to_numpy()] = True
        self.relations.execute(f"drop table {table}")
        return counted

    def choose(
        self,
        limits: WordLimits,
        *,
        documents: int,
        fixed: TokenVocabulary | None = None,
        grow: bool = False,
        dropped: Collection[str] = (),
        drop_top: int = 0,
        room: Room | None = None,
    ) -> ChosenWords:
        """Choose the vocabulary, which ``save_chosen`` and ``save_pruned`` then write.

        Ids go by descending count, equal counts by the bytes of the word.

        Parameters
        ----------
        limits
            Limits that a word must keep to.
        documents
            Number of training documents, for messages.
        fixed
            Words that keep their ids whatever their counts, which are added to those counted.
        grow
            Let other words follow the fixed ones as far as ``limits.max_vocab`` has room, else
            leave them out.
        dropped
            Words left out whatever their counts, unless fixed.
        drop_top
            Number of the most frequent words that are left out of those that would be kept.
        room
            Memory for the vocabulary.

        Raises
        ------
        NothingKept
            If no word is left.
        DoesNotFit
            If the words take more memory than there is.
        """
        if fixed is not None:
            self.add(fixed.table)
        self.merge_rows()
        self._number_words(limits, fixed, grow, dropped, drop_top)
        size, distinct, tokens, pruned, pruned_tokens = self.relations.numbers("""
            select count(id),
                count(*) filter (count > 0),
                coalesce(sum(count) filter (count > 0), 0),
                count(*) filter (count > 0 and id is null),
                coalesce(sum(count) filter (count > 0 and id is null), 0)
            from chosen
        """)
        if room is not None:
            ask_for_words(size, room)
        if not documents or not distinct:
            raise NothingKept(
                f"{documents:,} training documents were read and none has a word; nothing was "
                f"stored; check the files and --format"
            )
        if not size:
            raise NothingKept(
                f"no word is left of {distinct:,} in {documents:,} training documents; "
                "lower --min-df, --min-count or --drop-top, or raise --max-df"
            )
        top: list[str] = []
        if drop_top:
            for batch in self.relations.stream("select word from chosen where top"):
                top += batch["word"].to_pylist()
        return ChosenWords(size, distinct, tokens, pruned, pruned_tokens, top)

    def _number_words(
        self,
        limits: WordLimits,
        fixed: TokenVocabulary | None,
        grow: bool,
        dropped: Collection[str],
        drop_top: int,
    ) -> None:
        """Make the view ``chosen``: each word with its id, null of one that is left out."""
        first = len(fixed) if fixed is not None else 0
        self.relations.insert(
            "fixed",
            _numbered(fixed.words if fixed is not None else pa.array([], pa.large_string())),
        )
        self.relations.insert("dropped", _numbered(pa.array(sorted(dropped), pa.large_string())))
        rules = [
            f"count >= {max(1, limits.min_count)}",
            f"df >= {limits.min_df}",
            "fixed.id is null",
            "dropped.id is null",
        ]
        if limits.max_df is not None:
            rules.append(f"df <= {limits.max_df}")
        if fixed is not None and not grow:
            rules.append("false")
        last = ""
        if limits.max_vocab is not None:
            last = f"and rank < {drop_top + max(0, limits.max_vocab - first)}"
        self.relations.execute(f"""
            create view judged as
            select word, count, df, fixed.id as known, {" and ".join(rules)} as passes
            from words left join fixed using (word) left join dropped using (word)
        """)
        self.relations.execute("""
            create table ranked as
            select *, row_number() over (order by count desc, word) - 1 as rank from judged where \
passes
            union all select *, null from judged where not passes
        """)
        self.relations.execute(f"""
            create view chosen as
            select word, count, df, rank < {drop_top} as top,
                coalesce(known, case when rank >= {drop_top} {last} then {first} + rank - \
{drop_top} end) as id
            from ranked
        """)

    def save_chosen(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary in the order of its ids, as ``vocab.parquet``.

        It is never in memory beside the query engine.
        """
        write_words(
            path,
            self.relations.stream(
                "select word, count, df from chosen where id is not null order by id"
            ),
        )

    def save_pruned(self, path: str | os.PathLike[str]) -> None:
        """Write the words left out, in the order of their bytes, as ``pruned.parquet``."""
        write_words(
            path,
            self.relations.stream(
                "select word, count, df from chosen where id is null and count > 0 order by word"
            ),
        )


def _numbered(words: pa.Array) -> pa.Table:
    """Make a table of words and their places."""
    return pa.table({"word": words, "id": np.arange(len(words))})


def ask_for_words(words: int, room: Room) -> None:
    """Raise DoesNotFit if there is no room for the words of a vocabulary."""
    room.check(
        words * WORD_BYTES, f"a vocabulary of {words:,} words (--min-df and --max-vocab keep fewer)"
    )
