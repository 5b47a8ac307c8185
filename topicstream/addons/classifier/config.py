"""Options of the classifier beside a model."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from topicstream.addons.classifier.model import FEATURES
from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import option
from topicstream.base.places import places
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class ClassifierConfig(ThreadedOptions):
    """All settings of the classifier beside a model."""

    model: str | Path | TopicModel = option(
        "model",
        "Folder of the model ($TOPICS_MODEL).",
        env="TOPICS_MODEL",
        show=True,
        parse=places().resolve,
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr", "Corpus store.", env="TOPICS_CORPUS", show=True, parse=places().resolve
    )
    _: KW_ONLY
    documents: int = option(
        200_000,
        "Use at most this many training documents, evenly spaced; 0: all.",
        min=0,
        show=True,
    )
    features: str = option(
        "root",
        "Features of a document: counts, frequency (counts divided by its length), or root "
        "(square roots of the frequencies).",
        choices=FEATURES,
        show=True,
    )
    variance: float = option(
        1.0, "Variance of the Gaussian prior on the weights.", above=0, show=True
    )
    passes: int = option(100, "Maximum number of passes.", min=1, show=True)
    tol: float = option(
        1e-3, "Stop when a pass lowers the loss by less than this share.", min=0, show=True
    )
    temperature: float | None = option(
        None,
        "Divide the logits by this number (default: chosen on held-out training documents).",
        above=0,
    )
