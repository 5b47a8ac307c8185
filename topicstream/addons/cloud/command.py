"""``topics publish``: a store or a model to an object store."""

from __future__ import annotations

import click

from topicstream.addons.cloud.publication import publish
from topicstream.base.text import render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.process import stop_with

SUMMARY = (
    "{address}: {kind}, version {version}, {files:file}, {bytes:size}; {uploaded:file} uploaded"
)


@topics_command("publish")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.argument("address")
def command(folder: str, address: str) -> Printed:
    """Upload a corpus store or a model, and make it the current version at ADDRESS.

    FOLDER is a store, a model, or the link `current` of `topics retrain`; ADDRESS is
    s3://BUCKET/NAME, gs:// or az://. Readers see the version before until everything is uploaded.
    Of several publishers one wins, and the others exit with 4.
    """
    stop_with(
        "stopped; readers still see the version before, and the same command uploads what is "
        "missing"
    )
    with show_progress() as progress:
        result = publish(folder, address, progress=progress)
    return result, render(SUMMARY, result)
