"""``topics infer``: options -> ``topicstream.infer`` -> the summary."""

from __future__ import annotations

import json
import signal
from typing import Any

import click

from topicstream.cli import startup
from topicstream.cli.eval import MODEL
from topicstream.errors import Interrupted
from topicstream.inference.methods import find, names


def _stop(signum: int, frame: object) -> None:
    raise Interrupted("stopped; nothing was written to --out, the same command starts over", signum)


_METHOD_OPTIONS = ("tol", "inner", "sparse", "sweeps", "burn", "seed", "joint")


@click.command("infer", short_help="Topics of new documents.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@MODEL
@click.option("-o", "--out", metavar="FILE", help="Write .parquet, .jsonl or .csv [default: JSON lines on stdout].")
@click.option(
    "--method",
    type=click.Choice(names()),
    default="bp",
    show_default=True,
    help="bp: deterministic fixed point; vb: variational; gibbs: sampled, each document alone.",
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="Only the N largest topics a document [default: all].")
@click.option(
    "--min-prob", type=click.FloatRange(0, 1), metavar="P", help="Only topics with at least this share [default: all]."
)
@click.option(
    "--part",
    type=click.Choice(["all", "train", "heldout"]),
    default="all",
    show_default=True,
    help="Of a corpus store.",
)
@click.option("--follow", is_flag=True, help="Standard input: answer each line as soon as it is complete.")
@click.option("--format", "format", help="Format of raw input (default: told from name and content).")
@click.option("--text-field", default=None, help="Field(s) with the text, separated by commas (default: text).")
@click.option("--id-field", help="Field with the document's id (default: id where there is one, else file:line).")
@click.option("--encoding", help="Encoding of the text (default: UTF-8, or what the byte order mark says).")
@click.option("--delimiter", help="Delimiter of CSV.")
@click.option("--weighted", is_flag=True, default=None, help="Accept weights that are no counts (svmlight).")
@click.option("--first-id", type=int, help="Number of the first word in svmlight and LDA-C files.")
@click.option("--words", "vocab", type=click.Path(), help="The words of a bag-of-words file, where not beside it.")
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default=None, help="At a bad record (default: fail).")
@click.option("--tol", type=click.FloatRange(0), help="bp, vb: change at which a document's inner iterations stop.")
@click.option("--inner", type=click.IntRange(1), help="bp, vb: most inner iterations a document (default: 100).")
@click.option("--sparse", type=click.IntRange(1), metavar="L", help="vb: at most L topics a word of a document.")
@click.option("--sweeps", type=click.IntRange(1), help="gibbs: sweeps that are averaged (default: 50).")
@click.option("--burn", type=click.IntRange(0), help="gibbs: sweeps before these (default: 30).")
@click.option("--seed", type=click.IntRange(0), help="gibbs: seed (default: 0).")
@click.option("--joint", is_flag=True, default=None, help="gibbs: all documents together; they are held in memory.")
@click.option("--threads", type=click.IntRange(1), help="Threads (default: all); the answers do not depend on them.")
@click.option("--mem-limit", help="Read the topics from disk where they take more than half of this, e.g. 2G.")
@click.option("--force", is_flag=True, help="Replace the file of --out.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON, on stdout with --out, else on stderr.")
@click.pass_obj
def command(
    own_process: bool | None,
    paths: tuple[str, ...],
    model: str,
    out: str | None,
    part: str,
    as_json: bool,
    follow: bool,
    **given: Any,
) -> None:
    """Write the topics of documents, in input order, in constant memory.

    PATH is a corpus store, or raw documents: files, folders or - for standard input, of any format that ingest reads,
    tokenised as the model's corpus was.

    A document has id, topics, shares, tokens (unknown words included), oov_rate (share of the tokens that the model does
    not know; of a store, only its own words count) and flag: empty, unknown (no word the model knows; both get the
    prior), else null.
    """
    if own_process:
        startup.arrow_by_malloc()
    from topicstream.cli.doc_progress import DocProgress
    from topicstream.cli.verbosity import verbosity
    from topicstream.inference.infer import infer

    options = {k: value for k in _METHOD_OPTIONS if (value := given.pop(k)) is not None}
    has = find(given["method"]).options()
    if other := sorted(set(options) - set(has)):
        raise click.UsageError(f"--{other[0]} is not for --method {given['method']}; it takes --{', --'.join(has)}")
    common = {k: given.pop(k) for k in ("method", "top", "min_prob", "force", "threads", "mem_limit")}
    signal.signal(signal.SIGTERM, _stop)
    progress = DocProgress()
    try:
        summary = infer(
            list(paths),
            model,
            out=out,
            parts=("train", "heldout") if part == "all" else (part,),
            follow=follow,
            progress=None if follow else progress,
            options=options,
            **common,
            **{k: v for k, v in given.items() if v is not None},
        )
    finally:
        progress.close()
    if as_json:
        click.echo(json.dumps(summary, indent=1), err=out is None)
    elif verbosity() >= 0:
        click.echo(summary_text(summary), err=True)


def summary_text(s: dict[str, Any]) -> str:
    """The summary for people, one line."""
    notes = [f"{s['documents']:,} documents"]
    for name, what in (("empty", "empty"), ("unknown", "without a known word"), ("rejected", "records rejected")):
        if s[name]:
            notes.append(f"{s[name]:,} {what}")
    notes.append(f"{100 * s['oov_rate']:.2f} % of {s['tokens']:,.0f} tokens unknown")
    notes.append(f"{s['seconds']:.1f} s, {s['documents_per_second']:,.0f} documents/s")
    return (f"{s['out']}: " if s["out"] else "") + ", ".join(notes)
