"""``topics export``: a model, its documents' topics or its corpus in another program's format."""

from __future__ import annotations

from typing import Any

from topicstream.addons.exchange.config import ExportConfig
from topicstream.addons.exchange.exchanging import export_model
from topicstream.addons.exchange.formats import list_formats
from topicstream.base.text import counted, render
from topicstream.cli.command import Printed, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.model.topic_kinds import describe_topics

SUMMARY = (
    "{out}: {format}, {what}[, {regions}][ (the prior stands for {unknown_cells:cell} "
    "without a known feature)][ (the prior stands for {without_known_word:document} without a "
    "known word)]"
    "[{edited:?} as edited][, topics counted from 0 in the order of their numbers "
    "({topic_ids})], {bytes:size}, "
    "{seconds:.1f} s"
)
COUNTED = {
    "documents": "document",
    "topics": "topic",
    "words": "word",
    "tokens": "token",
    "cells": "value",  # cells are the documents of that field
}


@topics_command(
    "export",
    short_help="Write a model, the topics of its documents or its corpus for other programs.",
    help="Write a model, the topics of its documents or its corpus in another program's format."
    f"\n\n{list_formats('write')}\n\nFormats of several files need a folder. Pickles (for "
    f"gensim and scikit-learn use"
    " to_gensim() and to_sklearn() in Python) and serialised Java (MALLET's own model) are not "
    "supported.",
)
@options_of(ExportConfig)
def command(**values: Any) -> Printed:
    """Write a model, the topics of its documents or its corpus.

    The help above lists the formats.
    """
    summary = export_model(config_of(ExportConfig, values))
    contents = [_describe(summary, name) for name in COUNTED if name in summary]
    about = {**summary, "what": contents, "regions": summary.get("described")}
    return summary, render(SUMMARY, about)


def _describe(summary: dict[str, Any], name: str) -> str:
    """Count a part of what was written, and name the background among the topics."""
    background = summary.get("background_topic")
    if name != "topics" or background is None:
        return counted(summary[name], COUNTED[name])
    return f"{describe_topics(summary[name], background)} (topic {background})"
