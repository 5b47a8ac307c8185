"""``topics warm``: compile the kernels before they are needed."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import click

from topicstream.base.errors import TopicsError
from topicstream.cli.command import Printed, topics_command
from topicstream.engines import engines
from topicstream.evaluation.evaluate import evaluate
from topicstream.inference.infer import infer
from topicstream.inference.methods import METHOD_NAMES
from topicstream.ingestion.pipeline import ingest
from topicstream.numeric.kernels import jit
from topicstream.training.loop import train

USUAL = {"sparse-bp": None, "sparselda": "best"}
"""Engines that ``auto`` takes, which are compiled without ``--all``, and where they begin."""
DOCUMENTS = 400


@topics_command("warm", indent=None)
@click.option(
    "--all",
    "all_engines",
    is_flag=True,
    help="Compile every algorithm and inference method, not only the common ones.",
)
def command(all_engines: bool) -> Printed:
    """Compile the kernels of ingest, train, infer and eval, so that later commands start at once.

    Compiled kernels are for this machine. They are kept in ~/.cache/topicstream/kernels, or in
    topicstream/kernels under $NUMBA_CACHE_DIR.
    """
    began = time.monotonic()
    click.echo("compiling for this machine (about a minute; with --all several)", err=True)
    with tempfile.TemporaryDirectory(prefix="topics-warm-") as folder:
        run_small_jobs(Path(folder), all_engines)
    kernels = list(jit.cache_folder().glob("*.nbc"))
    if not kernels:
        raise TopicsError(
            f"{jit.cache_folder()}: cannot write compiled kernels here; set NUMBA_CACHE_DIR to "
            f"another folder"
        )
    result = {
        "folder": str(jit.cache_folder()),
        "files": len(kernels),
        "seconds": time.monotonic() - began,
    }
    usual = f"ingest, train ({', '.join(USUAL)}), infer and eval"
    warmed = "every algorithm and method" if all_engines else usual
    return result, [f"{warmed}: ready in {result['folder']}, {result['files']} files"]


def run_small_jobs(folder: Path, all_engines: bool) -> None:
    """Ingest, train, infer and score made documents, with the usual or with every algorithm."""
    docs = folder / "docs.jsonl"
    with docs.open("w") as out:
        for i in range(DOCUMENTS):
            words = " ".join(f"word{(7 * i + j * j) % 90}" for j in range(30))
            out.write(f'{{"id": "{i}", "text": "{words} caf\\u00e9"}}\n')
    store = folder / "docs.zarr"
    ingest(docs, store, min_df=1, progress=False)
    common: dict[str, Any] = {"topics": 10, "passes": 30, "progress": False}
    for name in engines() if all_engines else USUAL:
        model = folder / f"{name}.model"
        # an engine for what these documents lack compiles when it is first used
        with suppress(TopicsError):
            train(store, model, algo=name, start=USUAL.get(name), **common)
            evaluate(model, store, heldout=True, coherent=True, progress=False)
    for method in METHOD_NAMES if all_engines else ["bp"]:
        for source in (docs, store):
            with suppress(TopicsError):
                infer(
                    folder / "sparse-bp.model",
                    [source],
                    out=BytesIO(),
                    method=method,
                    progress=False,
                )
