"""Lemmatizers and segmenters of other packages: what ``--lemmas`` and ``--segmenter`` name.

A lemmatizer is made by ``make(language) -> Callable[[str], str]``, word to lemma; a segmenter by
``make() -> Callable[[str],
list[str]]``, text to words.  Every thread makes its own.  Further ones register as entry points in
                              the groups
``topicstream.lemmatizers`` and ``topicstream.segmenters`` (docs/extending.md).  Each is installed
by its users: the packages and
their dictionaries are large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any

from topicstream import plugins
from topicstream.errors import InputError, UsageError

PACKAGES = {
    "simplemma": "simplemma",
    "spacy": "spacy",
    "jieba": "jieba",
    "sudachi": "sudachipy sudachidict_core",
    "pythainlp": "pythainlp",
    "kiwi": "kiwipiepy",
}
"""What is installed for each of ours."""


def tool(group: str, name: str) -> Callable[..., Callable[[str], Any]]:
    """The maker of a lemmatizer or segmenter; UsageError where there is none."""
    maker: Callable[..., Callable[[str], Any]] = plugins.find(
        group, name, "--lemmas" if group == plugins.LEMMATIZERS else "--segmenter"
    )
    return maker


def versions_of(names: list[str]) -> tuple[str, ...]:
    """``name version`` of the packages behind some tools, for the store's settings."""
    versions = []
    for name in names:
        package = PACKAGES.get(name, name).split()[0]
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # an entry point of a package with another name
            versions.append(name)
    return tuple(versions)


def replacements(given: str | PathLike[str] | Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Spelling variants, sorted: of a mapping, or of a file of two columns parted by a tab or a
    comma.

    Raises
    ------
    InputError
        At a line without two words.
    """
    if isinstance(given, Mapping):
        return tuple(sorted(given.items()))
    pairs = {}
    try:
        lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"--replace {given}: cannot be read ({e})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t" if "\t" in line else ",")]
        if len(fields) != 2 or not all(fields) or any(" " in field for field in fields):
            raise InputError(
                f"{given}:{number}: expected two words, a word and its replacement, separated "
                f"by a tab or a comma"
            )
        pairs[fields[0].lower()] = fields[1].lower()
    return tuple(sorted(pairs.items()))


def _imported(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{name} is not installed: pip install {PACKAGES[name]}") from None


def simplemma(language: str) -> Callable[[str], str]:
    """simplemma: dictionaries and rules of some fifty languages (``simplemma:de``)."""
    lemmatize = _imported("simplemma", "simplemma").lemmatize
    try:
        lemmatize("word", lang=language)
    except (ValueError, KeyError) as e:
        raise UsageError(f"--lemmas simplemma:{language}: {e}") from None
    return lambda word: lemmatize(word, lang=language).lower()


def spacy(pipeline: str) -> Callable[[str], str]:
    """spaCy's lemma of a word by itself (``spacy:de_core_news_sm``)."""
    library = _imported("spacy", "spacy")
    try:
        parse = library.load(pipeline, exclude=["parser", "ner"])
    except OSError:
        raise InputError(
            f"--lemmas spacy:{pipeline}: not installed; python -m spacy download {pipeline}"
        ) from None
    return lambda word: "".join(token.lemma_ for token in parse(word)).lower()


def jieba() -> Callable[[str], list[str]]:
    """jieba: Chinese."""
    library = _imported("jieba", "jieba")
    library.setLogLevel("WARNING")
    return library.lcut  # type: ignore[no-any-return]


def sudachi() -> Callable[[str], list[str]]:
    """SudachiPy: Japanese, words of middle length."""
    library = _imported("sudachi", "sudachipy")
    tokenizer = library.Dictionary().create()
    return lambda text: [m.surface() for m in tokenizer.tokenize(text, library.SplitMode.B)]


def pythainlp() -> Callable[[str], list[str]]:
    """PyThaiNLP: Thai."""
    return _imported("pythainlp", "pythainlp.tokenize").word_tokenize  # type: ignore[no-any-return]


def kiwi() -> Callable[[str], list[str]]:
    """Kiwi: Korean morphemes."""
    library = _imported("kiwi", "kiwipiepy")
    analyser = library.Kiwi()
    return lambda text: [token.form for token in analyser.tokenize(text)]
