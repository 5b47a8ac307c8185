"""Tests outside of an add-on's folder that use it: they are skipped where it was deleted.

``USES`` says by which words of its source, its fixtures and its parameters a test is known.  With
all add-ons there nothing is looked at.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

USES = {
    "authors": r"\batm\b",
    "cells": r"h5ad|h5mu|tenx|10x",
    "classifier": r"classifier|maxent|hybrid|naive-bayes",
    "cloud": r"s3:|mem:|endpoint",
    "cluster": r"scheduler|dask|distributed|local:\d",
    "clusters": r"mixture|\bgmm\b|patches|kmeans|images",
    "covariates": r"effects",
    "exchange": r"\bexport|import_model|\"import\"|gensim|to_sklearn|mallet",
    "labels": r"\bllda\b|label.field",
    "links": r"\brtm\b|links=True",
    "moments": r"anchors|\bfdm\b",
    "report": r"\breport\b",
    "sklearn": r"sklearn",
    "sweep": r"topicstream\.sweep|\"sweep\"|\bsweep -",
    "views": r"\.compare\(|\"compare|\.drift\(|--drift|--label|find=|--find|similar|tree=|reduce"
    r"|--table|table=|correlations|intrusion",
    "xml": r"\btei\b|\.xml|html|markup",
}
ADDONS = "topicstream.addons"


def find_missing() -> set[str]:
    """Find the add-ons that are not there."""
    if find_spec(ADDONS) is None:
        return set(USES)
    return {name for name in USES if find_spec(f"{ADDONS}.{name}") is None}


def skip_users_of(missing: set[str], items: list[Any]) -> None:
    """Skip the tests that use an add-on which is not there."""
    words = re.compile("|".join(USES[name] for name in sorted(missing)))
    for item in items:
        sources = [item.name, _source_of(item.function, words)]
        if hasattr(item, "callspec"):
            sources.append(repr(item.callspec.params))
        for fixtures in item._fixtureinfo.name2fixturedefs.values():
            sources += [_source_of(fixture.func, words) for fixture in fixtures]
        text = "\n".join(sources)
        used = sorted(name for name in missing if re.search(USES[name], text))
        if used:
            item.add_marker(pytest.mark.skip(reason=f"without add-on {', '.join(used)}"))


def _source_of(function: Any, words: re.Pattern[str]) -> str:
    """Read the source of a function; nothing where its file has none of the words."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    return _sources(code.co_filename, words).get(code.co_firstlineno, "")


@cache
def _sources(file: str, words: re.Pattern[str]) -> dict[int, str]:
    """Read the source of every function of a file, by its first line (that of its decorators).

    ``inspect.getsource`` splits the file into tokens again for each function, which took most of
    the time of a collection.
    """
    path = Path(file)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not words.search(text):
        return {}
    lines = text.splitlines()
    sources = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            sources[first] = "\n".join(lines[first - 1 : node.end_lineno])
    return sources
