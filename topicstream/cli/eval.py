"""``topics eval``: perplexity, coherence and diversity of a model."""

from __future__ import annotations

from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.evaluation.config import EvalConfig

MODEL = click.option(
    "--model", envvar="TOPICS_MODEL", default="model", show_default=True, help="folder of the model ($TOPICS_MODEL)"
)
CORPUS = click.option(
    "--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store ($TOPICS_CORPUS)"
)


@click.command("eval")
@options_of(EvalConfig)
@as_json()
def command(as_json: bool, **values: Any) -> None:
    """Score a model.

    With none of --heldout, --whole, --pairs, --training, --coherence, --diversity, --links, --labels: held-out perplexity,
    coherence and diversity.
    """
    from topicstream.evaluation.evaluate import evaluate

    with showing() as progress:
        result = evaluate(EvalConfig(**given(values), progress=progress))
    if "warning" in result:
        click.echo(f"warning: {result['warning']}", err=True)
    if as_json:
        import json

        click.echo(json.dumps(result, indent=1, allow_nan=False))
    else:
        from topicstream.evaluation import points

        click.echo("\n".join(points.lines(result) + agreement_lines(result) if "components" in result else lines(result)))


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    out = [f"{result['model']}: {result['topics']} topics over {result['words']:,} words"]
    titles = {"heldout": "held-out perplexity", "whole": "whole documents", "training": "training perplexity"}
    for name, title in titles.items():
        if name in result:
            r = result[name]
            if r["perplexity"] is None:
                out.append(f"{title:22}infinite: the model holds a word there for impossible (its beta is 0)")
            else:
                out.append(f"{title:22}{r['perplexity']:.1f}   ({r['nats_per_token']:.4f} nats a token)")
            if "nats_per_point" in r:
                out.append(f"  {-r['nats_per_point']:.4f} nats a document")
            out.append(f"  {r['measured']}")
            scored = f"  {r['docs']:,} documents, {r['tokens']:,.0f} tokens scored"
            if r["skipped"]:
                scored += f"; {r['skipped']:,} documents too short to split were left out"
            if r["oov_tokens"]:
                scored += f"; {100 * r['oov_rate']:.2f} % of the tokens are words the model does not know, left out"
            out.append(scored)
    out += agreement_lines(result)
    if "micro_f1" in result.get("labels", {}):
        r = result["labels"]
        macro = "none" if r["macro_f1"] is None else f"{r['macro_f1']:.4f}"
        out.append(f"{'F1 of labels':22}micro {r['micro_f1']:.4f}, macro {macro} over {r['labels']:,} labels")
        out.append(f"  precision {r['precision']:.4f}, recall {r['recall']:.4f}: {r['measured']}")
        scored = f"  {r['docs']:,} documents"
        if r["accuracy"] is not None:
            scored += f"; the first label is right for {100 * r['accuracy']:.1f} % of those with one"
        if r["unlabelled"]:
            scored += f"; {r['unlabelled']:,} documents without labels were left out"
        if r["unknown_labels"]:
            scored += f"; {r['unknown_labels']:,} times a label the model does not know"
        out.append(scored)
    for name in ("authors", "authors_known"):
        if name in result:
            r = result[name]
            title = "author perplexity" if name == "authors" else "  of known authors"
            out += [f"{title:22}{r['perplexity']:.1f}   ({r['nats_per_token']:.4f} nats a token)", f"  {r['measured']}"]
    if "pairs" in result:
        r = result["pairs"]
        apart = f"   ({r['kl']:.4f} from the pairs' own distribution)" if r["kl"] is not None else ""
        out.append(f"{'pairs of words':22}{r['cross_entropy']:.4f} nats a pair{apart}")
        out.append(f"  {r['measured']}; {r['documents']:,} documents")
    if "coherence" in result:
        r = result["coherence"]
        asked = {name: title for name, title in (("npmi", "NPMI"), ("umass", "UMass")) if name in r}
        out += [f"{f'coherence ({t})':22}" + ("none" if r[k] is None else f"{r[k]:.4f}") for k, t in asked.items()]
        out.append(f"  {r['measured']}")
        means = [f"{title} {r[f'{name}_mean_topic']:.4f}" for name, title in asked.items() if r[f"{name}_mean_topic"] is not None]
        if means:
            out.append(f"  the mean topic (the words in the most documents): {', '.join(means)}")
        if r["unknown"]:
            out.append(f"  {r['unknown']} of these words are not in the corpus")
    if "diversity" in result:
        r = result["diversity"]
        out += [f"{'topic diversity':22}{r['share']:.3f}", f"  {r['measured']}"]
    if "links" in result:
        out += links_lines(result["links"])
    out += foreign_lines(result)
    if "note" in result:
        out.append(result["note"])
    return out


def foreign_lines(result: dict[str, Any]) -> list[str]:
    """What scorers of other packages found, for people."""
    from topicstream.evaluation.registry import SCORERS

    out = []
    for name, entry in result.items():
        if isinstance(entry, dict) and name not in (*SCORERS, "authors_known"):
            values = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in entry.items() if k != "measured")
            out += [f"{name:22}{', '.join(values)}", f"  {entry.get('measured', '')}".rstrip()]
    return out


def agreement_lines(result: dict[str, Any]) -> list[str]:
    """How clusters and labels agree, for people; nothing where that was not asked."""
    r = result.get("labels", {})
    if "nmi" not in r:
        return []
    out = [
        f"{'clusters and labels':22}NMI {r['nmi']:.4f}, ARI {r['ari']:.4f}, purity {r['purity']:.4f}",
        f"  {r['measured']}: {r['docs']:,} documents, {r['clusters']} clusters, {r['classes']} labels",
    ]
    return out + ([f"  {r['left_out']:,} documents without one label were left out"] if r["left_out"] else [])


def links_lines(r: dict[str, Any]) -> list[str]:
    """Link prediction for people: a line for each kind of features, and what links add to words."""
    said = {"product": "link prediction", "root": "  of square roots"}
    out = [
        f"{said[name]:22}F {r[name]['f']:.3f} ± {r[name]['f_sd']:.3f}, precision {r[name]['precision']:.3f}, "
        f"recall {r[name]['recall']:.3f}, AUC {r[name]['auc']:.3f}"
        for name in said
    ]
    out.append(f"  {r['measured']}; {r['pairs']['testing']:,} links predicted")
    if "given" in r:
        g = r["given"]
        out.append(f"{'with links given':22}{g['perplexity']:.1f}   (withheld {g['withheld']:.1f})")
        out.append(
            f"  held-out perplexity of {g['docs']:,} documents with links, {g['tokens']:,.0f} tokens scored, xi {g['xi']:.3g}"
        )
    return out
