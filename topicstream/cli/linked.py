"""What became of linked documents, in words: ``topics ingest`` and ``topics info`` say it."""

from __future__ import annotations

from collections.abc import Mapping

from topicstream.text import render

LINKS = """{given:,} given: {training:,} pairs of training documents, {heldout:,} with held-out ones[; left out {left_out}]"""
LEFT_OUT = {
    "dangling": "to no document",
    "self": "to the document itself",
    "repeats": "repeated",
    "between_heldout": "between held-out documents",
}


def linked_text(figures: Mapping[str, int]) -> str:
    """In words; figures: those of the axis."""
    left_out = [f"{figures[name]:,} {what}" for name, what in LEFT_OUT.items() if figures[name]]
    return render(LINKS, {**figures, "left_out": left_out})[0]
