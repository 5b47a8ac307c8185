"""Line ends of texts that users give."""

from __future__ import annotations

import re

_RETURN_ALONE = re.compile(rb"\r[^\n]")


def has_returns_alone(text: bytes) -> bool:
    """Say whether the lines of a text end with a carriage return alone, as on an old Mac."""
    return b"\n" not in text and b"\0" not in text and _RETURN_ALONE.search(text) is not None


def with_line_feeds(text: bytes) -> bytes:
    """End the lines of a text with line feeds where they end with carriage returns alone."""
    return text.replace(b"\r", b"\n") if has_returns_alone(text) else text
