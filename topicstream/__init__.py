"""topicstream: topic models of corpora bigger than RAM.

    raw files -> ingest -> tokens -> corpus (blocks on disk) -> training (engine, pass by pass) -> model
                                                     model -> evaluation, report, inference, retrain

Public names are imported when first used, so that ``import topicstream`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {  # name -> module that has it; a room whose name is also a verb is itself callable (topicstream/ingest)
    "Corpus": "topicstream.corpus.reader",
    "TopicModel": "topicstream.model.topic_model",
    "compare": "topicstream.evaluation.matching",
    "evaluate": "topicstream.evaluation.evaluate",
    "infer": "topicstream.inference.infer",
    "rollback": "topicstream.retrain.publish",
    "show": "topicstream.report.show",
    "train": "topicstream.training.loop",
    "update": "topicstream.retrain.update",
}
_VERBS = ("ingest", "retrain")

__all__ = [
    "Corpus",
    "TopicModel",
    "__version__",
    "compare",
    "evaluate",
    "infer",
    "ingest",
    "retrain",
    "rollback",
    "show",
    "train",
    "update",
]


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return import_module(f"topicstream.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'topicstream' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
