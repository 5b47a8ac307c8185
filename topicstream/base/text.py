"""Text for people: templates whose missing parts are left out, and curves in one line.

A template holds the lines of a record. ``{heldout.perplexity:.1f}`` is a value by its path,
formatted as by ``str.format``, and ``[, {skipped:,} left out]`` is a part that is left out if one
of its values is missing, empty or zero.

Formats beside Python's: ``.1p`` shows a share in percent, a blank or ``; `` joins a list, ``?``
shows nothing (a condition), ``size`` is an amount of memory, and a count before a word
(``{n:document}``) becomes "1 document" or "2 documents". A missing value outside of brackets is a
dash. An empty line is left out. Text of others is escaped for a terminal.
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
    """A value of an optional part is missing, empty or zero."""


class _Fields(Formatter):
    """A formatter that finds values by their paths in a record.

    Parameters
    ----------
    optional
        Raise ``_Missing`` for a value that is missing, empty or zero.
    """

    def __init__(self, optional: bool) -> None:
        self._optional = optional

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str]:
        """Find a value by its path."""
        value: Any = kwargs
        for name in field_name.split("."):
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if self._optional and not value:
            raise _Missing
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value, with a dash in the width of a missing one."""
        if value is None:
            # of a number's format only its width is left, with the dash at its right end
            width = re.sub(r"[,.].*|[a-z ]+$", "", format_spec)
            return format("-", re.sub(r"^(?=\d)", ">", width))
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
    """Format a count with its noun: ``1 document``, ``2 documents``, ``2 passes``."""
    return f"{n:,} {noun}{('es' if noun.endswith('s') else 's') * (n != 1)}"


def escaped(value: object) -> str:
    """Put text of others on one line, escaped for a terminal."""
    return terminal_safe(str(value).replace("\n", " "))


def _render_part(pieces: Iterator[str], record: Mapping[str, object], optional: bool) -> str:
    """Render a template up to the bracket that ends this part.

    An optional part with a missing value is empty.
    """
    fields = _Fields(optional)
    out = ""
    complete = True
    for piece in pieces:
        if piece == "]" and optional:
            break
        if piece == "[":
            out += _render_part(pieces, record, True)
            continue
        try:
            out += fields.vformat(piece, (), record)
        except _Missing:
            complete = False
    return out if complete else ""


def render(template: str, record: Mapping[str, object]) -> list[str]:
    """Render a template with the values of a record, as lines.

    Examples
    --------
    >>> from topicstream.base.text import render
    >>> template = "{model}: {topics:,} topics[, {dropped:,} dropped][, share {share:.1p} %]"
    >>> render(template, {"model": "m", "topics": 1200, "share": 0.25})
    ['m: 1,200 topics, share 25.0 %']
    """
    text = _render_part(iter(re.split(r"([\[\]])", template)), record, False)
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def render_each(template: str, records: Iterable[Mapping[str, object]]) -> list[str]:
    """Render a template with each of several records."""
    lines = []
    for record in records:
        lines += render(template, record)
    return lines


def wrapped(head: str, text: str, width: int | None) -> list[str]:
    """Wrap ``text`` to the right of ``head``, in lines of ``width`` columns (None: one line)."""
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
    """Shorten text to one line of at most ``length`` characters, not escaped."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Draw values as bars between the least and the greatest, thinned to ``width``.

    A value that is not finite is a blank.
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
    """Return ``vectors`` for dense rows, which have a width, and else ``documents``."""
    return "vectors" if width else "documents"


def payload_of(width: int | None) -> str:
    """Return ``documents``, or ``vectors of 63 numbers`` for dense rows."""
    return f"{noun_of(width)} of {width} numbers" if width else noun_of(width)
