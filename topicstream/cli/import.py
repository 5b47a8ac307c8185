"""``topics import``: another program's model."""

from __future__ import annotations

from typing import Any

import click

from topicstream.cli.command import Printed, topics_command
from topicstream.cli.options import made, options_of
from topicstream.exchange.config import ImportConfig
from topicstream.exchange.exchanging import import_model
from topicstream.exchange.formats import formats_listed
from topicstream.text import render

SUMMARY = """[{model}: {topics:,} topics, {words:,} words, from {format}]
[{out}: topics of {documents:,} documents ({layout})]"""


@topics_command(
    "import",
    short_help="Read another program's model, to show, score, compare, infer with and start from.",
    help="Read another program's model. It is shown, scored, compared and inferred with like one of ours, and a training"
    f" can start from it (--start warm --warm MODEL).\n\n{formats_listed('in')}\n\nmallet-doc-topics makes no model: it is read"
    " into a table (--model x.parquet). gensim, scikit-learn and tomotopy models come over in Python:"
    " TopicModel.from_gensim(m).save('model').",
)
@click.argument("path")
@options_of(ImportConfig)
def command(path: str, **values: Any) -> Printed:
    """Read another program's model; the help above lists the formats."""
    summary = import_model(made(ImportConfig, {"path": path, **values}))
    for note in summary.get("notes", []):
        click.echo(f"note: {note}", err=True)
    return summary, render(SUMMARY, summary)
