"""``topics compact``: options -> ``topicstream.compact`` -> the summary."""

from __future__ import annotations

import json

import click


@click.command("compact")
@click.argument("store", default="corpus.zarr", envvar="TOPICS_CORPUS", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(store: str, as_json: bool) -> None:
    """Merge the small storage blocks that appends have left in STORE (default: corpus.zarr), and purge the cells of
    documents that were withdrawn or replaced.

    Documents, vocabulary and the held-out split stay as they are.  Readers that hold the store open, a training too, go on
    with what they opened; the old files go when they have ended.  A model keeps its topics; its block state does not fit
    the new blocks, so its next update starts every block from the model, and `train`
    does not go on with a run that had not ended: it says so, and how to start from its topics (--start warm --warm MODEL).  Killed at any instant the store is the old one
    or the new one; the same command again finishes.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.ingestion.upkeep.compact import compact
    from topicstream.machine import format_bytes
    from topicstream.progress import Shown

    done = compact(store, progress=Shown(verbosity()))
    if as_json:
        click.echo(json.dumps(done))
        return
    if done["compacted"]:
        blocks, size = done["blocks"], [format_bytes(n) for n in done["bytes"]]
        click.echo(f"{store}: {blocks[0]} -> {blocks[1]} storage blocks, {size[0]} -> {size[1]}")
        click.echo(f"{done['documents_purged']:,} removed documents purged, {done['cells_purged']:,} cells")
        click.echo("models of this corpus keep their topics; their next update starts every block from the model")
    else:
        click.echo(f"{store}: nothing to merge and nothing to purge ({done['blocks'][0]} storage blocks)")
    if done["waiting"]:
        click.echo("old files stay while somebody reads them; the next command that writes to the store removes them")
