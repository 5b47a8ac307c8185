"""Documents of an inference: flags, scaled counts and words that count as unknown, by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from topicstream.inference.documents import FLAGS, Documents


def documents():
    """Cells of words 4 and 9; of word 4; none; none of three tokens."""
    return Documents(
        pa.array(["a", "b", "c", "d"]),
        np.array([0, 2, 3, 3, 3]),
        np.array([4, 9, 4]),
        np.array([4.0, 12.0, 9.0], np.float32),
        np.array([17.0, 9.0, 0.0, 3.0]),
        np.array([1.0, 0.0, 0.0, 3.0]),
    )


def test_documents_without_a_known_word_are_flagged():
    assert [FLAGS[flag] for flag in documents().flags] == ["", "", "empty", "unknown"]


@pytest.mark.parametrize(
    ("length", "root", "expected"),
    [
        (0.0, False, [4, 12, 9]),
        (8.0, False, [2, 6, 8]),
        (0.0, True, [2, np.sqrt(12), 3]),
        # roots of the scaled counts
        (8.0, True, [np.sqrt(2), np.sqrt(6), np.sqrt(8)]),
    ],
)
def test_counts_are_scaled_to_a_length_document_by_document(length, root, expected):
    assert documents().scale_counts(length, root) == pytest.approx(expected, rel=1e-6)


def test_words_that_do_not_count_are_unknown():
    docs = documents()
    known = np.ones(10, bool)
    assert docs.keep_words(known) is docs
    known[4] = False
    fewer = docs.keep_words(known)
    assert fewer.indptr.tolist() == [0, 1, 1, 1, 1] and fewer.words.tolist() == [9]
    assert fewer.counts.tolist() == [12] and fewer.tokens.tolist() == [17, 9, 0, 3]
    assert fewer.unknown.tolist() == [5, 9, 0, 3]
    assert [FLAGS[flag] for flag in fewer.flags] == ["", "unknown", "empty", "unknown"]
