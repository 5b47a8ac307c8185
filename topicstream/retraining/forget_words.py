"""Words that only forgotten documents had: they are text of theirs, in the vocabulary and in the
list of words left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.corpus.reader import Corpus
from topicstream.tokens.vocabulary import ROWS, TokenVocabulary


def own_words(base: Corpus, places: np.ndarray, gone: np.ndarray, df: np.ndarray) -> np.ndarray:
    """bool[W]: words of the documents at ``places`` that no other document has any more.

    places, gone: int64[n, 4] (document number, part, block, row) of those to forget, and of all
    that are gone; df: int64[W] training documents left with each word, or a few more (of those
    withdrawn while a word was left out of the vocabulary). Reads the blocks of ``places``, and all
    blocks where one of their words is as rare as they are few."""
    files = {k: v for k, v in base.manifest.files.items() if k != "removed"}
    everything = Corpus(
        base.path, msgspec.structs.replace(base.manifest, files=files)
    )  # with the cells of those replaced or withdrawn before
    own = np.zeros(base.n_words, np.bool_)
    for part, block in sorted({(int(p), int(b)) for p, b in places[:, 1:3]}):
        everyone = np.arange(base.part(bool(part)).blocks[block].docs)
        own |= _words_of(everything, part, block, np.delete(everyone, _rows(places, part, block)))
    own &= df <= len(places)
    for part in (1, 0):
        for block in range(len(base.part(bool(part)).blocks)):
            if not own.any():
                return own
            own &= ~_words_of(everything, part, block, _rows(gone, part, block))
    return own


def _rows(places: np.ndarray, part: int, block: int) -> np.ndarray:
    return np.sort(places[(places[:, 1] == part) & (places[:, 2] == block), 3])


def _words_of(corpus: Corpus, part: int, block: int, gone: np.ndarray) -> np.ndarray:
    """bool[W]: words of a block's documents but those in the rows ``gone`` (int64, ascending)."""
    raw = corpus.decode(block, bool(part))
    raw.drop(gone)
    words = np.zeros(corpus.n_words, np.bool_)
    words[raw.words] = True
    return words


def blanked(vocabulary: TokenVocabulary, words: np.ndarray) -> TokenVocabulary:
    """The vocabulary with something without meaning in the place of some words; ids stay.

    words: bool[W].
    """
    numbers = np.flatnonzero(words)
    if not len(numbers):
        return vocabulary
    texts = pa.array([f"(no word {n})" for n in numbers.tolist()], pa.large_string())
    changed = pc.replace_with_mask(vocabulary.words, pa.array(words), texts)
    return TokenVocabulary.of(
        changed, np.where(words, 0, vocabulary.counts), np.where(words, 0, vocabulary.df)
    )


def more_than(pruned: Path, documents: int) -> Iterator[pa.Table]:
    """The words left out of the vocabulary that more training documents had than are forgotten:
    none that only they had.
    """
    with pq.ParquetFile(pruned) as file:
        for batch in file.iter_batches(ROWS):
            table = pa.Table.from_batches([batch])
            yield table.filter(pc.greater(table["df"], documents))
