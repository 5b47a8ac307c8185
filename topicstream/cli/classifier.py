"""``topics classifier``: options -> ``topicstream.train_classifier`` -> what was learned."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.eval import MODEL


@click.command("classifier", short_help="Teach a model to name topics by one sparse product.")
@MODEL
@click.option("--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store")
@click.option(
    "--documents",
    type=click.IntRange(0),
    default=200_000,
    show_default=True,
    help="training documents at most, evenly spaced; 0: all",
)
@click.option(
    "--variance", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="of the weights' prior"
)
@click.option("--passes", type=click.IntRange(1), default=100, show_default=True, help="passes at most")
@click.option(
    "--tol",
    type=click.FloatRange(0),
    default=1e-4,
    show_default=True,
    help="stop when the loss falls by less than this share, twice running",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, min_open=True),
    help="divides the logits [default: chosen on training documents set aside]",
)
@click.option("--threads", type=click.IntRange(1), help="threads [default: the processors]; never changes the result")
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G or 512M [default: what there is]")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(as_json: bool, **options: Any) -> None:
    """Learn a classifier of documents beside the topics of a model: `topics infer --method maxent` and `hybrid` use it.

    Multinomial logistic regression on word counts (Yao, Mimno and McCallum 2009); it learns to say what `infer` finds of
    the training documents.  It is stored in the model and refused once the topics have changed.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.inference.classifier import train_classifier
    from topicstream.progress import Shown

    progress = Shown(verbosity())
    try:
        found = train_classifier(progress=progress, **options)
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    end = "" if found["converged"] else " (not converged: more --passes go further)"
    click.echo(
        f"{found['model']}: classifier of {found['documents']:,} documents in {found['passes']} passes{end}, temperature "
        f"{found['temperature']:.3g}, {found['divergence']:.3f} nats from theta on documents set aside, "
        f"{found['seconds']:.1f} s"
    )
