"""``topics report``: a model as one HTML file."""

from __future__ import annotations

from typing import Any

import click

from topicstream.addons.report.page import report
from topicstream.base.text import render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.display.config import ReportConfig
from topicstream.model.topic_kinds import describe_topics

SUMMARY = (
    "{out}: {described}, {documents:document}[, {periods:period}][, by {columns}]; "
    "{megabytes:.2f} MB"
)


@topics_command("report")
@click.argument("model", required=False, envvar="TOPICS_MODEL", default="model")
@options_of(ReportConfig)
def command(model: str, **values: Any) -> Printed:
    """Write one self-contained HTML file about a model.

    It shows the topics in a table, a map and a heat map, their words by relevance, typical
    documents, shares over time and by metadata, scores and settings. The file works offline and
    loads nothing else. It holds summary statistics and a few documents, whatever the size of the
    corpus.
    """
    with show_progress() as progress:
        result = report(config_of(ReportConfig, {"model": model, **values}, progress=progress))
        for note in result["notes"]:
            progress.say(f"  {note}")
    about = {
        **result,
        "described": describe_topics(result["topics"], result["background_topic"]),
        "megabytes": result["bytes"] / 1e6,
    }
    return result, render(SUMMARY, about)
