"""``topics export``: options -> ``topicstream.export_model`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.exchange.config import ExportConfig
from topicstream.exchange.formats import FORMATS


def formats_listed(way: str) -> str:
    """The formats of one way, a line each, for the help."""
    return "\b\n" + "\n".join(f"  {f.name:18} {f.about}" for f in FORMATS.values() if way in f.ways.split())


@click.command(
    "export",
    short_help="Write a model, its documents' topics or its corpus for other programs.",
    help="Write a model, its documents' topics or its corpus in another program's format; nothing is held in memory whole."
    f"\n\n{formats_listed('out')}\n\nFormats of several files take a folder. Not offered: pickles (gensim, scikit-learn: in"
    " Python, to_gensim() and to_sklearn()) and serialised Java (MALLET's own model).",
)
@options_of(ExportConfig)
@as_json("The summary as JSON.")
def command(as_json: bool, **values: Any) -> None:
    """Write a model, its documents' topics or its corpus; the help above lists the formats."""
    from topicstream.exchange.exchanging import export_model
    from topicstream.machine import format_bytes

    summary = export_model(ExportConfig(**given(values)))
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    what = ", ".join(f"{summary[k]:,} {k}" for k in ("documents", "topics", "words", "tokens", "cells") if k in summary)
    size = format_bytes(summary["bytes"])
    edited = " as edited" if summary.get("edited") else ""
    click.echo(f"{summary['out']}: {summary['format']}, {what}{edited}, {size}, {summary['seconds']:.1f} s")
