"""``topics import``: options -> ``topicstream.import_model`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.export import formats_listed
from topicstream.cli.options import as_json, given, options_of
from topicstream.exchange.config import ImportConfig


@click.command(
    "import",
    short_help="Read another program's model, to show, score, compare, infer with and start from.",
    help="Read another program's model. It is shown, scored, compared and inferred with like one of ours, and a training"
    f" can start from it (--start warm --warm MODEL).\n\n{formats_listed('in')}\n\nmallet-doc-topics makes no model: it is read"
    " into a table (--model x.parquet). gensim, scikit-learn and tomotopy models come over in Python:"
    " TopicModel.from_gensim(m).save('model').",
)
@click.argument("path")
@options_of(ImportConfig)
@as_json("The summary as JSON.")
def command(path: str, as_json: bool, **values: Any) -> None:
    """Read another program's model; the help above lists the formats."""
    from topicstream.exchange.exchanging import import_model

    summary = import_model(ImportConfig(path, **given(values)))
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    for note in summary.get("notes", []):
        click.echo(f"note: {note}", err=True)
    if "documents" in summary:
        click.echo(f"{summary['out']}: topics of {summary['documents']:,} documents ({summary['layout']})")
    else:
        click.echo(
            f"{summary['model']}: {summary['topics']:,} topics, {summary['words']:,} words, from {summary['format']}"
        )
