"""``topics effects``: shares of topics explained by covariates."""

from __future__ import annotations

from typing import Any

import click

from topicstream.addons.covariates.covariates import EffectsConfig, effects
from topicstream.addons.covariates.effects import without_nan
from topicstream.base.files.outputs import written_together
from topicstream.base.text import counted
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.display.figures import Figure
from topicstream.evaluation.table_file import check_table_file, write_table


@topics_command("effects")
@click.argument("formula")
@options_of(EffectsConfig)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the coefficients as .csv, .parquet, .jsonl, .tex or .md.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw predicted shares as .svg, .png or .pdf.",
)
@click.option("--force", is_flag=True, help="Replace existing output files.")
def command(formula: str, out: str | None, plot: str | None, force: bool, **values: Any) -> Printed:
    """Regress the shares of topics on covariates of the training documents.

    FORMULA is a sum of columns of the store: 'party', 'party + s(date)', 'party * s(date)' (with
    the interaction); s() is a smooth curve, which is tested as a whole. Estimates are differences
    in the share of a document. The 95 % intervals include chance in the documents and in their
    words, not in the topics. What fewer than ten documents carry has no interval and no star, and
    says so. Documents without a value are left out; in a column of numbers or dates, NA and NaN
    are no values, in other columns they are, unless `ingest --na` named them.

    \b
        topics effects 'party * s(date)' --out effects.tex --plot effects.svg
    """
    if out is not None:
        check_table_file(out, "--out", force=force, text=True)
    figure = Figure(plot, "--plot", force=force) if plot is not None else None
    with show_progress() as progress:
        fitted = effects(
            config_of(EffectsConfig, {"formula": formula, **values}, progress=progress)
        )
    drawn = 0
    with written_together():
        if out is not None:
            write_table(
                without_nan(fitted.table()),
                out,
                force=force,
                caption=f"Effects on the shares of topics: {formula}",
            )
        if figure is not None:
            drawn = fitted.plot(figure)
    if figure is not None:
        click.echo(f"{plot}: {counted(drawn, 'topic')}", err=True)
    return fitted.plain(), fitted.lines()
