"""The tiny jobs that leave the kernels of other commands in the cache: ``python -m topicstream.cli.warming some|all FOLDER``."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from topicstream.errors import TopicsError
from topicstream.ingestion.warm import counting, reading, splitting
from topicstream.kernels.ahead import leave

USUAL = ("sparse-bp",)


def job(folder: Path, every: bool) -> None:
    """Ingest, train, infer and score a few made documents: with the usual engine and method, or with every one."""
    from topicstream.engines import engines
    from topicstream.evaluation.evaluate import evaluate
    from topicstream.inference.infer import infer
    from topicstream.inference.methods import method_names
    from topicstream.ingestion.pipeline import ingest
    from topicstream.training.loop import train

    reading(folder)
    docs = folder / "docs.jsonl"
    with docs.open("w") as out:
        for i in range(120):
            words = " ".join(f"word{(7 * i + 3 * j) % 40}" for j in range(10))
            out.write(f'{{"id": "{i}", "text": "{words} caf\\u00e9"}}\n')
    store = folder / "docs.zarr"
    ingest(docs, store, min_df=1, heldout="12", mem_limit="1G", progress=False)
    common: dict[str, Any] = {"topics": 4, "passes": 2, "mem_limit": "1G", "progress": False}
    for name in engines() if every else USUAL:
        model = folder / f"{name}.model"
        with suppress(TopicsError):  # what needs more than these documents have compiles when it is called
            train(store, model, algo=name, **common)
            evaluate(model, store, heldout=True, coherent=True, progress=False)
    model = folder / f"{USUAL[0]}.model"
    for method in method_names() if every else ("bp",):
        for source in (docs, store):
            with suppress(TopicsError):
                infer(model, [source], out=BytesIO(), method=method, mem_limit="1G", progress=False)


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    leave(lambda folder: job(folder, sys.argv[1] == "all"), counting, splitting, folder=sys.argv[2])
