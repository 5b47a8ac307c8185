"""``topics eval``: perplexity, coherence and diversity of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from topicstream.cli.command import Printed, Section, asked_values, showing, topics_command
from topicstream.cli.options import made, options_of, value_on_line
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.evaluate import evaluate
from topicstream.evaluation.registry import SCORERS, foreign_scorers
from topicstream.evaluation.registry import options_of as scorer_options
from topicstream.text import render

PERPLEXITY = """{title:22}{perplexity:.1f}   ({nats_per_token:.4f} nats a token)
[  {nats_a_document} nats a document]
  {measured}
  {docs:,} documents, {tokens:,.0f} tokens scored[; {skipped:,} documents too short to split were left out][{oov_tokens:?}; {oov_rate:.2p} % of the tokens are words the model does not know, left out]
"""
F1 = """F1 of labels          micro {micro_f1:.4f}, macro {macro_f1:.4f} over {labels:,} labels
  precision {precision:.4f}, recall {recall:.4f}: {measured}
  {docs:,} documents[; the first label is right for {accuracy:.1p} % of those with one][; {unlabelled:,} documents without labels were left out][; {unknown_labels:,} times a label the model does not know]
"""
CLUSTERS = """clusters and labels   NMI {nmi:.4f}, ARI {ari:.4f}, purity {purity:.4f}
  {measured}: {docs:,} documents, {clusters} clusters, {classes} labels
[  {left_out:,} documents without one label were left out]
"""
COHERENCE = """[{with_npmi:?}coherence (NPMI)      {npmi:.4f}]
[{with_umass:?}coherence (UMass)     {umass:.4f}]
[{with_c_v:?}coherence (c_v)       {c_v:.4f}]
  {measured}
[  the mean topic (the words in the most documents): {mean_topic}]
[  {unknown} of these words are not in the corpus]
"""
LINKS = """link prediction       F {product.f:.3f} ± {product.f_sd:.3f}, precision {product.precision:.3f}, recall {product.recall:.3f}, AUC {product.auc:.3f}
  of square roots     F {root.f:.3f} ± {root.f_sd:.3f}, precision {root.precision:.3f}, recall {root.recall:.3f}, AUC {root.auc:.3f}
  {measured}; {pairs.testing:,} links predicted
[with links given      {given.perplexity:.1f}   (withheld {given.withheld:.1f})
  held-out perplexity of {given.docs:,} documents with links, {given.tokens:,.0f} tokens scored, xi {given.xi:.3g}]
"""
AUTHORS = "{title:22}{perplexity:.1f}   ({nats_per_token:.4f} nats a token)\n  {measured}"
POINTS = "{title:22}{loglik:.4f} nats a point   ({points:,} points; {measured})"
SCORES = {
    "heldout": PERPLEXITY,
    "whole": PERPLEXITY,
    "training": PERPLEXITY,
    "labels": F1,
    "authors": AUTHORS,
    "authors_known": AUTHORS,
    "pairs": "pairs of words        {cross_entropy:.4f} nats a pair[   ({kl:.4f} from the pairs' own distribution)]\n"
    "  {measured}; {documents:,} documents",
    "coherence": COHERENCE,
    "diversity": "topic diversity       {share:.3f}\n  {measured}",
    "links": LINKS,
}
"""Score -> its lines, in their order."""
TITLES = {"heldout": "held-out perplexity", "whole": "whole documents", "training": "training perplexity",
          "authors": "author perplexity", "authors_known": "  of known authors"}  # fmt: skip


def options_of_scorers(line: Sequence[str]) -> Mapping[str, Section]:
    """The options of our scorers, and of those of other packages that a line names."""
    foreign = foreign_scorers([name for name in value_on_line(line, "--score", "").split(",") if name])
    return {"What is scored": Section(scorer_options([*SCORERS, *foreign]))}


@topics_command("eval", asked_by=options_of_scorers)
@options_of(EvalConfig)
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> Printed:
    """Score a model.

    With nothing asked for: held-out perplexity, coherence and diversity.
    """
    named = {name for name in values if ctx.get_parameter_source(name) != ParameterSource.DEFAULT}
    options = {name: value for name, value in asked_values(ctx, values).items() if name in named}
    with showing() as progress:
        result = evaluate(made(EvalConfig, values, options=options, progress=progress))
    if "warning" in result:
        click.echo(f"warning: {result['warning']}", err=True)
    return result, lines(result)


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    if "components" in result:
        out = render("{model}: {components} components over {numbers} numbers", result)
        for name, title in (("heldout", "held-out"), ("training", "training")):
            if name in result:
                score = result[name]
                out += render(POINTS, {**score, "title": title, "loglik": -score["nats_per_point"]})
        return out + agreement_lines(result)
    out = render("{model}: {topics} topics over {words:,} words", result)
    for name, template in SCORES.items():
        if name in result:
            out += (
                agreement_lines(result)
                if name == "labels" and "nmi" in result[name]
                else _score(name, template, result[name])
            )
    for name, entry in result.items():
        if isinstance(entry, dict) and name not in SCORES:  # of a scorer of another package
            figures = [
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in entry.items() if k != "measured"
            ]
            out += render("{name:22}{figures}\n[  {measured}]", {**entry, "name": name, "figures": figures})
    return out + render("[{note}]", result)


def _score(name: str, template: str, score: dict[str, Any]) -> list[str]:
    about = {**score, "title": TITLES.get(name)}
    if template is PERPLEXITY:
        about["nats_a_document"] = f"{-score['nats_per_point']:.4f}" if "nats_per_point" in score else None
        if score["perplexity"] is None:
            template = template.replace(
                template.splitlines()[0],
                "{title:22}infinite: the model gives a word there no probability (its beta is 0)",
            )
    if template is COHERENCE:
        means = [(title, score.get(f"{key}_mean_topic")) for title, key in (("NPMI", "npmi"), ("UMass", "umass"), ("c_v", "c_v"))]
        about["mean_topic"] = [f"{title} {value:.4f}" for title, value in means if value is not None]
        about |= {f"with_{key}": key in score for key in ("npmi", "umass", "c_v")}
    return render(template, about)


def agreement_lines(result: dict[str, Any]) -> list[str]:
    """How clusters and labels agree, for people; nothing where that was not asked."""
    return render(CLUSTERS, result["labels"]) if "nmi" in result.get("labels", {}) else []
