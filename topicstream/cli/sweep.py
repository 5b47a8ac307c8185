"""``topics sweep``: several trainings, and which suits."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.eval import CORPUS


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _options(given: tuple[str, ...]) -> dict[str, list[Any]]:
    out = {}
    for text in given:
        name, sign, values = text.partition("=")
        if not sign or not values:
            raise click.UsageError(f"--option {text}: give an engine's option and its values, such as alpha=0.05,0.1")
        out[name.strip().replace("-", "_")] = [_value(v.strip()) for v in values.split(",")]
    return out


@click.command("sweep", short_help="Train several numbers of topics and seeds, and say which suits.")
@CORPUS
@click.option("-K", "--topics", required=True, metavar="N,N,...", help="Numbers of topics.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Trainings of each setting.")
@click.option("--algo", default="auto", show_default=True, metavar="NAME,...", help="Engines.")
@click.option("--option", "options", multiple=True, metavar="NAME=V,V,...", help="Values of an engine's option.")
@click.option("--passes", type=click.IntRange(1), help="Passes at most [default: the engine's].")
@click.option("--tol", metavar="SHARE", help="Change of the perplexity at which a training stops, as of train.")
@click.option("--seed-words", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TOML file, as of train.")
@click.option(
    "-o", "--out", default="sweep", show_default=True, metavar="FOLDER", help="Models, results and sweep.parquet."
)
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="A figure as .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace the figure.")
@click.option("--threads", type=click.IntRange(1), help="Threads [default: all]; the results do not depend on them.")
@click.option(
    "--mem-limit", metavar="SIZE", help="Memory of the whole process, as 2G or 512M [default: what there is]."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    corpus: str,
    topics: str,
    seeds: int,
    algo: str,
    options: tuple[str, ...],
    passes: int | None,
    tol: str | None,
    seed_words: str | None,
    out: str,
    plot: str | None,
    force: bool,
    threads: int | None,
    mem_limit: str | None,
    as_json: bool,
) -> None:
    """Train every combination, score it (held-out perplexity, NPMI, diversity, stability over seeds), and say which number of
    topics suits and why.

    It is chosen on one half of the held-out documents and reported on the other. Interrupted, the same command carries on.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.selection import sweep as work

    try:
        numbers = [int(k) for k in topics.split(",")]
    except ValueError:
        raise click.UsageError(f"--topics {topics}: give numbers with commas between, such as 20,50,100") from None
    result = work.sweep(
        corpus,
        out,
        topics=numbers,
        seeds=seeds,
        algo=[a.strip() for a in algo.split(",")],
        options=_options(options),
        passes=passes,
        tol=tol,
        seed_words=seed_words,
        threads=threads,
        mem_limit=mem_limit,
        said=(lambda line: click.echo(line, err=True)) if verbosity() >= 0 else None,
    )
    if plot is not None:
        work.plot(result, plot, force=force)
    click.echo(json.dumps(result, indent=1) if as_json else "\n".join(work.lines(result)))
