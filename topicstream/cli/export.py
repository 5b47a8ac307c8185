"""``topics export``: options -> ``topicstream.export_model`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.eval import MODEL
from topicstream.exchange.formats import FORMATS


def listed(way: str) -> str:
    """The formats of one way, a line each, for the help."""
    return "\b\n" + "\n".join(f"  {f.name:18} {f.about}" for f in FORMATS.values() if way in f.ways.split())


@click.command(
    "export",
    short_help="Write a model, its documents' topics or its corpus for other programs.",
    help="Write a model, its documents' topics or its corpus in another program's format; nothing is held in memory whole."
    f"\n\n{listed('out')}\n\nFormats of several files take a folder. Not offered: pickles (gensim, scikit-learn: in"
    " Python, to_gensim() and to_sklearn()) and serialised Java (MALLET's own model).",
)
@MODEL
@click.option("--format", "format", metavar="NAME", help="One of the list (default: told from the name of --out).")
@click.option("-o", "--out", required=True, metavar="PATH", help="File or folder to write.")
@click.option(
    "--corpus",
    default="corpus.zarr",
    show_default=True,
    envvar="TOPICS_CORPUS",
    help="For formats that need documents.",
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="Of documents: only the N largest topics each.")
@click.option(
    "--words", type=click.IntRange(1), metavar="N", help="mallet: words in topic-keys; pyldavis: words a topic."
)
@click.option(
    "--trained", is_flag=True, help="The topics as trained, not as edited (`topics edit`); mallet-state is always so."
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def command(model: str, format: str | None, out: str, corpus: str, trained: bool, force: bool, as_json: bool, **given: Any) -> None:
    from topicstream.exchange.exchanging import export_model
    from topicstream.machine import format_bytes

    options = {k: v for k, v in given.items() if v is not None}
    summary = export_model(model, out, format=format, corpus=corpus, force=force, edits=not trained, **options)
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    what = ", ".join(f"{summary[k]:,} {k}" for k in ("documents", "topics", "words", "tokens", "cells") if k in summary)
    size = format_bytes(summary["bytes"])
    edited = " as edited" if summary.get("edited") else ""
    click.echo(f"{summary['out']}: {summary['format']}, {what}{edited}, {size}, {summary['seconds']:.1f} s")
