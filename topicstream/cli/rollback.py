"""``topics rollback``: the version published before."""

from __future__ import annotations

import json

import click


@click.command("rollback")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--to", type=click.IntRange(1), metavar="N", help="the version to go back (or forward) to")
@click.option("--wait", is_flag=True, help="wait for a retrain that is at work")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(folder: str, to: int | None, wait: bool, as_json: bool) -> None:
    """Put the model published before back in its place.

    FOLDER is where `topics retrain` publishes: it holds versions/ and current.  The link `current` changes in one rename;
    no version is removed, and `--to` goes forward again.
    """
    from topicstream.retraining.publish import rollback

    before, now = rollback(folder, to=to, wait=wait)
    if as_json:
        click.echo(json.dumps({"before": before, "current": now}))
    else:
        click.echo(f"{folder}: current is version {now} (was {before})")
