"""``topics sweep``: several trainings, and which suits."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.selection.config import SweepConfig


@click.command("sweep", short_help="Train several numbers of topics and seeds, and say which suits.")
@options_of(SweepConfig)
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="A figure as .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace the figure.")
@as_json("Print the result as JSON.")
def command(plot: str | None, force: bool, as_json: bool, **values: Any) -> None:
    """Train every combination, score it (held-out perplexity, NPMI, diversity, stability over seeds), and say which number of
    topics suits and why.

    It is chosen on one half of the held-out documents and reported on the other. Interrupted, the same command carries on.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.selection import sweep as work

    said = (lambda line: click.echo(line, err=True)) if verbosity() >= 0 else None
    result = work.sweep(SweepConfig(**given(values), said=said))
    if plot is not None:
        work.plot(result, plot, force=force)
    click.echo(json.dumps(result, indent=1) if as_json else "\n".join(work.lines(result)))
