"""Text for people: results by templates whose missing parts fall away, curves in one line, and what
a payload is called.

A template holds the lines of a record. ``{heldout.perplexity:.1f}`` is a value by its path,
formatted as by ``str.format``, and ``[, {skipped:,} left out]`` a part that is left out where one
of its values is missing, empty or zero:

>>> render("{model}: {topics:,} topics[, {dropped:,} dropped][, share {share:.1p} %]", {"model":
"m", "topics": 1200, "share": 0.25}) ['m: 1,200 topics, share 25.0 %']

Formats beside Python's: ``.1p`` shows a share in percent, a blank or ``; `` joins a list, ``?``
shows nothing (a condition), ``size`` is an amount of memory, and a count before a word
(``{n:document}``) becomes "1 document" or "2 documents". A missing value outside of brackets is a
dash. A line without anything in it is left out. Text of others is escaped for a terminal.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

from topicstream.base.errors import terminal_safe
from topicstream.base.machine import format_bytes

BARS = "▁▂▃▄▅▆▇█"


class _Missing(Exception):
    """A part of a template whose value is not there."""


class _Fields(Formatter):
    """Looks up paths of a record; ``optional``: refuses values that are missing, empty or zero."""

    def __init__(self, optional: bool) -> None:
        self._optional = optional

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str]:
        value: Any = kwargs
        for name in field_name.split("."):
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if self._optional and not value:
            raise _Missing
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return format("-", re.sub(r"^(?=\d)", ">", re.sub(r"[,.].*|[a-z ]+$", "", format_spec)))
        if format_spec == "?":
            return ""
        if isinstance(value, (list, tuple)):
            return (format_spec or ", ").join(map(escaped, value))
        if isinstance(value, str):
            return format(escaped(value), format_spec)
        if format_spec.endswith("size"):
            return format(format_bytes(value), format_spec[:-4])
        if format_spec.endswith("p"):
            return format(100 * value, f"{format_spec[:-1]}f")
        if format_spec.isalpha() and len(format_spec) > 1:
            return counted(value, format_spec)
        return format(value, format_spec)


def counted(n: object, noun: str) -> str:
    """``1 document`` or ``2 documents``, ``1 pass`` or ``2 passes``."""
    return f"{n:,} {noun}{('es' if noun.endswith('s') else 's') * (n != 1)}"


def escaped(value: object) -> str:
    """Text of others in one line, for a terminal."""
    return terminal_safe(str(value).replace("\n", " "))


def _parts(pieces: Iterator[str], record: Mapping[str, object], optional: bool) -> str:
    """The template up to the bracket that ends this part; nothing of an optional one with a missing
    value.
    """
    fields = _Fields(optional)
    out = ""
    complete = True
    for piece in pieces:
        if piece == "]" and optional:
            break
        if piece == "[":
            out += _parts(pieces, record, True)
            continue
        try:
            out += fields.vformat(piece, (), record)
        except _Missing:
            complete = False
    return out if complete else ""


def render(template: str, record: Mapping[str, object]) -> list[str]:
    """The lines of a template with the values of a record."""
    text = _parts(iter(re.split(r"([\[\]])", template)), record, False)
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def each(template: str, records: Iterable[Mapping[str, object]]) -> list[str]:
    """The lines of several records."""
    return [line for record in records for line in render(template, record)]


def wrapped(head: str, text: str, width: int | None) -> list[str]:
    """``text`` behind ``head``, in lines of ``width`` columns below each other (None: one line)."""
    if width is None:
        return [head + text]
    return textwrap.wrap(
        text,
        max(width, len(head) + 20),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    ) or [head]


def shortened(text: object, length: int) -> str:
    """Text in at most so many characters, on one line; not escaped."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Values as bars from the least to the greatest, thinned to ``width``; a blank for what is not
    finite.
    """
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    finite = [v for v in values if math.isfinite(v)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((v - low) * scale)] if math.isfinite(v) else " " for v in values)


def compose_text(text: str) -> str:
    """Compose the letters of a string (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def noun_of(width: int | None) -> str:
    """``documents``, or ``vectors`` where there is a width."""
    return "vectors" if width else "documents"


def payload_of(width: int | None) -> str:
    """``documents``, or ``vectors of 63 numbers``."""
    return f"{noun_of(width)} of {width} numbers" if width else noun_of(width)
