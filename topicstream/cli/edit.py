"""``topics edit``: labels, merges, drops and an order of topics, in a log beside the model."""

from __future__ import annotations

from typing import Any

import click

from topicstream.cli.eval import CORPUS
from topicstream.cli.verbosity import showing
from topicstream.errors import json_line


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"{option} {text}: give numbers of topics with commas between, such as 1,18") from None


def _labels(given: tuple[str, ...]) -> list[dict[str, Any]]:
    out = []
    for text in given:
        number, sign, label = text.partition("=")
        if not sign or not number.strip().isdecimal():
            raise click.UsageError(f'--label {text}: give the topic and its label, such as 3="machine translation"')
        out.append({"edit": "label", "topic": int(number), "label": label})
    return out


def _drop_words(file: str, place: str, corpus: str, dry_run: bool, as_json: bool) -> None:
    from topicstream.ingestion.upkeep.drop_words import drop_words, store_at

    with showing() as progress:
        done = drop_words(file, place if store_at(place) else corpus, dry_run=dry_run, progress=progress)
    if as_json:
        click.echo(json_line({**done, "dry_run": dry_run}, 1))
        return
    would = "would be " if dry_run else ""
    click.echo(
        f"{done['corpus']}: {done['dropped']:,} words {would}dropped, with {done['tokens']:,} tokens; {done['words']:,} left"
        + (f"; {done['not_found']:,} of the list were not there" if done["not_found"] else "")
    )
    if done["dropped"] and not dry_run:
        click.echo("models trained before still have these words: train anew (topics train --force)", err=True)


@click.command("edit", short_help="Label, merge, drop and order topics; propose labels.")
@click.argument("model", required=False, envvar="TOPICS_MODEL", default="model")
@click.option(
    "--label", "labels", multiple=True, metavar="N=TEXT", help="Name a topic (an empty text takes the name away)."
)
@click.option("--merge", multiple=True, metavar="N,M,...", help="Show topics as one, under the first one's number.")
@click.option("--drop", multiple=True, metavar="N,...", help="Leave topics out; their share goes to the rest.")
@click.option("--order", metavar="N,...", help="Show these first, in this order.")
@click.option(
    "--drop-words",
    type=click.Path(),
    metavar="FILE",
    help="Take the words of FILE (one a line) out of a corpus store, MODEL or --corpus, without a new ingest.",
)
@click.option(
    "--undo",
    is_flag=False,
    flag_value=1,
    type=click.IntRange(1),
    metavar="[N]",
    help="Take back the last edit, or the last N.",
)
@click.option("--propose-labels", is_flag=True, help="Name the topics without a name by their own words and phrases.")
@click.option(
    "--command",
    "program",
    metavar="CMD",
    help="With --propose-labels: CMD reads a prompt (words, documents) and prints a label.",
)
@CORPUS
@click.option(
    "--docs",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="With --command: typical documents in a prompt.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    model: str,
    labels: tuple[str, ...],
    merge: tuple[str, ...],
    drop: tuple[str, ...],
    order: str | None,
    drop_words: str | None,
    undo: int | None,
    propose_labels: bool,
    program: str | None,
    corpus: str,
    docs: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Label, merge, drop and order the topics of a model.

    The trained table is not touched: edits are a log beside the model that show, infer, report, export and eval's coherence honour, that update and
    retrain carry over, and that --undo shortens. --drop-words changes a corpus store instead, for good. Perplexity always scores the trained table. Without an option the edits
    in force are listed.
    """
    from topicstream.model.edits import edit, preview, read_log
    from topicstream.reporting.naming import proposals

    if drop_words is not None:
        if labels or merge or drop or order or undo or propose_labels or program:
            raise click.UsageError("--drop-words changes a corpus store, and goes alone")
        _drop_words(drop_words, model, corpus, dry_run, as_json)
        return
    if program and not propose_labels:
        raise click.UsageError("--command goes with --propose-labels")
    edits = _labels(labels)
    edits += [{"edit": "merge", "topics": _numbers(m, "--merge")} for m in merge]
    edits += [{"edit": "drop", "topics": _numbers(d, "--drop")} for d in drop]
    edits += [{"edit": "order", "topics": _numbers(order, "--order")}] if order else []
    if propose_labels:
        if edits or undo:
            raise click.UsageError("--propose-labels goes alone")
        found = proposals(model, corpus, program=program, docs=docs)
        edits = [{"edit": "label", "topic": k, "label": text, "by": program or "words"} for k, text in found.items()]
        if not as_json:
            for k, text in found.items():
                click.echo(f"{k:>5}  {text}")
    view = (preview if dry_run else edit)(model, edits, undo=undo or 0)
    log = read_log(model)
    if as_json:
        result = {"topics": view.ids, "labels": {str(k): v for k, v in view.labels.items()}, "edits": log}
        click.echo(json_line({**result, "dry_run": dry_run}, 1))
        return
    if not edits and not undo:
        for record in log:
            what = (
                f"{record['topic']}={record['label']}"
                if record["edit"] == "label"
                else ",".join(map(str, record["topics"]))
            )
            click.echo(f"{record.get('at', ''):26} {record['edit']} {what}")
    done = "would be" if dry_run else "are"
    merged = sum(len(m) > 1 for m in view.members)
    click.echo(
        f"{model}: {len(view)} topics {done} shown, {len(view.labels)} with a label, {merged} merged, "
        f"{len(view.dropped)} dropped",
        err=True,
    )
