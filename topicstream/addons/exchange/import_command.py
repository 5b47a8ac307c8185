"""``topics import``: another program's model."""

from __future__ import annotations

from typing import Any

import click

from topicstream.addons.exchange.config import ImportConfig
from topicstream.addons.exchange.exchanging import import_model
from topicstream.addons.exchange.formats import list_formats
from topicstream.base.text import render
from topicstream.cli.command import Printed, topics_command
from topicstream.cli.options import config_of, options_of

SUMMARY = """[{model}: {topics:topic}, {words:word}, from {format}]
[{out}: topics of {documents:document} ({layout})]"""


@topics_command(
    "import",
    short_help="Import another program's model to show, score, compare, use for inference or start "
    "from.",
    help="Import another program's model. All commands can show, score and compare it and use it "
    "for inference, and a training"
    f" can start from it (--start warm --warm "
    f"MODEL).\n\n{list_formats('read')}\n\nmallet-doc-topics is imported as a table, not"
    " as a model (--model x.parquet). Import gensim, scikit-learn and tomotopy models in Python:"
    " TopicModel.from_gensim(m).save('model').",
)
@click.argument("path")
@options_of(ImportConfig)
def command(path: str, **values: Any) -> Printed:
    """Read another program's model.

    The help above lists the formats.
    """
    summary = import_model(config_of(ImportConfig, {"path": path, **values}))
    for note in summary.get("notes", []):
        click.echo(f"note: {note}", err=True)
    return summary, render(SUMMARY, summary)
