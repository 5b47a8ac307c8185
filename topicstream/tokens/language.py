"""Which language a corpus is in, told from its function words: those that are left say that a list of stop words did not
fit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.tokens.stopwords import LANGUAGES, stop_list
from topicstream.tokens.vocabulary import TokenVocabulary, stream_pruned

LEAST_TOKENS, LEAST_DIFFERENT = 100, 5
"""Words of a corpus, and different function words of a language among them, without which nothing is concluded: languages
share some short words (a, in, no, come)."""
MUCH = 0.15
"""Share of function words among all words from which on a corpus is taken to be of their language.  They make up 35 to 50 %
of running text, and under 8 % of it once they are taken out (what one language's list finds of another's words)."""


def languages_of(pieces: Iterable[tuple[pa.Array, np.ndarray]]) -> dict[str, int]:
    """How many of the occurrences of words are function words of each language of which there are a few different ones.
    pieces: words and their counts int64[]."""
    lists = {language: set(stop_list(language)) for language in LANGUAGES.values()}
    every = pa.array(list(set().union(*lists.values())), pa.large_string())
    found: Counter[str] = Counter()
    for words, counts in pieces:
        here = pc.is_in(words, value_set=every)
        for word, n in zip(words.filter(here).to_pylist(), counts[here.to_numpy(zero_copy_only=False)].tolist()):
            found[word] += n
    shared = {language: words & found.keys() for language, words in lists.items()}
    return {name: sum(found[word] for word in words) for name, words in shared.items() if len(words) >= LEAST_DIFFERENT}


def unfit(
    vocabulary: TokenVocabulary, pruned: str | os.PathLike[str], tokens: int, stopwords_from: str
) -> dict[str, Any] | None:
    """{language, share} where a corpus is in a language whose stop words were not left out; None where they were, or nobody
    wanted any to be (``none``).  tokens: occurrences of all words before pruning; pruned: file of the words left out."""
    if stopwords_from == "none" or tokens < LEAST_TOKENS:
        return None
    left = ((b.column(0), b.column(1).to_numpy()) for b in stream_pruned(pruned))
    found = languages_of([(vocabulary.words, vocabulary.counts), *left])
    language = max(found, key=lambda name: found[name], default="")
    share = found.get(language, 0) / tokens
    if share < MUCH or language in stopwords_from.split("+"):
        return None
    return {"language": language, "share": round(share, 4)}
