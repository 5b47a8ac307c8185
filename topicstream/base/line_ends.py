"""Line ends of users' texts."""

from __future__ import annotations

import re

_RETURN_ALONE = re.compile(rb"\r[^\n]")
_RETURN_THAT_ENDS = re.compile(rb"\r(?!\n)")


def has_returns_alone(text: bytes) -> bool:
    """Tell whether the lines of a text end with a carriage return alone, as on an old Mac."""
    return b"\n" not in text and b"\0" not in text and _RETURN_ALONE.search(text) is not None


def with_line_feeds(text: bytes) -> bytes:
    """Replace carriage returns that end lines alone by line feeds."""
    return text.replace(b"\r", b"\n") if has_returns_alone(text) else text


def end_lines_alike(text: bytes) -> bytes:
    """Replace each carriage return without a line feed, as lists of mixed line ends need it."""
    return text if b"\0" in text else _RETURN_THAT_ENDS.sub(b"\n", text)
