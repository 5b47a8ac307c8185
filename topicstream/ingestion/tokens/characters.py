"""Classes of Unicode characters for the tokenizer, and words beyond ASCII.

Flat tables are made from ``unicodedata`` on first use:

classes  uint8[0x110000]   one of the constants below
lowered  int32[LOWERED]    simple lower case of a code point (those above have none)

Words beyond ASCII, code point by code point: kernels over the bytes of valid UTF-8 and the class
table.

text uint8[B]; ``i`` and ``end`` are places in it; classes uint8[0x110000], lower_case
int32[LOWERED] (characters.py).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np

from topicstream.numeric.kernels.arrays import Bool, Bytes, Int, Ints
from topicstream.numeric.kernels.jit import kernel

OTHER, SPACE, LETTER, MARK, DIGIT, EMOJI, REGIONAL, IGNORED, UNSPACED = range(9)

CODE_POINTS = 0x110000
CAPITAL_SIGMA = "\u03a3"
SIGMA = "\u03c3"
FINAL_SIGMA = "\u03c2"
LOWERED = 0x1E960  # behind the last script with two cases (Adlam)

# Planes 4 to 13 hold no character; in plane 14 only tags and variation selectors stand; the rest is
# private use.
ASSIGNED = ((0, 0x33500), (0xE0000, 0xE0200))
_ALPHABETIC = (
    (0x3400, 0xA000),
    (0xAC00, 0xD7A4),
    (0x20000, 0x33500),
)  # Han and Hangul: letters, or none of the four

# Scripts written without spaces between words; their letters only (digits and marks keep their
# class).
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x3005, 0x3007),  # ideographic iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA980, 0xA9FF),  # Javanese, Myanmar extended
    (0xAA60, 0xAADF),  # Myanmar extended, Tai Viet
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x1AFF0, 0x1B16F),  # Kana extensions
    (0x20000, 0x33479),  # Han extensions
)

# Pictographs; ranges rather than a property table, so that code points of a later Unicode version
# are seen too.
EMOJI_RANGES = (
    (0x203C, 0x203C),
    (0x2049, 0x2049),
    (0x231A, 0x231B),
    (0x2328, 0x2328),
    (0x23CF, 0x23CF),
    (0x23E9, 0x23FA),
    (0x25AA, 0x25AB),
    (0x25B6, 0x25B6),
    (0x25C0, 0x25C0),
    (0x25FB, 0x25FE),
    (0x2600, 0x27BF),
    (0x2934, 0x2935),
    (0x2B05, 0x2B07),
    (0x2B1B, 0x2B1C),
    (0x2B50, 0x2B50),
    (0x2B55, 0x2B55),
    (0x1F004, 0x1F004),
    (0x1F0CF, 0x1F0CF),
    (0x1F18E, 0x1F18E),
    (0x1F191, 0x1F19A),
    (0x1F201, 0x1F201),
    (0x1F21A, 0x1F21A),
    (0x1F22F, 0x1F22F),
    (0x1F232, 0x1F23A),
    (0x1F250, 0x1F251),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F7E0, 0x1F7EB),
    (0x1F900, 0x1F9FF),
    (0x1FA70, 0x1FAFF),
)


def lower(text: str) -> str:
    """Lower-case one character for one, as the kernels do.

    The two characters that ``str.lower`` treats by context or makes two of (capital sigma, dotted
    capital I) are mapped first.
    """
    return text.replace(CAPITAL_SIGMA, SIGMA).replace("\u0130", "i").lower()


def lower_words(text: str, one_sigma: bool) -> str:
    """Lower-case words as the kernels do.

    With ``one_sigma`` the sigma at the end of a word becomes any sigma.
    """
    small = lower(text)
    return small.replace(FINAL_SIGMA, SIGMA) if one_sigma else small


def spell_sigmas(word: str) -> str:
    """Write the sigma at the end of a small word as Greek does, and any other as usual.

    ``str.lower`` has Unicode's rule for capitals: a sigma by itself stays as it is.
    """
    return word.replace(FINAL_SIGMA, CAPITAL_SIGMA).replace(SIGMA, CAPITAL_SIGMA).lower()


@lru_cache(maxsize=1)
def _categories() -> np.ndarray:
    """Return the class of each code point by its category in Unicode, uint8[CODE_POINTS]."""
    classes = np.zeros(CODE_POINTS, np.uint8)
    of_category = {"L": LETTER, "M": MARK, "N": DIGIT, "Z": SPACE}
    for first, stop in _ALPHABETIC:
        letters = np.arange(first, stop, dtype=np.uint32).view("U1")
        classes[first:stop][np.strings.isalpha(letters)] = LETTER
    further = ((0, 0x3400), (0xA000, 0xAC00), (0xD7A4, 0x20000), ASSIGNED[1])
    for first, stop in further:
        categories = "".join(map(unicodedata.category, map(chr, range(first, stop))))
        codes = np.frombuffer(categories.encode("ascii"), np.uint8).reshape(-1, 2)
        for letter, value in of_category.items():
            classes[first:stop][codes[:, 0] == ord(letter)] = value
        classes[first:stop][(codes[:, 0] == ord("C")) & (codes[:, 1] == ord("c"))] = SPACE
    classes.setflags(write=False)
    return classes


@lru_cache(maxsize=2)
def lowered(one_sigma: bool) -> np.ndarray:
    """Make the table of simple lower case of the code points below LOWERED, int32[LOWERED]."""
    points = np.arange(LOWERED, dtype="<i4").tobytes().decode("utf-32-le", "surrogatepass")
    small = lower_words(points, one_sigma)
    table = np.frombuffer(small.encode("utf-32-le", "surrogatepass"), "<i4")
    assert len(table) == LOWERED
    return table


@lru_cache(maxsize=8)
def word_classes(emoji: bool, bigrams: bool) -> np.ndarray:
    """Return the classes of the default rule, by which letters, marks and digits make words."""
    classes = _categories().copy()
    classes[[0x200C, 0x200D]] = MARK  # joiners of Persian and Indic scripts, inside words
    classes[[0x00AD, 0xFEFF, 0x2060]] = IGNORED  # soft hyphen, byte order mark, word joiner
    if bigrams:
        for first, last in _UNSPACED:
            part = classes[first : last + 1]
            part[part == LETTER] = UNSPACED
        classes[0x3007] = UNSPACED  # the ideographic zero is a number by category
    for first, last in EMOJI_RANGES:
        part = classes[first : last + 1]
        part[part == OTHER] = EMOJI if emoji else OTHER
    classes[0x1F1E6:0x1F200] = REGIONAL if emoji else OTHER
    classes.setflags(write=False)
    return classes


@lru_cache(maxsize=1)
def pattern_classes() -> np.ndarray:
    r"""Return the classes of Python's ``\w``: alphanumeric characters, underscore, no marks."""
    classes = np.where(_categories() == SPACE, SPACE, OTHER).astype(np.uint8)
    for first, stop in ASSIGNED:
        known = np.array([chr(c).isalnum() for c in range(first, stop)])
        classes[first:stop][known] = LETTER
    classes[ord("_")] = LETTER
    classes.setflags(write=False)
    return classes


@lru_cache(maxsize=1)
def tokenized_classes() -> np.ndarray:
    """Return the classes of tokenised text.

    Whatever ``str.split`` takes for white space (and NUL) parts words, all else is word.
    """
    classes = np.full(CODE_POINTS, LETTER, np.uint8)
    classes[[c for c in range(0x3001) if chr(c).isspace()]] = SPACE
    classes[0] = SPACE
    classes.setflags(write=False)
    return classes


@kernel(forceinline=True)
def decode(text: Bytes, i: int) -> tuple[Int, Int]:
    """(code point, bytes) at ``i`` of valid UTF-8."""
    b = np.int64(text[i])
    if b < 0x80:
        return b, 1
    if b < 0xE0:
        return (b & 0x1F) << 6 | (np.int64(text[i + 1]) & 0x3F), 2
    if b < 0xF0:
        return (b & 0x0F) << 12 | (np.int64(text[i + 1]) & 0x3F) << 6 | (
            np.int64(text[i + 2]) & 0x3F
        ), 3
    return (
        (b & 0x07) << 18
        | (np.int64(text[i + 1]) & 0x3F) << 12
        | (np.int64(text[i + 2]) & 0x3F) << 6
        | (np.int64(text[i + 3]) & 0x3F)
    ), 4


@kernel(forceinline=True)
def encode(out: Bytes, at: int, c: int) -> int:
    """Write code point ``c`` as UTF-8, and return where it ends."""
    if c < 0x80:
        out[at] = c
        return at + 1
    if c < 0x800:
        out[at] = 0xC0 | c >> 6
        out[at + 1] = 0x80 | c & 0x3F
        return at + 2
    if c < 0x10000:
        out[at] = 0xE0 | c >> 12
        out[at + 1] = 0x80 | c >> 6 & 0x3F
        out[at + 2] = 0x80 | c & 0x3F
        return at + 3
    out[at] = 0xF0 | c >> 18
    out[at + 1] = 0x80 | c >> 12 & 0x3F
    out[at + 2] = 0x80 | c >> 6 & 0x3F
    out[at + 3] = 0x80 | c & 0x3F
    return at + 4


@kernel
def spaced_word(
    text: Bytes,
    i: int,
    end: int,
    classes: Bytes,
    lower_case: Ints,
    lowercase: bool,
    out: Bytes,
    at: int,
) -> tuple[Int, Int, Int, Bool, Int]:
    """Copy the word at ``i``, lower-cased, to ``out[at:]``.

    Returns its end in the text and in ``out``, its letters and digits, whether it has a letter, and
    its code points.
    """
    length = np.int64(0)
    letter = False
    points = np.int64(0)
    while i < end:
        c, n = decode(text, i)
        kind = classes[c]
        # letters, digits and marks belong to the word, ignored characters vanish
        if kind == LETTER:
            length += 1
            letter = True
        elif kind == DIGIT:
            length += 1
        elif kind == IGNORED:
            i += n
            points += 1
            continue
        elif kind != MARK:
            break
        # the character, lower-cased, as UTF-8
        if lowercase and c < LOWERED:
            c = np.int64(lower_case[c])
        at = encode(out, at, c)
        points += 1
        i += n
    return i, at, length, letter, points


@kernel
def emoji(text: Bytes, i: int, end: int, classes: Bytes) -> tuple[Int, Int]:
    """(end, code points) of the emoji sequence at ``i``."""
    c, n = decode(text, i)
    regional = classes[c] == REGIONAL
    i += n
    points = np.int64(1)
    if regional:
        if i < end:
            c, n = decode(text, i)
            if classes[c] == REGIONAL:
                return i + n, np.int64(2)
        return i, points
    while i < end:
        c, n = decode(text, i)
        if c == 0xFE0F or 0x1F3FB <= c <= 0x1F3FF or c == 0x20E3 or 0xE0020 <= c <= 0xE007F:
            i += n
            points += 1
        elif c == 0x200D and i + n < end:
            after, m = decode(text, i + n)
            if classes[after] != EMOJI:
                break
            i += n + m
            points += 2
        else:
            break
    return i, points


@kernel
def unspaced_unit(text: Bytes, i: int, end: int, classes: Bytes) -> tuple[Int, Int]:
    """(end, code points) of the letter at ``i`` with the marks on it."""
    c, n = decode(text, i)
    i += n
    points = np.int64(1)
    while i < end:
        c, n = decode(text, i)
        if classes[c] != MARK:
            break
        i += n
        points += 1
    return i, points
