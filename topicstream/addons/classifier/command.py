"""``topics classifier``: a fast classifier of new documents, beside the topics of a model."""

from __future__ import annotations

from typing import Any

from topicstream.addons.classifier.config import ClassifierConfig
from topicstream.addons.classifier.training import train_classifier
from topicstream.base.text import render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, options_of

SUMMARY = (
    "{model}: classifier of {documents:document} by {features} in {passes:pass}[{more:?} (not "
    "converged: more --passes"
    " would help)], temperature {temperature:.3g}, {divergence:.3f} nats from theta on "
    "documents set aside, {seconds:.1f} s"
)


@topics_command("classifier")
@options_of(ClassifierConfig)
def command(**values: Any) -> Printed:
    """Train a fast classifier that predicts topics of new documents.

    It serves `topics infer --method maxent` and `hybrid`. It is a multinomial logistic regression
    on a document's words (Yao, Mimno and McCallum 2009), trained on the topics that `infer` finds
    for the training documents. It is stored in the model, and must be trained again once the topics
    have changed.
    """
    with show_progress() as progress:
        result = train_classifier(config_of(ClassifierConfig, values, progress=progress))
    return result, lines(result)


def lines(result: dict[str, Any]) -> list[str]:
    """Format the result for the terminal."""
    return render(SUMMARY, {**result, "more": not result["converged"]})
