"""``topics show``: words, sizes and documents of topics; topics of the training documents to a file."""

from __future__ import annotations

import click

from topicstream.cli.eval import CORPUS, MODEL


@click.command("show")
@MODEL
@CORPUS
@click.option("-n", "--words", type=click.IntRange(1), default=10, show_default=True, help="words a topic")
@click.option(
    "--relevance",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="LAMBDA",
    help="1: by probability; less favours words that few other topics have",
)
@click.option("-k", "--topic", "topics", type=int, multiple=True, help="only this topic (may be given again)")
@click.option("--docs", type=click.IntRange(0), default=0, help="also the N most typical training documents of a topic")
@click.option(
    "--theta", type=click.Path(dir_okay=False), metavar="FILE", help="write the topics of the training documents"
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="with --theta: only the N largest topics a document")
@click.option("--threads", type=click.IntRange(1), help="threads [default: all]; the result does not depend on them")
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G or 512M [default: what there is]")
@click.option("--force", is_flag=True, help="with --theta: replace the file")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(
    model: str,
    corpus: str,
    words: int,
    relevance: float,
    topics: tuple[int, ...],
    docs: int,
    theta: str | None,
    top: int | None,
    threads: int | None,
    mem_limit: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Print the topics of a model, the largest first: number, share of the tokens, first words.

    --theta FILE writes instead the topics of every training document (.parquet, .jsonl or .csv), streamed.
    """
    import json

    from topicstream.report import show as view

    if theta is not None:
        done = _write(model, corpus, theta, top, threads, mem_limit, force)
        click.echo(json.dumps({"theta": theta, "documents": done}) if as_json else f"{theta}: {done:,} documents")
        return
    if top is not None:
        raise click.UsageError("--top goes with --theta FILE; -n gives the words a topic")
    result = view.show(
        model,
        corpus,
        words=words,
        relevance=relevance,
        docs=docs,
        topics=list(topics) or None,
        threads=threads,
        mem_limit=mem_limit,
    )
    click.echo(json.dumps(result, indent=1, ensure_ascii=False) if as_json else "\n".join(view.lines(result)))


def _write(
    model: str, corpus: str, theta: str, top: int | None, threads: int | None, mem_limit: str | None, force: bool
) -> int:
    from pathlib import Path

    from topicstream.cli.doc_progress import DocProgress
    from topicstream.corpus.reader import Corpus
    from topicstream.errors import TopicsError
    from topicstream.evaluation.evaluate import open_within
    from topicstream.report.doc_topics import write_theta

    if Path(theta).exists() and not force:
        raise TopicsError(f"{theta}: exists; --force replaces it")
    opened, workers = open_within(model, mem_limit, threads)
    progress = DocProgress()
    try:
        return write_theta(
            theta,
            opened,
            Corpus.open(corpus),
            top=top,
            threads=workers,
            progress=progress,
        )
    finally:
        progress.close()
