"""Options of the report of drift."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import composed_names, option
from topicstream.base.places import places
from topicstream.corpus.reader import Corpus
from topicstream.display.periods import GRAINS
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class DriftConfig(ThreadedOptions):
    """Options of ``topicstream.drift`` and ``topics info --drift``."""

    model: str | Path | TopicModel = option(
        "model", "the model's folder, or an open TopicModel", cli=False, parse=places().resolve
    )
    documents: str | Path | Corpus | None = option(
        None,
        "Measure how well the model still fits these documents: a store or raw files.",
        flags=("--drift",),
        metavar="PATH",
    )
    by: str | None = option(
        None,
        "Group documents by periods of this date column; without --drift, the held-out documents.",
        parse=composed_names,
    )
    period: str | None = option(
        None, "Length of a period (default: chosen from the dates).", choices=tuple(GRAINS)
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus store that the model was trained on.",
        env="TOPICS_CORPUS",
        parse=places().resolve,
    )
