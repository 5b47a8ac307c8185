"""``topics sweep``: several trainings, and which suits."""

from __future__ import annotations

from typing import Any

import click

from topicstream.addons.sweep.config import SweepConfig
from topicstream.addons.sweep.picture import lines, plot_sweep
from topicstream.addons.sweep.sweep import sweep
from topicstream.cli.command import Printed, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.cli.process import verbosity
from topicstream.display.figures import Figure


@topics_command("sweep")
@options_of(SweepConfig)
@click.option(
    "--plot",
    "path",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw a figure as .svg, .png or .pdf.",
)
def command(path: str | None, **values: Any) -> Printed:
    """Train every combination, score it, and recommend a number of topics.

    Scores are held-out perplexity, NPMI, diversity and stability over seeds. The choice uses one
    half of the held-out documents; the reported scores use the other. After an interruption, run
    the same command again to resume.
    """
    figure = Figure(path, "--plot", force=values["force"]) if path is not None else None
    said = (lambda line: click.echo(line, err=True)) if verbosity() >= 0 else None
    result = sweep(config_of(SweepConfig, values, said=said))
    if figure is not None:
        plot_sweep(result, figure)
    return result, lines(result)
