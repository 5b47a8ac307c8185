"""What ``train`` runs before its first pass, for another process to compile: ``python -m topicstream.training.warm SPEC FOLDER``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from topicstream.engines import find
from topicstream.engines.base import Engine, Shape
from topicstream.kernels.ahead import leave
from topicstream.training.warmup import compile_kernels, compile_run, compile_tables


def spec(engine: Engine, start: str) -> str:
    """The engine and how it starts, as an argument."""
    shape = {k: v for k, v in vars(engine.shape).items() if k != "seeds"}
    return json.dumps({"name": engine.name, "options": asdict(engine.options), "shape": shape, "start": start})


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    kind = find(given["name"])
    engine = kind(Shape(**given["shape"]), kind.Options(**given["options"]))
    leave(
        lambda folder: compile_kernels(engine, engine.shape.weighted),
        lambda folder: compile_tables(engine, engine.shape.weighted),
        lambda folder: compile_run(engine, engine.shape.weighted, given["start"]),
        folder=sys.argv[2],
    )
