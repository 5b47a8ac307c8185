"""The start of a run by its name."""

from __future__ import annotations

from pathlib import Path

from topicstream.engines.base import Engine
from topicstream.training.starts.anchors import AnchorStart
from topicstream.training.starts.best import BestStart, pays
from topicstream.training.starts.clusters import ClusterStart
from topicstream.training.starts.documents import DocumentStart
from topicstream.training.starts.points import VectorStart
from topicstream.training.starts.random import RandomStart
from topicstream.training.starts.seeded import SeededStart
from topicstream.training.starts.start import Start
from topicstream.training.starts.warm import WarmStart

LEARNED = ("best", "anchors")  # their topics are learned already


def start_named(name: str, engine: Engine, warm: str | Path | None = None, warm_share: float = 1.0) -> Start:
    """The start of that name; warm: the model to start from."""
    if engine.about.dense:
        return VectorStart()
    if name == "warm":
        assert warm is not None
        return WarmStart(warm, warm_share)
    tries = getattr(engine.options, "tries", 1)
    starts: dict[str, Start] = {
        "random": RandomStart(),
        "documents": DocumentStart(),
        "kmeans": ClusterStart(tries) if tries > 1 else DocumentStart(far=True),
        "best": BestStart(),
        "anchors": AnchorStart(),
    }
    return SeededStart(starts[name], learned=name in LEARNED)


def default_start(engine: Engine) -> str:
    """The engine's own; ``best`` in the place of ``documents`` where it pays."""
    about, shape = engine.about, engine.shape
    first = "documents" if shape.topics >= about.documents_from else about.starts[0]
    return "best" if first == "documents" and "best" in about.starts and pays(shape, about.best_from) else first
