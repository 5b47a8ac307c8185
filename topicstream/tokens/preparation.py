"""Text before it is cut into words: addresses and mentions taken out, HTML entities resolved, words of unspaced scripts parted."""

from __future__ import annotations

import html
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from topicstream.tokens.recipe import Recipe

DROPPED = {
    "urls": r"(?i)(?:https?://|www\.)[^\s<>\"']+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s<>\"']*",
    "mentions": r"(^|[^\w@])@\w[\w.]*",
}
"""Patterns (RE2) of what ``--drop-urls`` and ``--drop-mentions`` take out."""


def is_prepared(recipe: Recipe) -> bool:
    """Whether text is changed before it is cut into words."""
    return bool(recipe.drop or recipe.entities or recipe.segmenter)


def prepared(documents: pa.Array, recipe: Recipe, segment: Callable[[str], list[str]] | None) -> pa.Array:
    """The text of documents, large_string[D], as the recipe wants it.

    Parameters
    ----------
    segment
        Text to words, of this thread; None: none.
    """
    if recipe.entities:
        has_some = pc.match_substring(documents, "&").to_numpy(zero_copy_only=False)
        if has_some.any():
            resolved = [html.unescape(t) for t in documents.filter(pa.array(has_some)).to_pylist()]
            documents = pc.replace_with_mask(documents, pa.array(has_some), pa.array(resolved, pa.large_string()))
    for kind in recipe.drop:
        documents = pc.replace_substring_regex(documents, DROPPED[kind], r"\1 " if kind == "mentions" else " ")
    if segment is not None:
        documents = pa.array([" ".join(segment(t)) for t in documents.to_pylist()], pa.large_string())
    return documents
