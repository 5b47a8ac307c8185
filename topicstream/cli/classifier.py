"""``topics classifier``: options -> ``topicstream.train_classifier`` -> what was learned."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.inference.config import ClassifierConfig


@click.command("classifier", short_help="Teach a model to name topics by one sparse product.")
@options_of(ClassifierConfig)
@as_json()
def command(as_json: bool, **values: Any) -> None:
    """Learn a classifier of documents beside the topics of a model: `topics infer --method maxent` and `hybrid` use it.

    Multinomial logistic regression on a document's words (Yao, Mimno and McCallum 2009); it learns to say what `infer` finds of
    the training documents.  It is stored in the model and refused once the topics have changed.
    """
    from topicstream.inference.classifier import train_classifier

    with showing() as progress:
        found = train_classifier(ClassifierConfig(**given(values), progress=progress))
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(line(found))


def line(found: dict[str, Any]) -> str:
    """What was learned, for people."""
    end = "" if found["converged"] else " (not converged: more --passes go further)"
    return (
        f"{found['model']}: classifier of {found['documents']:,} documents by {found['features']} in {found['passes']} passes{end}, "
        f"temperature {found['temperature']:.3g}, {found['divergence']:.3f} nats from theta on documents set aside, "
        f"{found['seconds']:.1f} s"
    )
