"""Places where a word is broken at the end of a line."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

_LETTERS = r"[^\W\d_]"
_MARKS = "-\u2010\u00ac\u00ad\u2e17"
CERTAIN = "\u00ac\u00ad\u2e17"
"""Marks that stand for nothing but a break."""
_BREAK = re.compile(
    rf"(?<![^\W_])({_LETTERS}+)([{_MARKS}])[ \t]*\r?\n[ \t\r\f]*({_LETTERS}+)(?![^\W_])"
)
_SOME = rf"\pL[{_MARKS}][ \t]*\r?\n"
"""The same in RE2, for a quick look: a letter, a mark and the end of a line."""


def is_broken_word(first: str, second: str) -> bool:
    """Tell whether two halves can be of one word: a capital begins another, but in capitals."""
    return second[0].islower() or not second[0].isupper() or (first + second).isupper()


def replace_breaks(texts: pa.Array, join: Callable[[str, str, str], str | None]) -> pa.Array:
    """Replace words that are broken at the end of a line.

    Parameters
    ----------
    texts
        large_string[D].
    join
        Returns what stands for a first half, its mark and a second half; None: they stay.
    """

    def replace_one(match: re.Match[str]) -> str:
        first, mark, second = match.groups()
        joined = join(first, mark, second) if is_broken_word(first, second) else None
        return match[0] if joined is None else joined

    rows = pc.match_substring_regex(texts, _SOME)
    if not pc.any(rows).as_py():
        return texts
    changed = [_BREAK.sub(replace_one, text) for text in texts.filter(rows).to_pylist()]
    return pc.replace_with_mask(texts, rows, pa.array(changed, pa.large_string()))
