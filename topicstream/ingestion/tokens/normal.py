"""Unicode normalisation: what reads as the same text gets the same code points.

Composed letters (NFC) everywhere. In text also one form of the letters that fonts and old
encodings drew apart: ligatures, full-width and half-width letters, letters of formulas (NFKC).

NFKC is left out where it changes what a word is:

- characters that make no part of a word (punctuation, spaces): they part words as they are;
- ``™`` and ``℠``, which would become letters of the word before them;
- the vowel am of Thai and Lao and the single letters of Korean, which dictionaries have as they
  are written;
- emoji.

The tables come from ``unicodedata``. ASCII text is looked at once and returned as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.text import compose_text
from topicstream.corpus.vocabulary import string_buffers
from topicstream.ingestion.tokens.characters import (
    ASSIGNED,
    CODE_POINTS,
    EMOJI_RANGES,
    decode,
    lower,
)
from topicstream.ingestion.tokens.wordtable import load8, store8
from topicstream.numeric.kernels.arrays import Bools, Bytes, Int, Ints, Longs
from topicstream.numeric.kernels.jit import kernel

Form = Literal["none", "nfc", "nfkc"]

AS_WRITTEN = (
    (0x0E33, 0x0E33),  # Thai am
    (0x0EB3, 0x0EB3),  # Lao am
    (0x2120, 0x2120),  # service mark
    (0x2122, 0x2122),  # trade mark
    (0x3131, 0x318E),  # single letters of Korean
    *EMOJI_RANGES,
)
"""Ranges of code points that NFKC would change, and that stay."""

_RUN = 64
"""Characters that are looked at together."""
_SURROGATES = range(0xD800, 0xE000)
_HANGUL_VOWELS = range(0x1161, 0x1176)
_HANGUL_ENDS = range(0x11A8, 0x11C3)


def compose_column(column: Any) -> Any:
    """Compose the letters of a column of strings or of lists of strings.

    Other columns stay.
    """
    kind = column.type
    if pa.types.is_list(kind):
        values = column.values
        composed = compose_column(values)
        if composed is values:
            return column
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, composed, mask=mask)
    if pa.types.is_string(kind):
        composed = compose_strings(column.cast(pa.large_string()))
        return composed.cast(kind)
    return compose_strings(column) if pa.types.is_large_string(kind) else column


def compose_strings(strings: pa.Array) -> pa.Array:
    """Compose the letters of strings (NFC), large_string[D]."""
    return _change_rows(strings, _unsettled_rows, _composed)


def normalize_texts(texts: pa.Array, form: Form, *, lowercase: bool) -> pa.Array:
    """Normalise documents before their words are cut.

    Parameters
    ----------
    texts
        large_string[D].
    lowercase
        Words are lower-cased afterwards: what composes only in lower case does so, too.
    """
    if form == "none" or _is_ascii(texts):
        return texts
    if form == "nfkc":
        texts = replace_letters(texts, _fold_table())
    return _change_rows(texts, _unsettled_rows, _composed_small if lowercase else _composed)


def normalize_text(text: str, form: Form) -> str:
    """Normalise one string as ``normalize_texts`` does."""
    if form == "none" or text.isascii():
        return text
    if form == "nfkc":
        text = text.translate(folds())
    return compose_text(text)


def fold_with_places(text: str, replaced: Mapping[int, str]) -> tuple[str, list[tuple[int, int]]]:
    """Replace characters of composed text, and say where each letter comes from.

    Parameters
    ----------
    text
        Composed text.
    replaced
        Characters and the letters in their place, such as ``folds``.

    Returns
    -------
    The letters, and for each the place in ``text`` (start, end) of what it was made of.
    """
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    waiting = ""
    start = 0
    for i, written in enumerate(text):
        for letter in replaced.get(ord(written), written):
            composes = compose_text(waiting + letter) != compose_text(waiting) + letter
            if waiting and not composes and not unicodedata.combining(letter):
                letters.append(compose_text(waiting))
                places += [(start, max(i, start + 1))] * len(letters[-1])
                waiting = ""
            if not waiting:
                start = i
            waiting += letter
    letters.append(compose_text(waiting))
    places += [(start, len(text))] * len(letters[-1])
    return "".join(letters), places


@lru_cache(maxsize=1)
def folds() -> dict[int, str]:
    """Return the characters that ``nfkc`` replaces, each with its letters."""
    exceptions = {c for first, last in AS_WRITTEN for c in range(first, last + 1)}
    replaced = {}
    for c in _decomposed():
        letter = chr(c)
        if c in exceptions or unicodedata.is_normalized("NFKC", letter):
            continue
        if not unicodedata.is_normalized("NFC", letter):
            continue  # composing replaces it
        letters = unicodedata.normalize("NFKD", letter)
        if unicodedata.category(letter)[0] in "LMN" or any(map(str.isalnum, letters)):
            replaced[c] = letters
    return replaced


def _assigned() -> list[int]:
    return [c for first, stop in ASSIGNED for c in range(first, stop) if c not in _SURROGATES]


@lru_cache(maxsize=1)
def _decomposed() -> list[int]:
    """Return the characters that are made of others (NFKD).

    A run of neighbours is looked at as one text, for few have any: 20 ms less at every start.
    """
    assigned = _assigned()
    changed: list[int] = []
    for i in range(0, len(assigned), _RUN):
        run = assigned[i : i + _RUN]
        if not unicodedata.is_normalized("NFKD", " ".join(map(chr, run))):
            changed += [c for c in run if not unicodedata.is_normalized("NFKD", chr(c))]
    return changed


def _is_ascii(strings: pa.Array) -> bool:
    """Tell whether all bytes of the texts are ASCII."""
    _, text = string_buffers(strings)
    return bool(text.view(np.int8).min(initial=0) >= 0)


def _change_rows(
    strings: pa.Array,
    find: Callable[[np.ndarray, np.ndarray], np.ndarray],
    change: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """Replace the strings that ``find`` marks by what ``change`` makes of them.

    Returns
    -------
    The very same array where there is nothing to change.
    """
    if _is_ascii(strings):
        return strings
    offsets, text = string_buffers(strings)
    text.flags.writeable = False  # as of every caller: compiled once
    rows = find(text, offsets)
    if not rows.any():
        return strings
    mask = pa.array(rows)
    return pc.replace_with_mask(strings, mask, change(strings.filter(mask)))


# -- composing
# --------------------------------------------------------------------------------------------------


def _composed(texts: pa.Array) -> pa.Array:
    return pc.utf8_normalize(texts, form="NFC")


def _composed_small(texts: pa.Array) -> pa.Array:
    """Compose letters, and lower-case those that are one only as small letters.

    Such is ``J̌``, whose small one is ``ǰ``.
    """
    texts = _composed(texts)
    rows = pc.match_substring_regex(texts, _small_only())
    if not pc.any(rows).as_py():
        return texts
    small = [compose_text(lower(text)) for text in texts.filter(rows).to_pylist()]
    return pc.replace_with_mask(texts, rows, pa.array(small, pa.large_string()))


@lru_cache(maxsize=1)
def _small_only() -> str:
    """Return a pattern of the capitals with marks that are one character only as small letters."""
    capitals = set()
    for letter in map(chr, _assigned()):
        if not letter.islower():
            continue
        capital = unicodedata.normalize("NFC", letter.upper())
        if len(capital) > 1 and compose_text(lower(capital)) == letter:
            capitals.add(re.escape(capital))
    return "|".join(sorted(capitals))


def _unsettled_rows(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    rows = np.zeros(offsets.size - 1, np.bool_)
    _find_unsettled(text, offsets, *_unsettled(), rows)
    return rows


@lru_cache(maxsize=1)
def _unsettled() -> tuple[np.ndarray, np.ndarray]:
    """Make the tables of the quick check of UAX #15.

    They tell which characters may change (bool), and the combining class of each.
    """
    may_change = np.zeros(CODE_POINTS, np.bool_)
    combining = np.zeros(CODE_POINTS, np.uint8)
    for first, stop in ASSIGNED:
        classes = bytes(map(unicodedata.combining, map(chr, range(first, stop))))
        combining[first:stop] = np.frombuffer(classes, np.uint8)
    for c in _decomposed():
        letter = chr(c)
        if not unicodedata.is_normalized("NFC", letter):
            may_change[c] = True
            continue
        parts = unicodedata.decomposition(letter).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            may_change[int(parts[1], 16)] = True
    for hangul in (_HANGUL_VOWELS, _HANGUL_ENDS):  # their letters compose by rule
        may_change[hangul.start : hangul.stop] = True
    for table in (may_change, combining):
        table.setflags(write=False)
    return may_change, combining


_HIGH = np.uint64(0x8080808080808080)


@kernel(forceinline=True)
def _behind_ascii(text: Bytes, i: int, stop: int) -> Int:
    """Find the first byte from ``i`` on that is no ASCII, or return ``stop``."""
    while i + 8 <= stop and load8(text, i) & _HIGH == 0:
        i += 8
    while i < stop and text[i] < 0x80:
        i += 1
    return i


@kernel
def _find_unsettled(
    text: Bytes, offsets: Longs, may_change: Bools, combining: Bytes, rows: Bools
) -> None:
    """Mark the strings with a character that may compose, or with marks out of their order."""
    for d in range(offsets.size - 1):
        i = offsets[d]
        before = np.int64(0)
        while i < offsets[d + 1]:
            if text[i] < 0x80:
                before = np.int64(0)
                i = _behind_ascii(text, i, offsets[d + 1])
                continue
            c, n = decode(text, i)
            mark = np.int64(combining[c])
            if may_change[c] or 0 < mark < before:
                rows[d] = True
                break
            before = mark
            i += n


# -- folding
# --------------------------------------------------------------------------------------------------


class LetterTable(NamedTuple):
    """Characters that are replaced, and the letters that stand in their place.

    number int32[CODE_POINTS]: of each character, 0 for those that stay; ends int64[]: where the
    letters of each end; letters uint8[]: their UTF-8.
    """

    number: np.ndarray
    ends: np.ndarray
    letters: np.ndarray


def make_letter_table(replaced: Mapping[int, str]) -> LetterTable:
    """Make the table of characters and the letters in their place."""
    number = np.zeros(CODE_POINTS, np.int32)
    number[list(replaced)] = np.arange(1, len(replaced) + 1)
    ends, letters = string_buffers(pa.array(["", *replaced.values()], pa.large_string()))
    for table in (number, letters):
        table.flags.writeable = False
    return LetterTable(number, ends, letters)


@lru_cache(maxsize=1)
def _fold_table() -> LetterTable:
    return make_letter_table(folds())


def replace_letters(texts: pa.Array, table: LetterTable) -> pa.Array:
    """Write the letters that characters stand for in their place, large_string[D]."""

    def find(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        rows = np.zeros(offsets.size - 1, np.bool_)
        _find_folding(text, offsets, table.number, rows)
        return rows

    def change(strings: pa.Array) -> pa.Array:
        offsets, text = string_buffers(strings)
        text.flags.writeable = False  # as of every caller: compiled once
        new_offsets = np.zeros(offsets.size, np.int64)
        _measure_folded(text, offsets, table.number, table.ends, new_offsets)
        out = np.empty(new_offsets[-1], np.uint8)
        _fold(text, table.number, table.ends, table.letters, out)
        buffers = [None, pa.py_buffer(new_offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_string(), len(strings), buffers)

    return _change_rows(texts, find, change)


@kernel
def _find_folding(text: Bytes, offsets: Longs, number: Ints, rows: Bools) -> None:
    """Mark the strings with a character that is replaced."""
    for d in range(offsets.size - 1):
        i = offsets[d]
        while i < offsets[d + 1]:
            if text[i] < 0x80:
                i = _behind_ascii(text, i, offsets[d + 1])
                continue
            c, n = decode(text, i)
            if number[c] > 0:
                rows[d] = True
                break
            i += n


@kernel
def _measure_folded(
    text: Bytes, offsets: Longs, number: Ints, ends: Longs, new_offsets: Longs
) -> None:
    """Say where each string ends when its characters are replaced.

    Of ASCII none is.
    """
    at = 0
    for d in range(offsets.size - 1):
        i = offsets[d]
        while i < offsets[d + 1]:
            plain = _behind_ascii(text, i, offsets[d + 1])
            at += plain - i
            i = plain
            if i < offsets[d + 1]:
                c, n = decode(text, i)
                t = number[c]
                at += ends[t + 1] - ends[t] if t > 0 else n
                i += n
        new_offsets[d + 1] = at


@kernel
def _fold(text: Bytes, number: Ints, ends: Longs, letters: Bytes, out: Bytes) -> None:
    """Copy the bytes of all strings to ``out``, replaced characters as their letters."""
    at = 0
    i = 0
    while i < text.size:
        while i + 8 <= text.size and load8(text, i) & _HIGH == 0:
            store8(out, at, load8(text, i))
            i += 8
            at += 8
        if i == text.size:
            break
        c, n = decode(text, i)
        t = number[c]
        if t > 0:
            for k in range(ends[t], ends[t + 1]):
                out[at] = letters[k]
                at += 1
        else:
            for k in range(i, i + n):
                out[at] = text[k]
                at += 1
        i += n
