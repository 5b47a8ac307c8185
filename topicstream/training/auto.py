"""``--algo auto``: the engine that suits the corpus, the number of topics and the disk, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.durable import read_json
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Options, Shape
from topicstream.machine import format_bytes

BEST, SMALLEST = "sparse-bp", "atbp"
COPIES = 3  # block memory of the pass, of the one before, and of the last checkpoint


@dataclass(frozen=True)
class Choice:
    """The engine, and the reason in words."""

    algo: str
    why: str


def choose(shape: Shape, options: Mapping[str, Any], disk_free: int) -> Choice:
    """Stored messages wherever the disk holds them: they reach a lower perplexity than any engine without, and sooner
    (scripts/BENCHMARKS.md).  Else aTBP, which keeps one row of K numbers a document."""
    if shape.weighted and not find(BEST).accepts_weights:
        return Choice(SMALLEST, "the cells are real-valued")
    engine = find(BEST)(shape, find(BEST).Options(**options))
    need = 0
    for spec in engine.memory.values():
        one = spec.shape(BlockShape(shape.docs, shape.cells, int(shape.tokens), shape.words))
        size = 1
        for n in one:
            size *= int(n)
        need += size * {"uint8": 1, "uint16": 2, "float32": 4}[spec.dtype]
    if COPIES * need > disk_free * 0.8:
        return Choice(
            SMALLEST,
            f"stored messages would take {format_bytes(COPIES * need)} of disk and {format_bytes(disk_free)} are free",
        )
    return Choice(
        BEST, f"its messages take {format_bytes(need)} of disk a pass, and it reaches the lowest perplexity soonest"
    )


def resolve(folder: Path, force: bool, shape: Shape, options: Mapping[str, Any], disk_free: int) -> Choice:
    """The engine of the run that ``folder`` holds, if it holds one that ``auto`` may carry on; else a fresh choice."""
    if not force and (folder / "training.json").exists():
        name = str(read_json(folder / "training.json").get("engine"))
        return Choice(name, "the run in this folder uses it")
    return choose(shape, {k: v for k, v in options.items() if k in Options.__dataclass_fields__}, disk_free)
