"""Stop words, and the language whose stop words a corpus still has.

English ones are our own: function words, that is articles, pronouns, prepositions, conjunctions,
auxiliaries, and the halves that an apostrophe leaves behind (the tokenizer splits ``don't`` into
``don`` and ``t``).

Grouped by what they are, so that a reader can see why a word is in the list. Words that carry a
subject (``system``, ``company``, ``found``) are left in: a topic model sets them aside better than
a list does.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.relations import Relations
from topicstream.base.text import compose_text
from topicstream.ingestion.open.source import read_word_list
from topicstream.ingestion.tokens.characters import lower_words

_ARTICLES = (
    "a an the this that these those such same other others another each every either neither "
    "both all any some"
)
_AMOUNTS = """no none nor not only own few fewer less least more most much many several enough \
lot lots one ones two
first second next last half rather quite very too so just even also still yet almost nearly else"""
_PERSONS = """i me my mine myself we us our ours ourselves you your yours yourself yourselves he \
him his himself she her
hers herself it its itself they them their theirs themselves who whom whose which what whatever \
whichever whoever someone
somebody something anyone anybody anything everyone everybody everything nobody nothing"""
_PLACES = """about above across after against along among amongst around at before behind below \
beneath beside besides
between beyond by down during except for from in inside into like near of off on onto out outside \
over past per since than
through throughout till to toward towards under underneath until unto up upon via with within \
without apart away
back forth here there where wherever everywhere somewhere anywhere nowhere hence thence whence \
thereby therein thereof
whereby wherein herein hereby"""
_JOINTS = """and or but if because as while whereas although though unless whether when whenever \
then thus therefore
however moreover furthermore nevertheless nonetheless otherwise instead meanwhile indeed again \
once ever never always
often sometimes usually already perhaps maybe why how now soon later ago"""
_AUXILIARIES = """am is are was were be been being do does did doing done have has had having can \
could may might must
shall should will would ought need let lets get gets got getting goes go going gone went make \
makes made making become
becomes became seem seems seemed cannot"""
_LIGHT = """say says said see seen saw come comes came take takes took taken give gives gave \
given put use used uses using
know known called etc eg ie vs yes ok"""
_HALVES = """aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn re shan shouldn \
ve wasn weren wouldn
ain"""

ENGLISH: tuple[str, ...] = tuple(
    sorted(
        set(
            " ".join(
                (
                    _ARTICLES,
                    _AMOUNTS,
                    _PERSONS,
                    _PLACES,
                    _JOINTS,
                    _AUXILIARIES,
                    _LIGHT,
                    _HALVES,
                    "s t d m",
                )
            ).split()
        )
    )
)


LANGUAGES = {
    "ar": "arabic",
    "bg": "bulgarian",
    "ca": "catalan",
    "zh": "chinese",
    "cs": "czech",
    "da": "danish",
    "nl": "dutch",
    "en": "english",
    "fi": "finnish",
    "fr": "french",
    "de": "german",
    "el": "greek",
    "gu": "gujarati",
    "he": "hebrew",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "la": "latin",
    "ms": "malay",
    "no": "norwegian",
    "fa": "persian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sk": "slovak",
    "es": "spanish",
    "sv": "swedish",
    "tr": "turkish",
    "uk": "ukrainian",
    "vi": "vietnamese",
}
"""The languages with a list, by ISO 639-1 code.

All but English lie in ``stop_lists/`` with their origin and licence.
"""
LEAST_TOKENS = 100
LEAST_DIFFERENT = 5
"""Words of a corpus, and different function words of a language among them, below which nothing is
concluded: languages share some short words (a, in, no, come)."""
MUCH = 0.15
"""Share of function words among all words from which on a corpus is taken to be of their language.
They make up 35 to 50 %
of running text, and under 8 % of it once they are taken out (what one language's list finds of
another's words)."""


def language_named(name: str) -> str | None:
    """Return the full name of a language, of ``German`` or ``de``, or None if it has no list."""
    name = name.strip().lower()
    name = {"nb": "no", "nn": "no"}.get(name, name)
    return LANGUAGES.get(name) or (name if name in LANGUAGES.values() else None)


@cache
def stop_list(language: str) -> tuple[str, ...]:
    """List the stop words of a language by its full name, sorted.

    A word with an apostrophe or a hyphen is listed as the parts that the tokenizer makes of it.
    """
    if language == "english":
        return ENGLISH
    path = Path(__file__).with_name("stop_lists") / f"{language}.txt"
    return tuple(sorted(path.read_text(encoding="utf-8").split()))


def listed_words(name: str) -> tuple[str, ...]:
    """List the stop words of a language, none if it has no list."""
    return stop_list(name) if name in LANGUAGES.values() else ()


def read_stopwords(*choices: str, encoding: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Read the stop words of all choices together, and what they are called.

    Parameters
    ----------
    choices
        Each is a language (``german`` or ``de``), the path of a file (words parted by white space,
        ``#`` opens a comment line), several of these joined by ``+``, or, alone, ``none``.
    encoding
        Encoding of the files. None for UTF-8, or what the byte order mark says.

    Raises
    ------
    UsageError
        If a choice is none of these.
    InputError
        If a file cannot be read.
    """
    parts: list[str] = []
    for choice in choices:
        parts += [choice] if Path(choice).is_file() else choice.split("+")
    if "none" in parts:
        if len(parts) > 1:
            raise UsageError(
                f"--stopwords {' '.join(parts)}: none cannot be combined with other lists"
            )
        return "none", ()
    names: list[str] = []
    words: set[str] = set()
    for part in parts:
        language = None if Path(part).is_file() else language_named(part)
        words |= set(stop_list(language) if language is not None else _read_file(part, encoding))
        names.append(language or "file")
    return "+".join(dict.fromkeys(names)), tuple(sorted(words))


def _read_file(path: str, encoding: str | None) -> set[str]:
    """Read the words of a file, without comment lines."""
    try:
        lines = read_word_list(path, encoding).decode().splitlines()
    except FileNotFoundError:
        near = get_close_matches(path.lower(), LANGUAGES.values(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"--stopwords {path}: no such file, and no list for a language of that name{hint} "
            f"(available: "
            f"{', '.join(sorted(LANGUAGES.values()))}; none; or the path of a file of words)"
        ) from None
    except OSError as e:
        raise InputError(f"{path}: cannot be read as a list of stop words ({e})") from None
    lines = list(map(compose_text, lines))
    return {word for line in lines if not line.lstrip().startswith("#") for word in line.split()}


@cache
def _function_words() -> pa.Table:
    """Return the stop words of all languages: columns word and language."""
    words: list[str] = []
    languages: list[str] = []
    for language in LANGUAGES.values():
        for word in stop_list(language):
            spellings = list(dict.fromkeys((word, lower_words(word, one_sigma=True))))
            words += spellings
            languages += [language] * len(spellings)
    return pa.table({"word": words, "language": languages})


def find_missed_language(
    words: Relations, tokens: int, stopwords_from: str
) -> dict[str, Any] | None:
    """Return {language, share} of a language whose stop words were not left out.

    None where they were, or where ``stopwords_from`` is ``none``.

    Parameters
    ----------
    words
        Query engine with a table ``words`` of the columns word and count.
    tokens
        Sum of the counts.
    stopwords_from
        Languages whose stop words were left out, joined by ``+``, or ``none``.
    """
    if stopwords_from == "none" or tokens < LEAST_TOKENS:
        return None
    words.insert("function_words", _function_words())
    shares = words.stream(
        f"select language, sum(count) / {tokens} as share from words join function_words using "
        f"(word) where count > 0"
        f" group by language having count(*) >= {LEAST_DIFFERENT} order by share desc, language "
        f"limit 1"
    )
    for batch in shares:
        for row in batch.to_pylist():
            language = row["language"]
            if row["share"] >= MUCH and language not in stopwords_from.split("+"):
                return {"language": language, "share": round(row["share"], 4)}
    return None
