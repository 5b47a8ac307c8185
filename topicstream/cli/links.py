"""What became of the links of a corpus, in words: ``topics ingest`` and ``topics info`` say it."""

from __future__ import annotations

from typing import Any

from topicstream.text import render

LINKS = """{given:,} given: {training:,} pairs of training documents, {heldout:,} with held-out ones[; left out {left_out}]"""
LEFT_OUT = {
    "dangling": "to no document",
    "self": "to the document itself",
    "repeats": "repeated",
    "between_heldout": "between held-out documents",
}


def links_text(links: dict[str, Any]) -> str:
    """What became of the links."""
    left_out = [f"{links[name]:,} {what}" for name, what in LEFT_OUT.items() if links[name]]
    return render(LINKS, {**links, "left_out": left_out})[0]
