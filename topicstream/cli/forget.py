"""``topics forget``: remove documents permanently."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from topicstream.base.errors import InputError, TopicsError, json_line
from topicstream.base.text import render, render_each
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.retraining.forget import Forgotten, forget, trained_on

SUMMARY = """{corpus}: {documents:document} forgotten, {cells:,} values
[not in the store: {first_not_found}]"""


LIFTED = """{corpus}: {lifted:id} taken off the list of \
forgotten ones; an ingest that reads their documents takes them in"""


@topics_command("forget", indent=None)
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option(
    "--ids",
    "file",
    type=click.File("r", encoding="utf-8"),
    help="File with one id per line (-: standard input).",
)
@click.option(
    "--corpus",
    envvar="TOPICS_CORPUS",
    default="corpus.zarr",
    show_default=True,
    help="Corpus store.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A model trained on the corpus (repeatable; default: $TOPICS_MODEL or `model`, if it "
    "was trained on this corpus).",
)
@click.option(
    "--lift",
    is_flag=True,
    help="Remove nothing; allow later ingests to take documents of these ids in again.",
)
def command(
    ids: tuple[str, ...], file: Any, corpus: str, models: tuple[str, ...], lift: bool
) -> Printed:
    """Remove documents permanently, by id: text, id, topics and source.

    The store is rewritten without them. The state that training runs keep of each document is
    deleted entirely, so a run that is continued starts every block again. If the store lies in a
    folder of `topics retrain`, the runs, versions and state there are cleaned as well. Finally the
    store's table of documents is read again: exit 0 if no id is left, 1 if one is. A command that
    was reading the store meanwhile ends with exit code 4.

    Later ingests into the store leave documents of these ids out: their ids are on a list of the
    store, as hashes. --lift takes ids off the list.

    The command lists what it cannot change: raw files, exports, and the topics themselves, which
    were learned from the documents.
    """
    try:
        forgotten_ids = list(ids)
        if file is not None:
            forgotten_ids += [line.rstrip("\r\n") for line in file if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{file.name}: is not a list of ids in UTF-8, one a line") from None
    if not forgotten_ids or not all(forgotten_ids):
        raise click.UsageError("give document ids, or a file of ids with --ids FILE")
    if not models:
        default = Path(os.environ.get("TOPICS_MODEL", "model"))
        default_model_exists = any(
            (default / name).exists() for name in ("manifest.json", "training.json")
        )
        models = (str(default),) if default_model_exists and trained_on(default, corpus) else ()
    with show_progress() as progress:
        forgotten = forget(forgotten_ids, corpus, models=models, lift=lift, progress=progress)
    if lift:
        return forgotten, render(LIFTED, forgotten)
    if not forgotten["left"]:
        return forgotten, lines(forgotten)
    as_json = click.get_current_context().params["as_json"]
    click.echo(json_line(forgotten) if as_json else "\n".join(lines(forgotten)))
    raise TopicsError(
        "{file}: still contains what was to be removed ({what})".format(**forgotten["left"][0])
    )


def lines(forgotten: Forgotten) -> list[str]:
    """Format the result as lines."""
    missing = [repr(id) for id in forgotten["not_found"]]
    first_missing = missing[:10]
    if len(missing) > len(first_missing):
        first_missing.append("...")
    out = render(SUMMARY, {**forgotten, "first_not_found": first_missing})
    out += [
        f"{run}: block state and checkpoints removed; its next pass starts every block"
        for run in forgotten["runs"]
    ]
    out.append(
        "none of these ids is left in the store" if not forgotten["left"] else "ids are left:"
    )
    return [
        *out,
        *render_each("  {file}: {what}", forgotten["left"]),
        "not reached:",
        *(f"  {text}" for text in forgotten["elsewhere"]),
    ]
