"""Choice of the TEI elements that are text: speech and prose, not what frames them.

The names are those of the TEI guidelines, compared in lower case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_DATA = "teiheader standoff facsimile sourcedoc xenodata script style template noscript"
_FRAME = """speaker stage set performance view camera tech sound head trailer byline titlepage
doctitle titlepart docauthor docdate docimprint castlist note fw index figdesc desc listbibl idno"""
_DIVISIONS = """titlepage title_page imprint contents toc index bibliography notes cast castlist
dramatis_personae dramatispersonae"""

NEVER_TEXT = frozenset(_DATA.split())
"""Data about a text, and what a browser does not show."""
FRAME = frozenset(_FRAME.split())
"""Labels, directions, titles, apparatus and page numbers: no speech and no prose."""
FRAMING_DIVISIONS = frozenset(_DIVISIONS.split())
"""Types of divisions that are no speech and no prose."""
REJECTED_READINGS = {"choice": {"orig", "sic", "abbr"}, "app": {"rdg", "rdggrp", "witdetail"}}
"""Elements beside the reading text in the element that offers a choice."""
DELETED = frozenset(("del", "surplus", "rt", "rp"))
"""Deleted or repeated by the scribe, and pronunciations above the letters."""
EVERYTHING = "all"
OTHER = "other elements"


def local_name(element: Any) -> str:
    """Return the local name of an element in lower case, "" for a comment."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


@dataclass
class Elements:
    """Decides which elements of a document are text, and counts the words of the others.

    Attributes
    ----------
    left_out
        Elements that are not text, with all that they hold.
    only
        Elements of which one must hold the text; empty: any.
    divisions
        Types of divisions that are not text.
    words_left_out
        Words of elements that were left out, by name.
    """

    left_out: frozenset[str] = FRAME
    only: frozenset[str] = frozenset()
    divisions: frozenset[str] = FRAMING_DIVISIONS
    words_left_out: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of_option(cls, chosen: str | None) -> Elements:
        """Read ``--tei-elements``, whose names are well formed."""
        plain = chosen.lower().split(",") if chosen else []
        added = {name.removeprefix("+") for name in plain if not name.startswith("-")}
        removed = {name[1:] for name in plain if name.startswith("-")}
        only = {name for name in plain if name[0] not in "+-"} - {EVERYTHING}
        if EVERYTHING in added:
            return cls(frozenset(removed), frozenset(only), frozenset())
        return cls((FRAME - added) | removed, frozenset(only))

    def holds_text(self, element: Any) -> bool:
        """Tell whether an element may hold text, and count the words of one that may not."""
        name = local_name(element)
        if name in NEVER_TEXT or name in DELETED or _is_rejected_reading(element, name):
            return False
        written_name = element.tag.rpartition("}")[2]
        if name in self.left_out:
            self.words_left_out[written_name] += _count_words(element)
            return False
        if name == "div" and _division_type(element) in self.divisions:
            self.words_left_out[f"{written_name} {element.get('type')}"] += _count_words(element)
            return False
        return True

    def count_unchosen(self, text: str | None) -> None:
        """Count the words of a text that no chosen element holds."""
        self.words_left_out[OTHER] += len((text or "").split())


def _division_type(element: Any) -> str:
    """Return the type of a division in lower case."""
    return str(element.get("type", "")).lower()


def _count_words(element: Any) -> int:
    """Count the words of an element's text."""
    return sum(len(text.split()) for text in element.xpath(".//text()"))


def _is_rejected_reading(element: Any, name: str) -> bool:
    """Tell whether another reading than this one is the text."""
    parent = element.getparent()
    outer = "" if parent is None else local_name(parent)
    if name not in REJECTED_READINGS.get(outer, ()):
        return False
    accepted = {"choice": ("reg", "corr", "expan"), "app": ("lem",)}[outer]
    if any(local_name(other) in accepted for other in parent):
        return True
    return element.getprevious() is not None  # the first of readings where none is preferred
