"""``topics rollback``: publish an earlier version again."""

from __future__ import annotations

import click

from topicstream.cli.command import Printed, topics_command
from topicstream.retraining.publish import rollback


@topics_command("rollback", indent=None)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--to", type=click.IntRange(1), metavar="N", help="Version to publish instead, older or newer."
)
@click.option("--wait", is_flag=True, help="Wait for a running retrain to end (default: exit 4).")
def command(folder: str, to: int | None, wait: bool) -> Printed:
    """Publish the previous model again.

    FOLDER is where `topics retrain` publishes: it holds versions/ and current. The link `current`
    changes in one rename. No version is removed, so --to can go forward again. `topics retrain`
    leaves an earlier version in place until --release.
    """
    before, now = rollback(folder, to=to, wait=wait)
    until_release = (
        ", until `topics retrain --release`" if before is not None and now < before else ""
    )
    return {"before": before, "current": now}, [
        f"{folder}: current is version {now} again (was {before}){until_release}"
    ]
