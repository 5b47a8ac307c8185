"""The tokenizer's kernels against its plain-Python statement, and the rules one by one."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicstream.errors import InputError
from topicstream.ingest.documents import Provenance, TextRun
from topicstream.tokens.recipe import SCIKIT_LEARN_PATTERN, Recipe
from topicstream.tokens.tokenizer import Counted, Tokenizer

PLAIN = Recipe(stopwords=(), stopwords_from="none")


def run_of(*texts: str) -> TextRun:
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)]).astype(np.int64)
    ids = pa.array([str(d) for d in range(len(texts))], pa.large_string())
    return TextRun(Provenance(ids, ids), np.frombuffer(b"".join(data), np.uint8), offsets)


def counters(counted: Counted) -> list[Counter[str]]:
    types = counted.type_list()
    assert len(set(types)) == len(types)
    found = []
    for start, stop in zip(counted.indptr[:-1], counted.indptr[1:]):
        words = counted.words[start:stop]
        assert len(set(words.tolist())) == words.size
        assert (counted.counts[start:stop] > 0).all()
        found.append(Counter({types[w]: int(c) for w, c in zip(words, counted.counts[start:stop])}))
    assert counted.tokens.tolist() == [sum(c.values()) for c in found]
    return found


def words(text: str, **options) -> list[str]:
    """The words of one text by the kernel, in the order of the plain statement, which it must equal."""
    tokenizer = Tokenizer(Recipe(**{"stopwords": (), "stopwords_from": "none", **options}))
    plain = tokenizer.tokens(text)
    assert counters(tokenizer.count(run_of(text))) == [Counter(plain)]
    return plain


ALPHABET = (
    "abcdefgh ABCDEZz  01789 \n\t'’-_.,;!?@#\0\u00ad\ufeff\u200c\u200d\u0301\u0308äÄßéÉñΣσςİıДдאبषि가힣"
    "的国語ひカーｱไทยะ่ကខ្មែ〇々😀❤\ufe0f👩🏽💻🇩🇪⚽²½Ⅷ①Ⓐ\u00a0\u3000\u2028ȺⱥK𐐀𐐨𠀀\U000e0020\U0001faff"
)
TEXT = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=60),
    st.text(max_size=40),
    st.text(st.sampled_from("abAB01 _é"), max_size=80),
)
RECIPES = [
    {},
    {"lowercase": False, "min_length": 1},
    {"min_length": 3, "numbers": True},
    {"keep": ("emoji",), "min_length": 1},
    {"unspaced": "runs", "min_length": 1, "keep": ("emoji",)},
    {"tokenized": True},
    {"tokenized": True, "lowercase": False, "ngrams": 2},
    {"pattern": SCIKIT_LEARN_PATTERN},
    {"pattern": SCIKIT_LEARN_PATTERN, "ngrams": 3},
    {"pattern": r"[a-zé]+"},
    {"pattern": r"\b([a-f])\w*", "ngrams": 2},
    {"ngrams": 2, "min_length": 1},
    {"ngrams": 3, "min_length": 2, "numbers": True},
    {"stopwords": ("ab", "Ba", "的国", "a"), "stopwords_from": "file", "ngrams": 2, "min_length": 1},
    {"stopwords": ("ab", "ba", "a"), "stopwords_from": "file", "lowercase": False, "min_length": 1},
    {"phrases": ("a b", "b a", "ab b"), "phrase_threshold": 0.5, "min_length": 1, "ngrams": 2},
    {"stem": "english", "min_length": 1, "ngrams": 2},
]


@pytest.mark.parametrize("options", RECIPES, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "default")
def test_kernel_equals_plain_python(options):
    tokenizer = Tokenizer(Recipe(**{"stopwords": (), "stopwords_from": "none", **options}))

    @settings(max_examples=150, deadline=None)
    @given(st.lists(TEXT, max_size=4))
    def check(texts):
        counted = tokenizer.count(run_of(*texts))
        assert counters(counted) == [Counter(tokenizer.tokens(text)) for text in texts]
        assert counted.characters == sum(map(len, texts))
        assert 0 <= counted.discarded <= counted.characters

    check()
