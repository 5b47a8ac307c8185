"""``topics report``: a model as one HTML file."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.reporting.config import ReportConfig


@click.command("report", short_help="One HTML file that shows a model, offline.")
@click.argument("model", required=False, envvar="TOPICS_MODEL", default="model")
@options_of(ReportConfig)
@as_json("Print the result as JSON.")
def command(model: str, as_json: bool, **values: Any) -> None:
    """Write one self-contained HTML file: the topics in a table, a map and a heat map, their words by relevance, typical
    documents, shares over time and by metadata, scores and settings.

    It opens from disk, fetches nothing, and holds sums and a few documents, whatever the corpus' size.
    """
    from topicstream.reporting.html import report

    with showing() as progress:
        done = report(ReportConfig(model, **given(values), progress=progress))
    if as_json:
        click.echo(json.dumps(done, indent=1))
        return
    over = f", {done['periods']} periods" if done["periods"] else ""
    by_what = f", by {', '.join(done['columns'])}" if done["columns"] else ""
    click.echo(
        f"{done['out']}: {done['topics']:,} topics, {done['documents']:,} documents{over}{by_what}; {done['bytes'] / 1e6:.2f} MB"
    )
    for note in done["notes"]:
        click.echo(f"  {note}", err=True)
