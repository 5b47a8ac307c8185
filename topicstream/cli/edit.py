"""``topics edit``: label, merge, drop and order topics, in a log beside the model."""

from __future__ import annotations

from typing import Any, cast

import click

from topicstream.base.files.marker import kind_of
from topicstream.base.options import numbers
from topicstream.base.records import Json, plain
from topicstream.base.text import render, render_each
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.extension import extended, take_extensions
from topicstream.ingestion.tokens.word_lists import describe_parts
from topicstream.ingestion.upkeep.drop_words import drop_words
from topicstream.model.edits import Label, apply_view, edit, read_log
from topicstream.model.topic_kinds import describe_topics
from topicstream.model.topic_model import TopicModel

DROPPED = (
    "{corpus}: {dropped:word} {would}dropped, with {tokens:,.0f} tokens; {words:,} left[; "
    "{not_found:,} of the list were not there: {missing:, }][; counted in parts: {in_parts}]"
)


def _parse_label(text: str) -> dict[str, Json]:
    """Parse ``TOPIC=LABEL``."""
    number, sign, label = text.partition("=")
    if not sign or not number.strip().isdecimal():
        raise click.UsageError(
            f'--label {text}: expected TOPIC=LABEL, such as 3="machine translation"'
        )
    return {"edit": "label", "topic": int(number), "label": label}


def _drop_words(words: str, place: str, corpus: str, dry_run: bool) -> Printed:
    """Drop the words in a file from the store at ``place``, or else from ``corpus``."""
    with show_progress() as progress:
        summary = drop_words(
            words,
            place if kind_of(place) == "corpus" else corpus,
            dry_run=dry_run,
            progress=progress,
        )
    if summary["dropped"] and not dry_run:
        click.echo(
            "models trained before still have these words: train again (topics train --force)",
            err=True,
        )
    return {**summary, "dry_run": dry_run}, render(
        DROPPED,
        {
            **summary,
            "would": "would be " if dry_run else "",
            "in_parts": describe_parts(cast("dict[str, list[str]]", summary["parted"])),
        },
    )


@topics_command("edit", short_help="Label, merge, drop and order topics; propose labels.")
@click.argument("model", required=False, envvar="TOPICS_MODEL", default="model")
@click.option(
    "--label", multiple=True, metavar="N=TEXT", help="Name a topic; an empty text removes the name."
)
@click.option(
    "--merge",
    multiple=True,
    metavar="N,M,...",
    help="Show several topics as one, under the number of the first.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="N,...",
    help="Leave topics out; their share goes to the others.",
)
@click.option("--order", metavar="N,...", help="Show these first, in this order.")
@click.option(
    "--drop-words",
    type=click.Path(),
    metavar="FILE",
    help="Remove the words in FILE (one per line) from a corpus store, given as MODEL or "
    "--corpus, without a new ingest.",
)
@click.option(
    "--undo",
    is_flag=False,
    flag_value=1,
    type=click.IntRange(1),
    metavar="[N]",
    help="Undo the last edit, or the last N.",
)
@click.option(
    "--corpus",
    envvar="TOPICS_CORPUS",
    default="corpus.zarr",
    show_default=True,
    help="Corpus store ($TOPICS_CORPUS).",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
@extended("edit")
def command(model: str, corpus: str, dry_run: bool, **options: Any) -> Printed:
    """Label, merge, drop and order the topics of a model.

    Edits are a log next to the model; the trained table does not change. `show`, `infer`, `report`,
    `export` and the coherence of `eval` apply them, `update` and `retrain` keep them, and --undo
    removes them. Perplexity always scores the trained table. --drop-words is different: it changes
    a corpus store permanently. Without options, the current edits are listed.
    """
    words_file = options.pop("drop_words")
    undo = options.pop("undo")
    requested = take_extensions("edit", options)
    if words_file is not None:
        if any(options.values()) or undo or requested:
            raise click.UsageError(
                "--drop-words changes a corpus store and cannot be combined with other edits"
            )
        return _drop_words(words_file, model, corpus, dry_run)
    edits = [_parse_label(text) for text in options["label"]]
    for kind in ("merge", "drop", "order"):
        texts = (options[kind],) if isinstance(options[kind], str) else options[kind] or ()
        edits += [{"edit": kind, "topics": numbers(text)} for text in texts]
    proposed: list[str] = []
    for extension, extension_options in requested.values():
        if edits or undo:
            raise click.UsageError(f"{extension.requires} cannot be combined with other edits")
        edits = extension.run(model, corpus, extension_options)
        proposed = render_each("{topic:>5}  {label}", edits)
    view = edit(model, edits, undo=undo or 0, dry_run=dry_run)
    log = read_log(model)
    edited = apply_view(TopicModel.open(model, memory_limit=-1), view)
    described = describe_topics(len(view), edited.background_topic)
    verb = "is" if len(view) == 1 else "are"
    if dry_run:
        verb = "would be"
    merged = sum(len(members) > 1 for members in view.members)
    click.echo(
        f"{model}: {described} {verb} shown, {len(view.labels)} with a label, {merged} merged, "
        f"{len(view.dropped)} dropped",
        err=True,
    )
    records = log if not edits and not undo else []
    names = {str(k): label for k, label in view.labels.items()}
    topics = [view.ids[k] for k in view.listing]
    result = {"topics": topics, "labels": names, "edits": plain(log), "dry_run": dry_run}
    lines = proposed
    for record in records:
        if isinstance(record, Label):
            change = f"{record.topic}={record.label}"
        else:
            change = ",".join(map(str, record.topics))
        lines.append(f"{record.at or '':26} {type(record).__name__.lower()} {change}")
    return result, lines
