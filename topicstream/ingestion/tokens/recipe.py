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


def as_pattern(pattern: str, what: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises UsageError that begins with ``what`` where it is none, or one of groups without end.
    """
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as e:
        raise UsageError(f"{what}: {e}") from None


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
    digits. Apostrophes,
    hyphens and underscores part words: ``dog's`` and ``state-owned`` count for ``dog``, ``state``
    and ``owned`` instead of for words of their own, and the one-letter rest falls to
    ``min_length``; phrases can join again what belongs
    together. Soft hyphens vanish; zero-width joiners inside a word stay.

    normalize   ``nfc``: composed letters; ``nfkc``: besides, ligatures and full-width letters as
                the letters that they stand for (``tokens.normal``).  Either takes the Greek sigma
                at the end of a word for any sigma when words are lower-cased.  ``none``: text as
                it is written.  A recipe of a store or model that does not say: ``none``
    final_sigma  words that are taken so end in the sigma that Greek writes at the end.  Off, as in
                stores and models that do not say: in the other one
    lowercase   simple lower-casing, character by character (no locale)
    min_length  fewest letters and digits of a word, marks not counted
    numbers     keep words without any letter. Off: bare numbers say little about a subject and
                make up a large part of
                the distinct words, while ``p53``, ``h2o`` and ``covid19`` have a letter and stay
    pattern     a regular expression of the user's own that finds the words (its group, when it has
                one); then
                ``min_length``, ``numbers``, ``keep`` and ``unspaced`` are not looked at.
                ``SCIKIT_LEARN_PATTERN`` is
                recognised and runs at full speed, any other runs in Python's ``re``.  (The only
                words counted otherwise than
                by scikit-learn are those with the dotted capital I of Turkish: Python's ``lower``
                makes two characters of it, of which the pattern takes the second for no letter)
    keep        ``("emoji",)`` makes every emoji (a sequence with ZWJ, skin tone or variation
                selector: one) a word
    stopwords   words left out, compared after lower-casing and before stemming; ``stopwords_from``
                says where from
    ngrams      1 to 3: also count sequences of up to that many words, joined with ``_``. They do
                not reach across a stop
                word or a word left out as too short or a number; punctuation does not part them.
                (With a pattern, only
                stop words part them.)
    phrases     learned pairs ``"a b"`` that become the word ``a_b`` (from the left, each word used
                once), before n-grams;
                ``phrase_threshold`` is the normalised PMI they reached
    drop        ``tags``, ``urls``, ``mentions``: taken out of the text first
    entities    HTML entities (``&amp;``) are resolved first
    segmenter   a tool that parts words of scripts without spaces first (``jieba``;
                ingestion/tokens/tools.py)
    replace     pairs (word, replacement): spelling variants, compared after lower-casing, before
                lemmas and stems
    lemmas      a tool and its language, ``simplemma:de``: every word becomes its lemma, before it
                is stemmed
    tools       names and versions of the packages behind ``lemmas``, ``segmenter`` and ``stem``
                when the store was made
    stem        a language of the snowball stemmers (needs the extra ``stem``), applied before
                phrases and n-grams
    tokenized   the text is tokenised already: words are what stands between white space (or NUL);
                only ``lowercase``,
                stop words, phrases, n-grams and stem apply
    fold_accents  a language whose accents are left out (``tokens.accents``): before words are cut,
                or, where lemmas or stems are counted, of these
    join_hyphens, joined_words  words broken at line ends are joined where they are among these
                (``tokens.hyphens``)
    unspaced    scripts written without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar and their kin):
                ``bigrams`` counts
                overlapping pairs of characters (each with its marks; a character alone stands for
                itself), which needs no dictionary and gives words that recur; ``runs`` takes the
                run up to the next punctuation as one word,
                which hardly ever recurs. ``min_length`` does not apply to the pairs.
                                           ``Counted.unspaced`` reports the
                share, so that a caller can point to ``tokenized`` where it matters
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
            what = f"token pattern {self.pattern[:80]!r}"
            groups = as_pattern(self.pattern, what).groups
            if groups > 1:
                raise UsageError(
                    f"{what}: has {groups} groups; at most one group may mark the word"
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

        Raises StoreError for a field this version does not know (its meaning would be lost).
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
        if not self.one_sigma:  # then it says nothing
            values["final_sigma"] = False
        for name, absent in _NEWER.items():
            if values[name] == absent:
                del values[name]
        text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
