"""Figures of a store for ``topics info``, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.corpus.info import histogram_line, length_histogram, vocabulary_curve


def test_lengths_are_counted_by_powers_of_two():
    lengths = [np.array([0, 1, 2, 3], np.uint32), np.array([4, 7, 8, 8, 0], np.uint32)]
    corpus = SimpleNamespace(
        part=lambda: SimpleNamespace(blocks=range(2)), lengths=lambda b: lengths[b]
    )
    assert length_histogram(corpus) == {
        "empty": 2,
        "from": [1, 2, 4, 8],
        "documents": [1, 2, 2, 2],
        "longest": 8,
    }


def test_a_corpus_of_empty_documents_has_no_lengths():
    corpus = SimpleNamespace(
        part=lambda: SimpleNamespace(blocks=range(1)), lengths=lambda b: np.zeros(3, np.uint32)
    )
    assert length_histogram(corpus) == {"empty": 3, "from": [], "documents": [], "longest": 0}


@pytest.mark.parametrize(
    "words, expected",
    [
        (0, []),
        (10, [(10, 1.0)]),
        (11, [(10, 0.9091), (11, 1.0)]),
        (200, [(10, 0.05), (100, 0.5), (200, 1.0)]),
    ],
)
def test_a_curve_at_powers_of_ten(words, expected):
    curve = vocabulary_curve(np.ones(words, np.int64))
    assert [(point["words"], point["share"]) for point in curve] == expected


def test_a_curve_begins_with_frequent_words():
    curve = vocabulary_curve(np.array([1, *[10] * 10, 2]))
    assert [(point["words"], point["share"]) for point in curve] == [(10, 0.9709), (12, 1.0)]


def test_bars_of_a_histogram():
    # 1 + round(7 v / 8): 8, 1 + round(3.5), 1 + round(0.875), none
    assert histogram_line([8, 4, 1, 0]) == "█▅▂ "
    assert histogram_line([]) == ""
    assert histogram_line([0, 0]) == "  "
