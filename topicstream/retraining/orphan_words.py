"""Words of a store that only documents to forget have, and their removal from its vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.corpus.reader import Corpus
from topicstream.ingestion.tokens.vocabulary import ROWS, TokenVocabulary


def find_orphan_words(
    base: Corpus, places: np.ndarray, gone: np.ndarray, df: np.ndarray
) -> np.ndarray:
    """Find the words that only documents to forget have, bool[W].

    Reads the blocks of these documents, and all blocks if one of their words is as rare as they
    are few.

    Parameters
    ----------
    base
        The store.
    places, gone
        (document number, part, block, row) of the documents to forget, and of all that are gone,
        int64[n, 4].
    df
        Training documents left with each word, int64[W], or a few more (those withdrawn while a
        word was left out of the vocabulary).
    """
    # without the list of removed documents, so that their cells count too
    files = {k: v for k, v in base.manifest.files.items() if k != "removed"}
    everything = Corpus(base.path, msgspec.structs.replace(base.manifest, files=files))
    orphans = np.zeros(base.n_words, np.bool_)
    for part, block in sorted({(int(p), int(b)) for p, b in places[:, 1:3]}):
        rows = np.arange(base.part(bool(part)).blocks[block].docs)
        others = np.delete(rows, _rows_in_block(places, part, block))
        orphans |= _mark_words(everything, part, block, others)
    orphans &= df <= len(places)
    for part in (1, 0):
        for block in range(len(base.part(bool(part)).blocks)):
            if not orphans.any():
                return orphans
            orphans &= ~_mark_words(everything, part, block, _rows_in_block(gone, part, block))
    return orphans


def _rows_in_block(places: np.ndarray, part: int, block: int) -> np.ndarray:
    """Return the rows of ``places`` in a block, ascending."""
    return np.sort(places[(places[:, 1] == part) & (places[:, 2] == block), 3])


def _mark_words(corpus: Corpus, part: int, block: int, gone: np.ndarray) -> np.ndarray:
    """Mark the words of a block without the rows ``gone`` (int64, ascending), bool[W]."""
    raw = corpus.decode(block, bool(part))
    raw.drop(gone)
    words = np.zeros(corpus.n_words, np.bool_)
    words[raw.words] = True
    return words


def blank_words(vocabulary: TokenVocabulary, words: np.ndarray) -> TokenVocabulary:
    """Replace words, marked by bool[W], by text without meaning under the same ids."""
    numbers = np.flatnonzero(words)
    if not len(numbers):
        return vocabulary
    texts = pa.array([f"(no word {n})" for n in numbers.tolist()], pa.large_string())
    changed = pc.replace_with_mask(vocabulary.words, pa.array(words), texts)
    return TokenVocabulary.from_words(
        changed, np.where(words, 0, vocabulary.counts), np.where(words, 0, vocabulary.df)
    )


def read_common_words(pruned: Path, documents: int) -> Iterator[pa.Table]:
    """Yield the words left out of the vocabulary that more than ``documents`` documents had.

    Of as many forgotten documents, none of these words is theirs alone.
    """
    with pq.ParquetFile(pruned) as file:
        for batch in file.iter_batches(ROWS):
            table = pa.Table.from_batches([batch])
            yield table.filter(pc.greater(table["df"], documents))
