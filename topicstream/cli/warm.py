"""``topics warm``: the kernels compiled before they are needed."""

from __future__ import annotations

import json
import time

import click

from topicstream.cli.options import as_json
from topicstream.errors import TopicsError

SOURCES = ("cli", "corpus", "engines", "evaluation", "inference", "ingestion", "kernels", "model", "tables", "tokens", "training")


@click.command("warm")
@click.option("--all", "every", is_flag=True, help="Of every algorithm and every method of infer, not of the usual ones.")
@as_json()
def command(every: bool, as_json: bool) -> None:
    """Compile what the other commands run, once for this machine, so that none of them waits.

    Kept in ~/.cache/topicstream/kernels; NUMBA_CACHE_DIR names another place.  For an image: compile into a folder of it, and
    name that folder's topicstream/kernels in TOPICS_KERNELS, which is read and never written.
    """
    from topicstream.kernels import ahead, cache
    from topicstream.machine import default_memory_limit

    own = cache.folders()[0]
    if not own.writable():
        raise TopicsError(f"{own.path}: compiled kernels cannot be kept here; NUMBA_CACHE_DIR names another place")
    what = "every algorithm and method" if every else "ingest, train (sparse-bp), infer and eval"
    began = time.monotonic()
    ready = ahead.prepare(
        f"topicstream.cli.warming {'all' if every else 'some'}", SOURCES, 300 if every else 30,
        lambda text: click.echo(f"{what}: {text}", err=True), default_memory_limit(),
    )  # fmt: skip
    if not ready:
        raise TopicsError("not everything could be compiled; what is missing compiles when it is called")
    found = {"folder": str(own.path), "files": len(list(own.path.glob("*.nbc"))), "seconds": time.monotonic() - began}
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(f"{what}: ready in {own.path}, {found['files']} files")
