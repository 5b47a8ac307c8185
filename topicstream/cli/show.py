"""``topics show``: words, sizes and documents of topics; topics of the training documents to a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing, verbosity
from topicstream.errors import json_line
from topicstream.reporting.config import ShowConfig


@click.command("show")
@options_of(ShowConfig)
@click.option(
    "--theta", type=click.Path(dir_okay=False), metavar="FILE", help="write the topics of the training documents"
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="with --theta: only the N largest topics a document")
@click.option(
    "--part",
    type=click.Choice(["train", "heldout", "all"]),
    default="train",
    show_default=True,
    help="with --theta: which documents",
)
@click.option("--over-time", "over_time", is_flag=True, help="shares of topics by period (the documents' column date)")
@click.option("--by", metavar="COLUMN", help="shares by the values of a column; with --over-time by both")
@click.option(
    "--period",
    type=click.Choice(["day", "week", "month", "quarter", "year", "decade", "century"]),
    help="with --over-time [default: by the dates]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="with --over-time, --by: the table as .parquet, .csv or .jsonl",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="with --over-time, --by: curves as .svg, .png or .pdf",
)
@click.option("--similar", metavar="ID", help="documents whose topics are most like this one's; -n says how many")
@click.option(
    "--links",
    metavar="ID",
    help="of a model of --algo rtm: documents that this one is most likely linked with, but is not yet; -n says how many",
)
@click.option(
    "--authors", is_flag=True, help="of an author-topic model: the first authors of the topics; -n says how many"
)
@click.option(
    "--author", metavar="NAME", help="of an author-topic model: topics of an author, and the authors nearest to it"
)
@click.option(
    "--experts",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="the authors who know about a text, by the documents of the corpus; where that is not there, by the topics of a "
    "model of --algo atm, which rank worse; -n says how many",
)
@click.option(
    "--intrusion",
    type=click.Choice(["words", "topics"]),
    help="a sheet to test topics on people (who does not belong?) to --out, .html or a table; the answers to FILE.key.csv",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="with --intrusion [default: 0]")
@click.option("--tree", is_flag=True, help="how topics join, step by step")
@click.option("--reduce-to", type=click.IntRange(1), metavar="N", help="the N groups of topics that the tree leaves")
@click.option(
    "--pairs", is_flag=True, help="of a model of --algo fdm: which topics go together; -n says how many pairs"
)
@click.option("--force", is_flag=True, help="replace the file that is written")
@as_json()
def command(as_json: bool, **values: Any) -> None:
    """Print the topics of a model, the largest first: number, share of the tokens, first words.

    Instead: --over-time and --by give mean shares with standard errors (regression of documents' shares on the groups, as
    stm's estimateEffect), --similar documents, --tree the topics' hierarchy; --theta FILE writes the topics of every training document (.parquet, .jsonl or .csv), streamed.
    """
    from topicstream.model.gaussians import is_of_vectors

    asked = [view for view, names in VIEWS.items() if any(values[n] not in (None, False) for n in names)]
    view = _components if is_of_vectors(values["model"]) else asked[0] if asked else _topics
    if len(asked) > 1 and view is not _components:
        raise click.UsageError(
            "--theta, --over-time (--by), --similar, --links, --pairs, --tree (--reduce-to), --authors, --author and --experts go one at a time"
        )
    if any(values[n] for n in ("out", "plot", "period")) and view not in TO_FILES:
        raise click.UsageError("--out, --plot and --period go with --over-time or --by")
    if (told := view({**values, "as_json": as_json})) is not None:
        click.echo(json_line(told[0], 1) if as_json else "\n".join(told[1]))


Said = tuple[Any, list[str]] | None
"""What a view found, and its lines for people; None where it has said all."""


def _width() -> int | None:
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _limits(v: dict[str, Any]) -> dict[str, Any]:
    return {"threads": v["threads"], "mem_limit": v["mem_limit"]}


def _topics(v: dict[str, Any]) -> Said:
    from topicstream.reporting import show as view

    if v["top"] is not None:
        raise click.UsageError("--top goes with --theta FILE; -n gives the words a topic")
    found = view.show(ShowConfig(**given({f.name: v[f.name] for f in fields(ShowConfig) if f.name in v})))
    return found, view.lines(found, _width())


def _similar(v: dict[str, Any]) -> Said:
    from topicstream.errors import one_line
    from topicstream.reporting.show import wrapped
    from topicstream.reporting.similar import similar

    found = similar(v["model"], v["corpus"], v["similar"], n=v["words"], with_columns=v["with_columns"], **_limits(v))
    texts = [f"{d['id']}  {one_line(d.get('title') or '')}".rstrip() for d in found["similar"]]
    lines = [wrapped(f"{d['likeness']:.3f}  ", text, _width()) for d, text in zip(found["similar"], texts, strict=True)]
    return found, [line for parts in lines for line in parts]


def _tree(v: dict[str, Any]) -> Said:
    from topicstream.reporting.show import wrapped
    from topicstream.reporting.similar import hierarchy, tree_lines

    found = hierarchy(v["model"], reduce_to=v["reduce_to"], mem_limit=v["mem_limit"])
    lines = tree_lines(found)
    if v["reduce_to"] is not None:
        heads = [25 if line[24] == " " else 0 for line in lines]  # longer lists of numbers run over
        lines = [part for n, line in zip(heads, lines, strict=True) for part in wrapped(line[:n], line[n:], _width())]
    return found, lines


def _pairs(v: dict[str, Any]) -> Said:
    from topicstream.reporting.pairs import lines, topic_pairs

    found = topic_pairs(v["model"], n=v["words"], mem_limit=v["mem_limit"])
    return found, lines(found)


def _links(v: dict[str, Any]) -> Said:
    from topicstream.reporting.links import lines, links

    found = links(v["model"], v["corpus"], v["links"], n=v["words"], with_columns=v["with_columns"], **_limits(v))
    return found, lines(found)


def _authors(v: dict[str, Any]) -> Said:
    from topicstream.reporting.authors import top_authors, top_lines

    found = top_authors(v["model"], n=v["words"], topics=list(v["topics"]) or None)
    return found, top_lines(found)


def _author(v: dict[str, Any]) -> Said:
    from topicstream.reporting.authors import author, author_lines

    found = author(v["model"], v["author"], n=v["words"])
    return found, author_lines(found)


def _experts(v: dict[str, Any]) -> Said:
    from pathlib import Path

    from topicstream.reporting.authors import expert_lines, experts

    said = click.get_current_context().get_parameter_source("corpus") is not click.core.ParameterSource.DEFAULT
    corpus = v["corpus"] if said or Path(v["corpus"]).exists() else None
    found = experts(v["model"], Path(v["experts"]), corpus=corpus, n=v["words"], mem_limit=v["mem_limit"])
    return found, expert_lines(found)


def _over_time(v: dict[str, Any]) -> Said:
    from topicstream.evaluation.table_file import check_table_file, write_table
    from topicstream.reporting import over_time as view

    out, plot, force = v["out"], v["plot"], v["force"]
    if out is not None:  # both places, before the documents are read
        check_table_file(out, "--out", force=force)
    if plot is not None:
        view.figure_file(plot, force=force)
    asked = {"time": v["over_time"], "by": v["by"], "period": v["period"], "topics": list(v["topics"]) or None}
    with showing() as progress:
        table = view.over_time(v["model"], v["corpus"], **asked, progress=progress, **_limits(v))
    if out is not None:
        write_table(table, out, force=force)
        click.echo(f"{out}: {len(table):,} rows", err=True)
    if plot is not None:
        drawn = view.plot(table, plot, force=force)
        click.echo(f"{plot}: {drawn} topics", err=True)
    quiet = (out is not None or plot is not None) and not v["as_json"]
    return None if quiet else (table.to_pylist(), view.lines(table, _width() or 80))


def _intrusion(v: dict[str, Any]) -> Said:
    from pathlib import Path

    from topicstream.evaluation.table_file import check_table_file, write_table
    from topicstream.reporting.intrusion import check_sheet, sheet_and_key, topic_intrusion, word_intrusion, write_sheet

    if v["out"] is None:
        raise click.UsageError("--intrusion goes with --out FILE.html or FILE.csv")
    out, force = Path(v["out"]), v["force"]
    key = out.with_suffix(".key.csv")
    check_sheet(out, force=force)
    check_table_file(key, "--out", force=force)
    if v["intrusion"] == "words":
        table = word_intrusion(v["model"], seed=v["seed"], mem_limit=v["mem_limit"])
    else:
        table = topic_intrusion(v["model"], v["corpus"], seed=v["seed"], **_limits(v))
    sheet, answers = sheet_and_key(table)
    write_sheet(sheet, out, force=force)
    write_table(answers, key, force=force)
    click.echo(f"{v['out']}: {len(table)} questions; the answers are in {key}", err=True)
    return None


OF_VECTORS = {"model", "corpus", "words", "topics", "plot", "force", "as_json", "mem_limit", "threads"}


def _components(v: dict[str, Any]) -> Said:
    from topicstream.reporting.components import lines, sheet, show_components

    ctx, plot = click.get_current_context(), v["plot"]
    said = {n for n in ctx.params if ctx.get_parameter_source(n) is click.core.ParameterSource.COMMANDLINE} - OF_VECTORS
    if said:
        name = min(said).replace("_", "-")
        raise click.UsageError(
            f"{v['model']}: a model of vectors; --{name} is for topics (-k, -n and --plot FILE.png or FILE.svg go)"
        )
    if plot is not None:
        rows = sheet(v["model"], plot, force=v["force"])
        return {"plot": plot, "components": rows}, [f"{plot}: {rows} components"]
    found = show_components(v["model"], words=v["words"], topics=list(v["topics"]) or None)
    return found, lines(found)


def _theta(v: dict[str, Any]) -> Said:
    import json

    from topicstream.corpus.reader import Corpus
    from topicstream.evaluation.memory import open_within
    from topicstream.inference.output import check_answers
    from topicstream.reporting.doc_topics import write_theta

    check_answers(v["theta"], "--theta", [v["corpus"], v["model"]], force=v["force"])
    opened, workers = open_within(v["model"], v["mem_limit"], v["threads"])
    store, part = Corpus.open(v["corpus"]), v["part"]
    if part == "train" and (left := store.part(True)["docs"]) and verbosity() >= 0:
        click.echo(f"{left:,} documents set aside are left out; --part all writes them too", err=True)
    parts = ("train", "heldout") if part == "all" else (part,)
    with showing() as progress:
        done = write_theta(
            v["theta"], opened, store, top=v["top"], parts=parts, with_columns=v["with_columns"] or [],
            threads=workers, force=v["force"], progress=progress,
        )  # fmt: skip
    said = json.dumps({"theta": v["theta"], "documents": done})
    click.echo(said if v["as_json"] else f"{v['theta']}: {done:,} documents")
    return None


VIEWS: dict[Callable[[dict[str, Any]], Said], tuple[str, ...]] = {
    _theta: ("theta",),
    _over_time: ("over_time", "by"),
    _similar: ("similar",),
    _links: ("links",),
    _tree: ("tree", "reduce_to"),
    _pairs: ("pairs",),
    _intrusion: ("intrusion",),
    _authors: ("authors",),
    _author: ("author",),
    _experts: ("experts",),
}
"""View -> the options that ask for it."""
TO_FILES = (_over_time, _intrusion, _authors, _author, _experts, _components)
"""Views that --out, --plot or --period are for, or mean nothing to."""
