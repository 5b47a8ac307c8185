"""topicstream: topic models of corpora bigger than RAM.

    raw files -> ingestion -> tokens -> corpus (blocks on disk) -> training (engine, pass by pass)
    -> model
                                                        model -> evaluation, reporting, inference,
                                                        retraining

Public names are imported when first used, so that ``import topicstream`` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as type checkers take it; ``typing`` itself is slow to import

if sys.version_info < (3, 11):  # noqa: UP036 - in one line: the first syntax or import that is too new says nothing
    raise SystemExit(f"topicstream needs Python 3.11 or later; this is {sys.version.split()[0]}")

try:
    import fcntl as _posix  # noqa: F401  locks of files, which Windows lacks
except ImportError:
    raise SystemExit(
        "topicstream runs on Linux and macOS; on Windows, install and run it in WSL2 "
        "(https://learn.microsoft.com/windows/wsl/install)"
    ) from None

if TYPE_CHECKING:
    from typing import Any

    from topicstream.addons.classifier.training import train_classifier
    from topicstream.addons.cloud.publication import publish
    from topicstream.addons.covariates.covariates import effects
    from topicstream.addons.exchange.exchanging import export_model, import_model
    from topicstream.addons.report.page import report
    from topicstream.addons.sweep.sweep import sweep
    from topicstream.addons.views.comparing import compare_methods
    from topicstream.addons.views.drift import drift
    from topicstream.base.machine import __version__
    from topicstream.corpus.reader import Corpus
    from topicstream.display.show import show
    from topicstream.evaluation.evaluate import evaluate
    from topicstream.evaluation.matching import compare
    from topicstream.inference.infer import infer
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.upkeep.compact import compact
    from topicstream.ingestion.upkeep.drop_words import drop_words
    from topicstream.model.edits import edit
    from topicstream.retraining.forget import forget
    from topicstream.retraining.publish import rollback
    from topicstream.retraining.retrain import retrain
    from topicstream.retraining.update import update
    from topicstream.training.loop import train
    from topicstream.verbs import TopicModel

_PUBLIC = {  # name -> module that has it
    "Corpus": "topicstream.corpus.reader",
    "TopicModel": "topicstream.verbs",
    "__version__": "topicstream.base.machine",
    "compact": "topicstream.ingestion.upkeep.compact",
    "compare": "topicstream.evaluation.matching",
    "compare_methods": "topicstream.addons.views.comparing",
    "drift": "topicstream.addons.views.drift",
    "drop_words": "topicstream.ingestion.upkeep.drop_words",
    "edit": "topicstream.model.edits",
    "effects": "topicstream.addons.covariates.covariates",
    "evaluate": "topicstream.evaluation.evaluate",
    "export_model": "topicstream.addons.exchange.exchanging",
    "forget": "topicstream.retraining.forget",
    "import_model": "topicstream.addons.exchange.exchanging",
    "infer": "topicstream.inference.infer",
    "ingest": "topicstream.ingestion.pipeline",
    "publish": "topicstream.addons.cloud.publication",
    "report": "topicstream.addons.report.page",
    "retrain": "topicstream.retraining.retrain",
    "rollback": "topicstream.retraining.publish",
    "show": "topicstream.display.show",
    "sweep": "topicstream.addons.sweep.sweep",
    "train": "topicstream.training.loop",
    "train_classifier": "topicstream.addons.classifier.training",
    "update": "topicstream.retraining.update",
}

__all__ = [
    "Corpus",
    "TopicModel",
    "__version__",
    "compact",
    "compare",
    "compare_methods",
    "drift",
    "drop_words",
    "edit",
    "effects",
    "evaluate",
    "export_model",
    "forget",
    "import_model",
    "infer",
    "ingest",
    "publish",
    "report",
    "retrain",
    "rollback",
    "show",
    "sweep",
    "train",
    "train_classifier",
    "update",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "sklearn"):
        return import_module(f"topicstream.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'topicstream' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
