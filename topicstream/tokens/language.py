"""The language of a corpus, known by its function words: those that are left show that the list of stop words did not fit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from topicstream.relations import Relations
from topicstream.tokens.stopwords import LANGUAGES, stop_list

LEAST_TOKENS, LEAST_DIFFERENT = 100, 5
"""Words of a corpus, and different function words of a language among them, below which nothing is concluded: languages share
some short words (a, in, no, come)."""
MUCH = 0.15
"""Share of function words among all words from which on a corpus is taken to be of their language.  They make up 35 to 50 %
of running text, and under 8 % of it once they are taken out (what one language's list finds of another's words)."""


def unfit(words: Relations, tokens: int, stopwords_from: str) -> dict[str, Any] | None:
    """{language, share} where a corpus is in a language whose stop words were not left out; None where they were, or where
    ``stopwords_from`` is ``none``.

    Parameters
    ----------
    words
        Has a table ``words`` with the columns word and count.
    tokens
        Sum of the counts.
    """
    if stopwords_from == "none" or tokens < LEAST_TOKENS:
        return None
    lists = [(word, language) for language in LANGUAGES.values() for word in stop_list(language)]
    words.insert("function_words", pa.table({"word": [w for w, _ in lists], "language": [name for _, name in lists]}))
    shares = words.stream(
        f"select language, sum(count) / {tokens} as share from words join function_words using (word) where count > 0"
        f" group by language having count(*) >= {LEAST_DIFFERENT} order by share desc, language limit 1"
    )
    for language, share in ((row["language"], row["share"]) for batch in shares for row in batch.to_pylist()):
        if share >= MUCH and language not in stopwords_from.split("+"):
            return {"language": language, "share": round(share, 4)}
    return None
