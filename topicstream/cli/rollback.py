"""``topics rollback``: the version published before."""

from __future__ import annotations

import click

from topicstream.cli.command import Printed, topics_command
from topicstream.retraining.publish import rollback


@topics_command("rollback", indent=None)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--to", type=click.IntRange(1), metavar="N", help="the version to go back (or forward) to")
@click.option("--wait", is_flag=True, help="wait for a retrain that is at work")
def command(folder: str, to: int | None, wait: bool) -> Printed:
    """Put the model published before back in its place.

    FOLDER is where `topics retrain` publishes: it holds versions/ and current.  The link `current` changes in one rename;
    no version is removed, and `--to` goes forward again.
    """
    before, now = rollback(folder, to=to, wait=wait)
    return {"before": before, "current": now}, [f"{folder}: current is version {now} (was {before})"]
