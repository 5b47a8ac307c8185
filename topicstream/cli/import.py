"""``topics import``: options -> ``topicstream.import_model`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.eval import MODEL
from topicstream.cli.export import listed


@click.command(
    "import",
    short_help="Read another program's model, to show, score, compare, infer with and start from.",
    help="Read another program's model. It is shown, scored, compared and inferred with like one of ours, and a training"
    f" can start from it (--start warm --warm MODEL).\n\n{listed('in')}\n\nmallet-doc-topics makes no model: it is read"
    " into a table (--model x.parquet). gensim, scikit-learn and tomotopy models come over in Python:"
    " TopicModel.from_gensim(m).save('model').",
)
@click.argument("path")
@MODEL
@click.option("--format", "format", metavar="NAME", help="One of the list (default: told from the name of PATH).")
@click.option("--words", metavar="FILE", help="The words, one a line, where the format does not hold them.")
@click.option("--alpha", type=float, help="Prior of a topic in a document, where the format does not hold it.")
@click.option("--beta", type=float, help="Prior of a word in a topic, where the format does not hold it.")
@click.option("--tokenizer", metavar="PATH", help="Corpus store or model whose tokenizer raw text is to be read with.")
@click.option("--force", is_flag=True, help="Replace the model that is there.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def command(path: str, model: str, as_json: bool, **given: Any) -> None:
    from topicstream.exchange.exchanging import import_model

    summary = import_model(path, model, **given)
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    for note in summary.get("notes", []):
        click.echo(f"note: {note}", err=True)
    if "documents" in summary:
        click.echo(f"{summary['out']}: topics of {summary['documents']:,} documents ({summary['layout']})")
    else:
        click.echo(
            f"{summary['model']}: {summary['topics']:,} topics, {summary['words']:,} words, from {summary['format']}"
        )
