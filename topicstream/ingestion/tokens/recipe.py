"""All that decides how text becomes words, in one value.

It goes into the corpus and into the model.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Literal

from msgspec import Meta

from topicstream.base.errors import InputError, UsageError
from topicstream.base.records import Json, Record, decode_record, plain
from topicstream.ingestion.tokens.stopwords import ENGLISH

SCIKIT_LEARN_PATTERN = r"(?u)\b\w\w+\b"
"""scikit-learn's default ``token_pattern``; as ``Recipe.pattern`` it takes the fast path."""


def as_pattern(pattern: str, label: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises
    ------
    UsageError
        With ``label`` in front, if it cannot be compiled.
    """
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise UsageError(f"{label}: {e}") from None


_NEWER: dict[str, Json] = {
    "fold_accents": None,
    "join_hyphens": False,
    "joined_words": [],
    "final_sigma": False,
}
"""Fields without a say in the hash of a recipe that does not use them."""


class Recipe(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    r"""Rules by which text becomes words.

    By default a word is a maximal run of letters of any script, the combining marks on them, and
    digits. Apostrophes, hyphens and underscores part words: ``dog's`` and ``state-owned`` count for
    ``dog``, ``state`` and ``owned`` instead of for words of their own, and the one-letter rest
    falls to ``min_length``; phrases can join again what belongs together. Soft hyphens vanish;
    zero-width joiners inside a word stay.

    Attributes
    ----------
    normalize
        ``nfc`` composes letters. ``nfkc`` also replaces ligatures and full-width letters by the
        letters that they stand for (``tokens.normal``). Either takes the Greek sigma at the end of
        a word for any sigma when words are lower-cased. ``none`` leaves the text as it is written,
        as does a recipe of a store or model without the field.
    final_sigma
        Write the last sigma of such words as Greek writes it at the end. Otherwise, as in stores
        and models without the field, it is written as inside a word.
    lowercase
        Lower-case words character by character, without a locale.
    min_length
        Fewest letters and digits of a word, marks not counted.
    numbers
        Keep words without any letter. Bare numbers say little about a subject and make up a large
        part of the distinct words; ``p53``, ``h2o`` and ``covid19`` have a letter and always stay.
    pattern
        Regular expression of the user's own that finds the words, or its group finds them if it has
        one. ``min_length``, ``numbers``, ``keep`` and ``unspaced`` have no effect then.
        ``SCIKIT_LEARN_PATTERN`` runs at full speed, any other pattern in Python's ``re``. (Only
        words with the dotted capital I of Turkish are counted otherwise than by scikit-learn:
        Python's ``lower`` makes two characters of it, of which the second is no letter to the
        pattern.)
    keep
        ``("emoji",)`` makes every emoji a word, and a sequence with ZWJ, skin tone or variation
        selector one word.
    stopwords
        Words left out, compared after lower-casing and before stemming.
    stopwords_from
        Names of the languages or files of the stop words.
    ngrams
        Longest sequence of words that is counted, 1 to 3, joined with ``_``. Sequences do not reach
        across a stop word, or a word left out as too short or a number; punctuation does not part
        them. (With a pattern, only stop words part them.)
    phrases
        Learned pairs ``"a b"`` that become the word ``a_b``, from the left, each word used once,
        before n-grams.
    phrase_threshold
        Least normalised PMI of the phrases.
    drop
        ``tags``, ``urls`` and ``mentions`` that are taken out of the text first.
    entities
        Resolve HTML entities (``&amp;``) first.
    segmenter
        Tool that parts words of scripts without spaces first, such as ``jieba`` (``tokens.tools``).
    replace
        Pairs of a word and its replacement, for spelling variants, compared after lower-casing and
        before lemmas and stems.
    lemmas
        Tool and language, as ``simplemma:de``, by which every word becomes its lemma before it is
        stemmed.
    tools
        Names and versions of the packages behind ``lemmas``, ``segmenter`` and ``stem`` when the
        store was made.
    stem
        Language of the snowball stemmers (of the extra ``stem``), applied before phrases and
        n-grams.
    tokenized
        Take text as tokenised already: words stand between white space or NUL. Only ``lowercase``,
        stop words, phrases, n-grams and stem apply.
    fold_accents
        Language whose accents are left out (``tokens.accents``), before words are cut or, where
        lemmas or stems are counted, of these.
    join_hyphens
        Join words broken at line ends that are among ``joined_words`` (``tokens.hyphens``).
    joined_words
        Words that are joined again.
    unspaced
        Treatment of scripts written without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar and their
        kin). ``bigrams`` counts overlapping pairs of characters, each with its marks, and a
        character alone for itself: words that recur, without a dictionary. ``runs`` takes the run
        up to the next punctuation as one word, which hardly ever recurs. ``min_length`` does not
        apply to the pairs. ``Counted.unspaced`` reports the share of such text, so that a caller
        can point to ``tokenized``.
    """

    normalize: Literal["none", "nfc", "nfkc"] = "nfkc"
    lowercase: bool = True
    min_length: Annotated[int, Meta(ge=1, lt=1 << 31)] = 2
    numbers: bool = False
    pattern: str | None = None
    keep: tuple[Literal["emoji"], ...] = ()
    stopwords: tuple[str, ...] = ENGLISH
    stopwords_from: str = "english"
    ngrams: Annotated[int, Meta(ge=1, le=3)] = 1
    phrases: tuple[str, ...] = ()
    phrase_threshold: float | None = None
    stem: str | None = None
    tokenized: bool = False
    unspaced: Literal["bigrams", "runs"] = "bigrams"
    drop: tuple[Literal["tags", "urls", "mentions"], ...] = ()
    entities: bool = False
    segmenter: str | None = None
    replace: tuple[tuple[str, str], ...] = ()
    lemmas: str | None = None
    tools: tuple[str, ...] = ()
    fold_accents: str | None = None
    join_hyphens: bool = False
    joined_words: tuple[str, ...] = ()
    final_sigma: bool = True

    def __post_init__(self) -> None:
        if self.tokenized and self.pattern is not None:
            raise UsageError("--tokenized and --token-pattern exclude each other; give one of them")
        if self.tokenized and self.join_hyphens:
            raise UsageError(
                "--tokenized and --join-hyphens exclude each other: words stand whole already"
            )
        if any(len(phrase.split(" ")) != 2 for phrase in self.phrases):
            raise InputError("phrases: each must be two words separated by one space")
        if self.pattern is not None:
            label = f"token pattern {self.pattern[:80]!r}"
            groups = as_pattern(self.pattern, label).groups
            if groups > 1:
                raise UsageError(
                    f"{label}: has {groups} groups; at most one group may mark the word"
                )

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values, of which ``from_json`` makes an equal recipe."""
        values: dict[str, Json] = plain(self)
        return values

    @property
    def one_sigma(self) -> bool:
        """Tell whether the sigma at the end of a word is any sigma."""
        return self.lowercase and self.normalize != "none"

    @classmethod
    def from_json(cls, value: object) -> Recipe:
        """Make the recipe of ``to_json``.

        Raises
        ------
        StoreError
            For a field that this version does not know: its meaning would be lost.
        """
        if isinstance(value, dict):
            value = {"normalize": "none", "final_sigma": False, **value}
        return decode_record(value, cls, "tokenizer recipe")

    def hash(self) -> str:
        """Compute the sha256 (hex) of the canonical JSON.

        It is equal for recipes that give equal words (versions of tools aside).
        """
        values = {name: value for name, value in self.to_json().items() if name != "tools"}
        if self.normalize == "none":  # as it was before recipes had the field
            del values["normalize"]
        if not self.one_sigma:  # then the field has no effect
            values["final_sigma"] = False
        for name, absent in _NEWER.items():
            if values[name] == absent:
                del values[name]
        text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
