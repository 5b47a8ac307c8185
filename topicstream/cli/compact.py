"""``topics compact``: merge the small storage blocks of a store."""

from __future__ import annotations

import click

from topicstream.base.text import render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.ingestion.upkeep.compact import compact

MERGED = """{store}: {before} -> {after} storage blocks, {bytes_before:size} -> {bytes_after:size}
{documents_purged:,} removed documents purged, {cells_purged:,} values
models of this corpus keep their topics; an unfinished training of one cannot be resumed"""
NOTHING = "{store}: nothing to merge and nothing to purge ({before} storage blocks)"
WAITING = (
    "\n[{waiting:?}the old files stay for three days, for commands that read them; the first "
    "command that writes to the store after that removes them]"
)


@topics_command("compact", indent=None)
@click.argument(
    "corpus", metavar="[STORE]", default="corpus.zarr", envvar="TOPICS_CORPUS", type=click.Path()
)
def command(corpus: str) -> Printed:
    """Merge the small storage blocks of a store, and purge removed and replaced documents.

    STORE (default: corpus.zarr) gets small blocks from appends. Documents, vocabulary and the
    held-out split do not change. The old files stay for three days, so that a running command,
    such as a training, can go on reading them; the first command that writes to the store after
    that deletes them. A model keeps its topics, but an unfinished training cannot be resumed
    (start again from its topics with --start warm --warm MODEL). If the command is interrupted,
    the store is either the old one or the new one; run it again to finish.
    """
    with show_progress() as progress:
        result = compact(corpus, progress=progress)
    (before, after) = result["blocks"]
    sizes = result["bytes"]
    about = {
        "store": corpus,
        "before": before,
        "after": after,
        "bytes_before": sizes[0],
        "bytes_after": sizes[1],
    }
    return result, render(
        (MERGED if result["compacted"] else NOTHING) + WAITING, {**result, **about}
    )
