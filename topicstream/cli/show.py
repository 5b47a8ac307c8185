"""``topics show``: words, sizes and documents of topics; topics of the training documents to a file."""

from __future__ import annotations

from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
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
    help="of an author-topic model: the authors who know about a text; -n says how many",
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
def command(
    theta: str | None,
    top: int | None,
    part: str,
    over_time: bool,
    by: str | None,
    period: str | None,
    out: str | None,
    plot: str | None,
    similar: str | None,
    links: str | None,
    authors: bool,
    author: str | None,
    experts: str | None,
    intrusion: str | None,
    seed: int,
    tree: bool,
    reduce_to: int | None,
    pairs: bool,
    force: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Print the topics of a model, the largest first: number, share of the tokens, first words.

    Instead: --over-time and --by give mean shares with standard errors (regression of documents' shares on the groups, as
    stm's estimateEffect), --similar documents, --tree the topics' hierarchy; --theta FILE writes the topics of every training document (.parquet, .jsonl or .csv), streamed.
    """
    import json
    import shutil
    import sys

    from topicstream.errors import one_line
    from topicstream.model.gaussians import is_of_vectors
    from topicstream.reporting import show as view

    model, corpus, words, topics = (values[n] for n in ("model", "corpus", "words", "topics"))
    with_columns, threads, mem_limit = (values[n] for n in ("with_columns", "threads", "mem_limit"))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    limits = {"threads": threads, "mem_limit": mem_limit}
    if is_of_vectors(model):
        _components(click.get_current_context(), model, words, list(topics) or None, plot, force, as_json)
        return
    if (
        sum(
            (
                theta is not None,
                over_time or by is not None,
                similar is not None,
                links is not None,
                tree or reduce_to is not None,
                pairs,
                intrusion is not None,
                authors,
                author is not None,
                experts is not None,
            )
        )
        > 1
    ):
        raise click.UsageError(
            "--theta, --over-time (--by), --similar, --links, --pairs, --tree (--reduce-to), --authors, --author and --experts go one at a time"
        )
    if authors or author is not None or experts is not None:
        found, said = _authors(model, author, experts, words, list(topics) or None, mem_limit)
        click.echo(json_line(found, 1) if as_json else "\n".join(said))
        return
    if intrusion is not None:
        _intrusion(model, corpus, intrusion, seed, out, force, limits)
        return
    if (out or plot or period) and not (over_time or by):
        raise click.UsageError("--out, --plot and --period go with --over-time or --by")
    if over_time or by is not None:
        _over_time(model, corpus, over_time, by, period, topics, out, plot, force, as_json, width or 80, limits)
        return
    if similar is not None or tree or reduce_to is not None:
        from topicstream.reporting.similar import hierarchy, tree_lines
        from topicstream.reporting.similar import similar as like

        if similar is not None:
            found = like(model, corpus, similar, n=words, with_columns=with_columns, **limits)
            said = [
                line
                for d in found["similar"]
                for line in view.wrapped(
                    f"{d['likeness']:.3f}  ", f"{d['id']}  {one_line(d.get('title') or '')}".rstrip(), width
                )
            ]
        else:
            found = hierarchy(model, reduce_to=reduce_to, mem_limit=mem_limit)
            said = tree_lines(found)
            if reduce_to is not None:
                head = [25 if line[24] == " " else 0 for line in said]  # longer lists of numbers run over
                said = [
                    part for n, line in zip(head, said, strict=True) for part in view.wrapped(line[:n], line[n:], width)
                ]
        click.echo(json_line(found, 1) if as_json else "\n".join(said))
        return
    if pairs:
        from topicstream.reporting.pairs import lines as pair_lines
        from topicstream.reporting.pairs import topic_pairs

        found = topic_pairs(model, n=words, mem_limit=mem_limit)
        click.echo(json_line(found, 1) if as_json else "\n".join(pair_lines(found)))
        return
    if links is not None:
        from topicstream.reporting.links import lines
        from topicstream.reporting.links import links as candidates

        found = candidates(model, corpus, links, n=words, with_columns=with_columns, **limits)
        click.echo(json_line(found, 1) if as_json else "\n".join(lines(found)))
        return
    if theta is not None:
        done = _write(model, corpus, theta, top, part, with_columns or [], threads, mem_limit, force)
        click.echo(json.dumps({"theta": theta, "documents": done}) if as_json else f"{theta}: {done:,} documents")
        return
    if top is not None:
        raise click.UsageError("--top goes with --theta FILE; -n gives the words a topic")
    result = view.show(ShowConfig(**given(values)))
    click.echo(json_line(result, 1) if as_json else "\n".join(view.lines(result, width)))


def _authors(
    model: str, author: str | None, experts: str | None, n: int, topics: list[int] | None, mem_limit: str | None
) -> tuple[dict[str, Any], list[str]]:
    """What is asked of an author-topic model, and its lines."""
    from pathlib import Path

    from topicstream.reporting import authors as view

    if author is not None:
        found = view.author(model, author, n=n)
        return found, view.author_lines(found)
    if experts is not None:
        found = view.experts(model, Path(experts), n=n, mem_limit=mem_limit)
        return found, view.expert_lines(found)
    found = view.top_authors(model, n=n, topics=topics)
    return found, view.top_lines(found)


def _over_time(
    model: str,
    corpus: str,
    time: bool,
    by: str | None,
    period: str | None,
    topics: tuple[int, ...],
    out: str | None,
    plot: str | None,
    force: bool,
    as_json: bool,
    width: int,
    limits: dict[str, Any],
) -> None:
    from topicstream.cli.verbosity import verbosity
    from topicstream.evaluation.table_file import check_table_file, write_table
    from topicstream.progress import Shown
    from topicstream.reporting import over_time as view

    if out is not None:  # both places, before the documents are read
        check_table_file(out, "--out", force=force)
    if plot is not None:
        view.figure_file(plot, force=force)
    progress = Shown(verbosity())
    try:
        table = view.over_time(
            model, corpus, time=time, by=by, period=period, topics=list(topics) or None, progress=progress, **limits
        )
    finally:
        progress.close()
    if out is not None:
        write_table(table, out, force=force)
        click.echo(f"{out}: {len(table):,} rows", err=True)
    if plot is not None:
        drawn = view.plot(table, plot, force=force)
        click.echo(f"{plot}: {drawn} topics", err=True)
    if as_json:
        click.echo(json_line(table.to_pylist(), 1))
    elif out is None and plot is None:
        click.echo("\n".join(view.lines(table, width)))


def _intrusion(
    model: str, corpus: str, kind: str, seed: int, out: str | None, force: bool, limits: dict[str, Any]
) -> None:
    from pathlib import Path

    from topicstream.evaluation.table_file import check_table_file, write_table
    from topicstream.reporting.intrusion import check_sheet, sheet_and_key, topic_intrusion, word_intrusion, write_sheet

    if out is None:
        raise click.UsageError("--intrusion goes with --out FILE.html or FILE.csv")
    key = Path(out).with_suffix(".key.csv")
    check_sheet(Path(out), force=force)
    check_table_file(key, "--out", force=force)
    if kind == "words":
        table = word_intrusion(model, seed=seed, mem_limit=limits["mem_limit"])
    else:
        table = topic_intrusion(model, corpus, seed=seed, **limits)
    sheet, answers = sheet_and_key(table)
    write_sheet(sheet, Path(out), force=force)
    write_table(answers, key, force=force)
    click.echo(f"{out}: {len(table)} questions; the answers are in {key}", err=True)


VECTORS = {"model", "corpus", "words", "topics", "plot", "force", "as_json", "mem_limit", "threads"}


def _components(
    ctx: click.Context, model: str, words: int, topics: list[int] | None, plot: str | None, force: bool, as_json: bool
) -> None:
    from topicstream.reporting.components import lines, sheet, show_components

    said = {n for n in ctx.params if ctx.get_parameter_source(n) is click.core.ParameterSource.COMMANDLINE} - VECTORS
    if said:
        name = min(said).replace("_", "-")
        raise click.UsageError(
            f"{model}: a model of vectors; --{name} is for topics (-k, -n and --plot FILE.png or FILE.svg go)"
        )
    if plot is not None:
        rows = sheet(model, plot, force=force)
        click.echo(json_line({"plot": plot, "components": rows}, 1) if as_json else f"{plot}: {rows} components")
        return
    found = show_components(model, words=words, topics=topics)
    click.echo(json_line(found, 1) if as_json else "\n".join(lines(found)))


def _write(
    model: str,
    corpus: str,
    theta: str,
    top: int | None,
    part: str,
    columns: list[str],
    threads: int | None,
    mem_limit: str | None,
    force: bool,
) -> int:

    from topicstream.cli.verbosity import verbosity
    from topicstream.corpus.reader import Corpus
    from topicstream.evaluation.memory import open_within
    from topicstream.inference.output import check_answers
    from topicstream.progress import Shown
    from topicstream.reporting.doc_topics import write_theta

    check_answers(theta, "--theta", [corpus, model], force=force)
    opened, workers = open_within(model, mem_limit, threads)
    progress, store = Shown(verbosity()), Corpus.open(corpus)
    if part == "train" and (left := store.part(True)["docs"]) and verbosity() >= 0:
        click.echo(f"{left:,} documents set aside are left out; --part all writes them too", err=True)
    try:
        return write_theta(
            theta,
            opened,
            store,
            top=top,
            parts=("train", "heldout") if part == "all" else (part,),
            with_columns=columns,
            threads=workers,
            force=force,
            progress=progress,
        )
    finally:
        progress.close()
