"""Lemmatizers and segmenters of other packages, for ``--lemmas`` and ``--segmenter``.

A lemmatizer is made by ``make(language) -> Callable[[str], str]``, word to lemma; a segmenter by
``make() -> Callable[[str], list[str]]``, text to words. Every thread makes its own. Further ones
register as entry points in the groups ``topicstream.lemmatizers`` and ``topicstream.segmenters``
(docs/internals/extending.md). Each is installed by its users: the packages and their dictionaries
are large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from typing import Any, Protocol

from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError, one_line
from topicstream.base.text import compose_text
from topicstream.ingestion.open.source import read_word_list
from topicstream.ingestion.tokens.recipe import Recipe

PACKAGES = {
    "simplemma": "simplemma",
    "spacy": "spacy",
    "jieba": "jieba",
    "sudachi": "sudachipy sudachidict_core",
    "pythainlp": "pythainlp",
    "kiwi": "kiwipiepy",
}
"""Package to install for each built-in tokenizer."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class NamesTools(Protocol):
    """Options by which a command names tools."""

    @property
    def lemmas(self) -> str | None: ...

    @property
    def segmenter(self) -> str | None: ...


def named_tools(config: NamesTools) -> tuple[str, ...]:
    """List the tools that the options of a command name."""
    return tuple(name for name in (config.lemmas, config.segmenter) if name)


def check_same_tools(recipe: Recipe, config: NamesTools) -> None:
    """Refuse options that name another tool than the recipe that they are to allow."""
    for option, given, stored in (
        ("--lemmas", config.lemmas, recipe.lemmas),
        ("--segmenter", config.segmenter, recipe.segmenter),
    ):
        if given and given != stored:
            has = f"used {one_line(stored[:80])}" if stored else "used none"
            raise UsageError(f"{option} {given}: the model's text {has}; leave the option out")


def check_tools(recipe: Recipe, tools: Collection[str]) -> None:
    """Refuse a recipe that chooses code which the command did not name.

    A recipe may come from a stranger's store or model. It may name the tools of ``PACKAGES``,
    whose languages are a closed list. A spaCy pipeline and a tool of another package run only
    where the command itself names them.

    Parameters
    ----------
    recipe
        Recipe of a store or model.
    tools
        Values of ``--lemmas`` and ``--segmenter`` of the command or the config.

    Raises
    ------
    UsageError
        For a tool that the command does not name, and for a spaCy pipeline that is no package.
    """
    tool_name, _, language = (recipe.lemmas or "").partition(":")
    if tool_name == "spacy":
        _check_pipeline_name(language)
    if recipe.lemmas and tool_name != "simplemma":
        _check_named("--lemmas", recipe.lemmas, tools)
    if recipe.segmenter and recipe.segmenter not in plugins.own_names(plugins.SEGMENTERS):
        _check_named("--segmenter", recipe.segmenter, tools)


def _check_named(option: str, value: str, tools: Collection[str]) -> None:
    """Refuse a tool of a recipe that is not among the tools of the command."""
    if value not in tools:
        value = one_line(value[:80])
        raise UsageError(
            f"{option} {value}: the store or model names this tool, but runs no code that the "
            f"command does not name, too; if you trust it, give {option} {value} (to infer, ingest "
            f"and show --find; under [ingest] to retrain), or ingest the documents and name the "
            f"store"
        )


def _check_pipeline_name(name: str) -> None:
    """Refuse a spaCy pipeline that is a path: spaCy would load whatever lies there."""
    if not _PACKAGE.fullmatch(name):
        raise UsageError(
            f"--lemmas spacy:{one_line(name[:80])}: is not the name of a package; give an "
            f"installed pipeline, such as spacy:de_core_news_sm"
        )


def tool(group: str, name: str) -> Callable[..., Callable[[str], Any]]:
    """Return the maker of a lemmatizer or segmenter.

    Raises
    ------
    UsageError
        If no plug-in has the name.
    """
    maker: Callable[..., Callable[[str], Any]] = plugins.find(
        group, name, "--lemmas" if group == plugins.LEMMATIZERS else "--segmenter"
    )
    return maker


def versions_of(names: list[str]) -> tuple[str, ...]:
    """List the packages behind some tools as ``name version``, for the store's settings."""
    versions = []
    for name in names:
        package = PACKAGES.get(name, name).split()[0]
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # an entry point of a package with another name
            versions.append(name)
    return tuple(versions)


def replacements(
    variants: str | PathLike[str] | Mapping[str, str], encoding: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Read spelling variants, sorted.

    They are a mapping, or a file of two columns parted by a tab or a comma.

    Raises
    ------
    InputError
        At a line without two words.
    """
    if isinstance(variants, Mapping):
        pairs = {compose_text(old): compose_text(new) for old, new in variants.items()}
        return tuple(sorted(pairs.items()))
    pairs = {}
    try:
        lines = read_word_list(variants, encoding).decode().splitlines()
    except OSError as e:
        raise InputError(f"--replace {variants}: cannot be read ({e})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t" if "\t" in line else ",")]
        if len(fields) != 2 or not all(fields) or any(" " in field for field in fields):
            raise InputError(
                f"{variants}:{number}: expected two words, a word and its replacement, separated "
                f"by a tab or a comma"
            )
        old, new = (compose_text(field).lower() for field in fields)
        pairs[old] = new
    return tuple(sorted(pairs.items()))


def _imported(name: str, module: str) -> Any:
    """Import a module of a tool, and say how to install a missing one."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{name} is not installed: pip install {PACKAGES[name]}") from None


def simplemma(language: str) -> Callable[[str], str]:
    """Make the lemmatizer of simplemma: dictionaries and rules of some fifty languages."""
    if not _LANGUAGE.fullmatch(language):
        raise UsageError(
            f"--lemmas simplemma:{one_line(language[:80])}: is not a language, such as de"
        )
    lemmatize = _imported("simplemma", "simplemma").lemmatize
    try:
        lemmatize("word", lang=language)
    except (ValueError, KeyError) as e:
        raise UsageError(f"--lemmas simplemma:{language}: {e}") from None
    return lambda word: lemmatize(word, lang=language).lower()


def spacy(pipeline: str) -> Callable[[str], str]:
    """Make the lemmatizer of a spaCy pipeline, which sees each word by itself."""
    _check_pipeline_name(pipeline)
    library = _imported("spacy", "spacy")
    try:
        version(pipeline)  # spaCy itself would go on to a folder of that name
    except PackageNotFoundError:
        raise InputError(
            f"--lemmas spacy:{pipeline}: not installed; python -m spacy download {pipeline}"
        ) from None
    try:
        parse = library.load(pipeline, exclude=["parser", "ner"])
    except Exception as e:  # of another's code: anything
        raise InputError(
            f"--lemmas spacy:{pipeline}: cannot be loaded as a spaCy pipeline "
            f"({type(e).__name__}: {one_line(e)[:120]})"
        ) from None
    return lambda word: "".join(token.lemma_ for token in parse(word)).lower()


def jieba() -> Callable[[str], list[str]]:
    """Make the segmenter of jieba, for Chinese."""
    library = _imported("jieba", "jieba")
    library.setLogLevel("WARNING")
    return library.lcut  # type: ignore[no-any-return]


def sudachi() -> Callable[[str], list[str]]:
    """Make the segmenter of SudachiPy, for Japanese, with words of middle length."""
    library = _imported("sudachi", "sudachipy")
    tokenizer = library.Dictionary().create()
    return lambda text: [m.surface() for m in tokenizer.tokenize(text, library.SplitMode.B)]


def pythainlp() -> Callable[[str], list[str]]:
    """Make the segmenter of PyThaiNLP, for Thai."""
    return _imported("pythainlp", "pythainlp.tokenize").word_tokenize  # type: ignore[no-any-return]


def kiwi() -> Callable[[str], list[str]]:
    """Make the segmenter of Kiwi, for Korean morphemes."""
    library = _imported("kiwi", "kiwipiepy")
    analyser = library.Kiwi()
    return lambda text: [token.form for token in analyser.tokenize(text)]
