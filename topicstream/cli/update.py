"""``topics update``: options -> ``topicstream.update`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.train import seconds


@click.command("update")
@click.option("--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store")
@click.option("--model", envvar="TOPICS_MODEL", default="model", show_default=True, help="folder of the model")
@click.option("--out", type=click.Path(), help="write the new model there and leave the old one [default: replace it]")
@click.option("--passes", type=click.IntRange(1), help="passes at most [default: 15; 20 where every block starts anew]")
@click.option(
    "--tol",
    type=click.FloatRange(0),
    help="stop when training perplexity changes by less, twice running [default: 0.3 of the engine's]",
)
@click.option("--max-time", callback=seconds, metavar="TIME", help="stop after the pass in which this time is over")
@click.option("--eval-every", type=click.IntRange(0), default=0, metavar="N", help="held-out perplexity every N passes")
@click.option("--threads", type=click.IntRange(1), help="threads [default: the processors]; never changes the result")
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process [default: 70 % of what there is]")
@click.option("--tables", type=click.Choice(["auto", "memory", "disk"]), default="auto", help="where the tables live")
@click.option("--force", is_flag=True, help="forget an unfinished update")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(as_json: bool, **given: Any) -> None:
    """Take documents that were appended to the corpus into the model.

    \b
        topics ingest new/ --out corpus.zarr --append --grow-vocab
        topics update

    Training goes on from the model: topics keep their numbers.  Where the model's own run is there and no old document
    was removed, only the new blocks are started, the old ones go on from what is known of them.  The new model takes the
    old one's place in one rename when it is done; killed, the same command carries on.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.retrain.update import update
    from topicstream.training.progress import Progress

    done = update(progress=Progress(verbosity()), **given)
    if as_json:
        told = {"model": str(done.model), "how": done.how, "why": done.why, "passes": done.passes}
        click.echo(json.dumps({**told, "stopped": done.reason, "last": dict(done.last)}))
        return
    if done.how == "nothing":
        click.echo(f"{done.model}: is of this corpus already")
        return
    parts = [f"{done.model}: {done.passes} passes ({done.reason}), {done.how}"]
    if done.last.get("train_perplexity"):
        parts.append(f"training perplexity {done.last['train_perplexity']:.1f}")
    click.echo(", ".join(parts))
