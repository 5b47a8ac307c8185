"""``topics train --classifier``: the classifier is trained after the topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from topicstream.base.options import option
from topicstream.cli.extension import CommandOptions
from topicstream.training.config import TrainConfig


@dataclass(frozen=True)
class TrainOption:
    """Options for ``topics train``."""

    classifier: bool = option(
        False,
        "After training, train the classifier of `infer --method maxent` as well; with only "
        "--model and --corpus, train nothing else.",
    )


def train_finished_model(
    config: TrainConfig, options: TrainOption
) -> tuple[dict[str, Any], list[str]]:
    """Train the classifier of a finished model within the limits of the training."""
    from topicstream.addons.classifier.command import lines  # most trainings learn none
    from topicstream.addons.classifier.config import ClassifierConfig
    from topicstream.addons.classifier.training import train_classifier

    limits = {name: getattr(config, name) for name in ("threads", "mem_limit", "progress")}
    learned = train_classifier(ClassifierConfig(config.model, config.corpus, **limits))
    return learned, lines(learned)


TRAIN = CommandOptions(
    TrainOption, lambda options: options.classifier, train_finished_model, "--classifier"
)
