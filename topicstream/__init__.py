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

# in one line, as the first syntax or import that is too new says nothing
if sys.version_info < (3, 11):  # noqa: UP036
    raise SystemExit(f"topicstream needs Python 3.11 or later; this is {sys.version.split()[0]}")

try:
    import fcntl as _posix
except ImportError:
    raise SystemExit(
        "topicstream runs on Linux and macOS; on Windows, install and run it in WSL2 "
        "(https://learn.microsoft.com/windows/wsl/install)"
    ) from None

if TYPE_CHECKING:
    from typing import Any

    from topicstream.base.machine import __version__
    from topicstream.corpus.reader import Corpus
    from topicstream.display.show import show
    from topicstream.evaluation.evaluate import evaluate
    from topicstream.evaluation.matching import compare
    from topicstream.fitting import fit
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
    "drop_words": "topicstream.ingestion.upkeep.drop_words",
    "edit": "topicstream.model.edits",
    "evaluate": "topicstream.evaluation.evaluate",
    "fit": "topicstream.fitting",
    "forget": "topicstream.retraining.forget",
    "infer": "topicstream.inference.infer",
    "ingest": "topicstream.ingestion.pipeline",
    "retrain": "topicstream.retraining.retrain",
    "rollback": "topicstream.retraining.publish",
    "show": "topicstream.display.show",
    "train": "topicstream.training.loop",
    "update": "topicstream.retraining.update",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in ("errors", "sklearn"):
        return import_module(f"topicstream.{name}")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    from topicstream.base import plugins  # functions of add-ons are known by name alone

    if name == "__all__":
        return sorted({*_PUBLIC, *plugins.own_names(plugins.FUNCTIONS)})
    if name in plugins.own_names(plugins.FUNCTIONS):
        return plugins.load(plugins.FUNCTIONS, name)
    raise AttributeError(f"module 'topicstream' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the module's names and the public names, imported or not."""
    return sorted({*globals(), *__getattr__("__all__")})
