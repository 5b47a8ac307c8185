"""``topics infer``: options -> ``topicstream.infer`` -> the summary."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from topicstream.cli import startup
from topicstream.cli.eval import MODEL
from topicstream.cli.options import Depending, as_json, click_option, given, options_of, said
from topicstream.inference.config import InferConfig
from topicstream.inference.methods import find_method, foreign
from topicstream.options import ordered
from topicstream.progress import Shown


class InferCommand(Depending):
    """Adds the options of a method of another package."""

    def own_options(self, ctx: click.Context, args: list[str]) -> tuple[Mapping[str, Any], Sequence[click.Option]]:
        method = said(args, "--method", "bp")
        more = find_method(method).Options if foreign(method) else None
        own = [click_option(f) for f in ordered(more)] if more is not None else []
        return InferConfig.__dataclass_fields__, [o for o in own if o.name not in InferConfig.__dataclass_fields__]


@click.command("infer", cls=InferCommand, short_help="Topics of new documents.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@MODEL
@options_of(InferConfig, "infer")
@as_json("The summary as JSON, on stdout with --out, else on stderr.")
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], as_json: bool, **values: Any) -> None:
    """Write the topics of documents, in input order, in constant memory.

    PATH is a corpus store, or raw documents: files, folders or - for standard input, of any format that ingest reads,
    tokenised as the model's corpus was.

    A document has id, topics, shares, tokens (unknown words included), oov_rate (share of the tokens that the model does
    not know; of a store, only its own words count) and flag: empty, unknown (no word the model knows; both get the
    prior), else null.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.inference.infer import infer

    options = given(values)
    own = {name: options.pop(name) for name in ctx.meta["own"] if name in options}
    out = options.pop("out", None)
    progress = Shown(verbosity())
    told = False if "follow" in options else progress
    config = InferConfig(
        documents=[Path(p) for p in paths], out=sys.stdout.buffer if out is None else out, progress=told, options=own, **options
    )
    has = find_method(config.method).options()
    if other := sorted(set(config.of_method()) - set(has)):
        takes = ", ".join("--" + o.replace("_", "-") for o in has)
        raise click.UsageError(f"--{other[0].replace('_', '-')} is not for --method {config.method}; it takes {takes}")
    signal.signal(signal.SIGTERM, startup.stopping("stopped; nothing was written to --out, the same command starts over"))
    try:
        summary = infer(config)
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps(summary, indent=1), err=out is None)
    elif verbosity() >= 0:
        click.echo(summary_text(summary), err=True)
    elif summary["rejected"]:  # what is missing is told of, however quiet
        click.echo(f"warning: {summary['rejected']:,} records rejected", err=True)


def summary_text(s: dict[str, Any]) -> str:
    """The summary for people, one line."""
    notes = [f"{s['documents']:,} document{'s' * (s['documents'] != 1)}"]
    for name, what in (("empty", "empty"), ("unknown", "without a known word"), ("rejected", "records rejected")):
        if s[name]:
            notes.append(f"{s[name]:,} {what}")
    notes.append(f"{100 * s['oov_rate']:.2f} % of {s['tokens']:,.0f} tokens unknown")
    rate = s["documents_per_second"]
    notes.append(f"{s['seconds']:.1f} s, {rate:,.{0 if rate >= 10 else 1}f} documents/s")
    return (f"{s['out']}: " if s["out"] else "") + ", ".join(notes)
