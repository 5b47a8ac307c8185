"""``topics eval``: perplexity, coherence and diversity of a model."""

from __future__ import annotations

from typing import Any

import click

MODEL = click.option(
    "--model", envvar="TOPICS_MODEL", default="model", show_default=True, help="folder of the model ($TOPICS_MODEL)"
)
CORPUS = click.option(
    "--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store ($TOPICS_CORPUS)"
)


@click.command("eval")
@MODEL
@CORPUS
@click.option(
    "--heldout",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[CORPUS|FILE]",
    help="perplexity of the documents set aside at ingest; or of another corpus store, or of raw text",
)
@click.option("--training", is_flag=True, help="exact perplexity of the training documents")
@click.option("--coherence", "coherent", is_flag=True, help="UMass and NPMI coherence of the topics' first words")
@click.option("--diversity", "diverse", is_flag=True, help="share of distinct words among the topics' first 25")
@click.option("--split", default="80/20", show_default=True, help="observed and scored shares of a document's words")
@click.option("--top", type=click.IntRange(2), default=10, show_default=True, help="words a topic for the coherence")
@click.option("--threads", type=click.IntRange(1), help="threads [default: all]; the result does not depend on them")
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G or 512M [default: what there is]")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(as_json: bool, heldout: str | None, **options: Any) -> None:
    """Score a model.

    With none of --heldout, --training, --coherence, --diversity: held-out perplexity, coherence and diversity.
    """
    from topicstream.cli.doc_progress import DocProgress
    from topicstream.evaluation.evaluate import evaluate

    progress = DocProgress()
    try:
        result = evaluate(heldout=heldout or heldout is not None, progress=progress, **options)
    finally:
        progress.close()
    if as_json:
        import json

        click.echo(json.dumps(result, indent=1, allow_nan=False))
    else:
        click.echo("\n".join(lines(result)))


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    out = [f"{result['model']}: {result['topics']} topics over {result['words']:,} words"]
    for name in ("heldout", "training"):
        if name in result:
            r = result[name]
            title = "held-out perplexity" if name == "heldout" else "training perplexity"
            if r["perplexity"] is None:
                out.append(f"{title:22}infinite: the model holds a word there for impossible (its beta is 0)")
            else:
                out.append(f"{title:22}{r['perplexity']:.1f}   ({r['nats_per_token']:.4f} nats a token)")
            out.append(f"  {r['measured']}")
            scored = f"  {r['docs']:,} documents, {r['tokens']:,.0f} tokens scored"
            if r["skipped"]:
                scored += f"; {r['skipped']:,} documents too short to split were left out"
            if r["oov_tokens"]:
                scored += f"; {100 * r['oov_rate']:.2f} % of the tokens are words the model does not know, left out"
            out.append(scored)
    if "coherence" in result:
        r = result["coherence"]
        npmi, umass = (f"{r[k]:.4f}" if r[k] is not None else "none" for k in ("npmi", "umass"))
        out += [f"{'coherence (NPMI)':22}{npmi}", f"{'coherence (UMass)':22}{umass}", f"  {r['measured']}"]
        if r["unknown"]:
            out.append(f"  {r['unknown']} of these words are not in the corpus")
    if "diversity" in result:
        r = result["diversity"]
        out += [f"{'topic diversity':22}{r['share']:.3f}", f"  {r['measured']}"]
    if "note" in result:
        out.append(result["note"])
    return out
