"""From sequences of words to counts: learned phrases joined, n-grams added.

A sequence lists the words of the documents in order, as numbers in a list of words; -1 stands where
something was left out. ``documents`` has the document of each place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()


@dataclass
class WordSequence:
    """Words of documents in their order.

    Attributes
    ----------
    words
        Distinct words, large_string[T].
    places
        Number of the word at each place, or -1, int32[n].
    documents
        Document of each place, ascending, int32[n].
    """

    words: pa.Array
    places: np.ndarray
    documents: np.ndarray

    @classmethod
    def from_documents(
        cls, words: pa.Array, places: np.ndarray, indptr: np.ndarray
    ) -> WordSequence:
        """Make the sequences ``places[indptr[d]:indptr[d + 1]]`` of documents.

        Words that stand twice in the list become one.
        """
        encoded = words.dictionary_encode()
        numbers = np.append(encoded.indices.to_numpy(), -1).astype(np.int32)
        documents = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
        return cls(encoded.dictionary, numbers[places], documents)

    def neighbours(self, left: np.ndarray) -> np.ndarray:
        """Map each place and the entry of ``left`` before it to a number, int64[n].

        -1 where one of the two is -1, or where a document begins.
        """
        pairs = np.full(len(self.places), -1, np.int64)
        adjacent = (
            (left[:-1] >= 0) & (self.places[1:] >= 0) & (self.documents[1:] == self.documents[:-1])
        )
        pairs[1:][adjacent] = self.pair(left[:-1], self.places[1:])[adjacent]
        return pairs

    def pair(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Compute the number of each pair of numbers, int64[n]."""
        pairs: np.ndarray = left.astype(np.int64) * len(self.words) + right
        return pairs

    def joined(
        self, pairs: np.ndarray, firsts: pa.Array, joiner: str
    ) -> tuple[np.ndarray, pa.Array]:
        """Join pairs of one of ``firsts`` and a word to words, and return their numbers.

        -1 stays -1.
        """
        encoded = pa.array(pairs, mask=pairs < 0).dictionary_encode()
        left, right = np.divmod(encoded.dictionary.to_numpy(), max(len(self.words), 1))
        words = pc.binary_join_element_wise(
            firsts.take(pa.array(left)), self.words.take(pa.array(right)), pa.scalar(joiner, TEXT)
        )
        return encoded.indices.fill_null(-1).to_numpy(), words


def join_phrases(
    text: WordSequence, phrases: Sequence[tuple[str, str]], joiner: str
) -> WordSequence:
    """Replace each phrase by one word, from the left, each word used once."""
    sides = [
        pc.index_in(pa.array(side, TEXT), value_set=text.words).fill_null(-1).to_numpy()
        for side in zip(*phrases)
    ]
    known = text.pair(*sides)[(sides[0] >= 0) & (sides[1] >= 0)]
    pairs = text.neighbours(text.places)
    phrase = pc.is_in(pa.array(pairs), value_set=pa.array(known)).to_numpy(zero_copy_only=False)
    place = np.arange(len(pairs))
    # 1, 2, 3, ... in a run of phrases that overlap: every other one is joined
    overlapping = place - np.maximum.accumulate(np.where(phrase, -1, place))
    second = phrase & (overlapping % 2 == 1)
    first = np.append(second[1:], np.zeros(min(1, len(second)), np.bool_))
    numbers, words = text.joined(np.where(second, pairs, -1), text.words, joiner)
    places = np.where(second, numbers + len(text.words), text.places)
    # a phrase may look like another word
    encoded = pa.concat_arrays([text.words, words]).dictionary_encode()
    numbers = np.append(encoded.indices.to_numpy(), -1).astype(np.int32)
    return WordSequence(encoded.dictionary, numbers[places[~first]], text.documents[~first])


def add_ngrams(text: WordSequence, longest: int, joiner: str) -> WordSequence:
    """Append all n-grams of up to ``longest`` words to a sequence."""
    size = len(text.words)
    words = [text.words]
    places = [text.places]
    firsts = text.words
    grams = text.places
    for _ in range(1, longest):
        grams, firsts = text.joined(text.neighbours(grams), firsts, joiner)
        words.append(firsts)
        places.append(np.where(grams < 0, -1, grams + size))
        size += len(firsts)
    return WordSequence(
        pa.concat_arrays(words), np.concatenate(places), np.tile(text.documents, longest)
    )


def count_sequence(
    text: WordSequence, documents: int
) -> tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]:
    """Count the words of a sequence.

    Returns
    -------
    types, indptr, words, counts
        Distinct words that occur, large_string[T], and the cells of the documents: int64[D + 1],
        int32[nnz] and int32[nnz].
    """
    import scipy.sparse  # a tenth of a second, which an ingest without phrases need not spend

    encoded = text.words.dictionary_encode()  # an n-gram may look like another word
    numbers = np.append(encoded.indices.to_numpy(), -1).astype(np.int32)[text.places]
    is_word = numbers >= 0
    used = np.bincount(numbers[is_word], minlength=len(encoded.dictionary)) > 0
    type_of = np.cumsum(used, dtype=np.int32) - np.int32(1)
    places = (text.documents[is_word], type_of[numbers[is_word]])
    cells = (np.ones(int(is_word.sum()), np.int32), places)
    counts = scipy.sparse.coo_array(cells, (documents, int(used.sum()))).tocsr()
    return (
        encoded.dictionary.filter(pa.array(used)),
        counts.indptr.astype(np.int64),
        counts.indices,
        counts.data,
    )
