"""``topics infer``: infer the topics of new documents."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from topicstream.base import plugins
from topicstream.base.errors import json_line
from topicstream.base.files.marker import kind_of
from topicstream.base.progress import Progress
from topicstream.base.text import render
from topicstream.cli.command import (
    Command,
    Section,
    show_progress,
    take_section_values,
    topics_command,
)
from topicstream.cli.options import config_of, options_of, value_on_line
from topicstream.cli.process import make_handler, verbosity
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import infer
from topicstream.inference.methods import DEFAULT, find_method, methods
from topicstream.ingestion.open.names import input_path

SUMMARY = (
    "[{out}: ]{documents:document}[, {empty:,} empty][, {unknown:,} without a known word][, "
    "{rejected:,} records rejected],"
    "[ {oov_rate:.2p} % of {tokens:,.0f} tokens unknown,] {seconds:.1f} s, {rate} documents/s"
)


class Messages(Progress):
    """Pass on the lines of a command that has no end to show progress towards."""

    def __init__(self, listener: Progress) -> None:
        self._listener = listener

    def say(self, line: str) -> None:
        """Report a line at once."""
        self._listener.say(line)


def options_of_method(line: Sequence[str] | None) -> Mapping[str, Section]:
    """Return the options of the method that a line names (None: of all methods)."""
    known = plugins.entries(plugins.METHODS)
    names = list(known)
    if line is not None:
        stated = value_on_line(line, "--method", DEFAULT)
        names = [stated] if stated in known else []
    return {f"Options of --method {name}": Section(find_method(name).Options) for name in names}


class InferCommand(Command):
    """``topics infer``, whose help also describes the methods."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the options, then a line for each method."""
        super().format_options(ctx, formatter)
        with formatter.section("Methods (--method NAME --help shows the options of another)"):
            formatter.write_dl(
                [(m.name, " ".join((m.__doc__ or "").split("\n\n")[0].split())) for m in methods()]
            )


@topics_command(
    "infer",
    InferCommand,
    short_help="Infer the topics of new documents.",
    sections_of=options_of_method,
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--model",
    envvar="TOPICS_MODEL",
    default="model",
    show_default=True,
    help="Folder of the model ($TOPICS_MODEL).",
)
@options_of(InferConfig, "infer")
@click.pass_context
def command(ctx: click.Context, /, paths: Sequence[str], **values: Any) -> None:
    """Write the topics of documents, in input order, in constant memory.

    PATH is a corpus store, or raw documents: files, folders or - for standard input, in any format
    that `topics ingest` reads. They are tokenised like the model's corpus. A model may stand before
    them.

    Each document has id, topics, shares, tokens (including unknown words), oov_rate (share of
    tokens that the model does not know; in a store, among the store's own words) and flag: empty,
    unknown (no known word; both get the prior), or null.
    """
    if (
        ctx.get_parameter_source("model") == ParameterSource.DEFAULT
        and len(paths) > 1
        and kind_of(os.path.realpath(paths[0])) in ("model", "version")
    ):
        values["model"], *paths = paths
    given_names = {
        name for name in values if ctx.get_parameter_source(name) != ParameterSource.DEFAULT
    }
    method_options = {
        name: value
        for name, value in take_section_values(ctx, values).items()
        if name in given_names
    }
    out = values.pop("out", None)
    signal.signal(
        signal.SIGTERM,
        make_handler("stopped; nothing was written to --out, the same command starts over"),
    )
    with show_progress() as progress:
        config = config_of(
            InferConfig,
            {**values, "documents": [input_path(p) for p in paths]},
            out=sys.stdout.buffer if out is None else out,
            progress=Messages(progress) if values["follow"] else progress,
            options=method_options,
        )
        summary = infer(config)
    rate = summary["documents_per_second"]
    text = render(SUMMARY, {**summary, "rate": f"{rate:,.{0 if rate >= 10 else 1}f}"})
    if ctx.params["as_json"]:
        click.echo(json_line(summary, 1), err=out is None)
    elif verbosity() >= 0:
        click.echo("\n".join(text), err=True)
    elif summary["rejected"]:  # missing answers are reported even with -q
        click.echo(f"warning: {summary['rejected']:,} records rejected", err=True)
