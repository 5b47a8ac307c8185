"""``topics compare``: the topics of two models, matched; or with ``--methods`` the ways to infer topics with one model."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from topicstream.cli.options import as_json, given, options_of
from topicstream.cli.verbosity import showing
from topicstream.errors import json_line
from topicstream.evaluation.config import CompareConfig
from topicstream.reporting.config import MethodsConfig


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@options_of(CompareConfig)
@options_of(MethodsConfig)
@click.option(
    "--svg", type=click.Path(dir_okay=False), metavar="FILE", help="with --methods: quality against time, drawn"
)
@click.option("--force", is_flag=True, help="with --svg: replace the file")
@as_json()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    a: str,
    b: str | None,
    as_json: bool,
    svg: str | None,
    force: bool,
    words: int,
    far: float,
    **options: Any,
) -> None:
    """Match the topics of model A with those of model B and print what changed; or, with --methods and no B, compare the
    ways to find the topics of new documents with model A: nearness to a reference, time, held-out perplexity.

    Words are matched by text, so the vocabularies may differ; topics one to one, with the least total distance.
    The time is words times topics of A times topics of B; the memory does not depend on the words beyond their names.
    """
    named = {p for p in options if ctx.get_parameter_source(p) != ParameterSource.DEFAULT}
    if b is None:
        if "methods" not in named:
            raise click.UsageError("give a second model, or --methods all")
        methods(a, as_json, svg, force, options)
        return
    if wrong := sorted(named - {"mem_limit"}) + (["svg"] if svg else []):
        raise click.UsageError(f"--{wrong[0].replace('_', '-')} is for one model and --methods, not for two models")
    from topicstream.evaluation.matching import compare

    with showing() as told:
        result = compare(a, b, words=words, far=far, mem_limit=options["mem_limit"], progress=told)
    click.echo(json_line(result, 1) if as_json else "\n".join(lines(result)))


def methods(model: str, as_json: bool, svg: str | None, force: bool, options: dict[str, Any]) -> None:
    """Compare methods of inference, print the table, draw the plot."""
    from pathlib import Path

    from topicstream.reporting.comparing import compare_methods

    if svg is not None:
        from topicstream.reporting.comparison_plot import check_plot, write

        check_plot(svg, force=force)
    on = options.pop("on")
    place = on if on in ("heldout", "rest") else Path(on)
    with showing() as told:
        result = compare_methods(model=model, on=place, progress=told, **given(options))
    if svg is not None:
        write(result, svg, force=force)
    click.echo(json_line(result, 1) if as_json else "\n".join(method_lines(result)))


def method_lines(r: dict[str, Any]) -> list[str]:
    """The comparison for people."""
    out = [
        f"{r['model']}: {r['topics']} topics, {r['documents']:,} documents of {r['on']}, {r['tokens']:,.0f} tokens; against {r['reference']}",
        f"{'method':16} {'cosine':>7} {'KL':>8} {'F1 0.8':>7} {'seconds':>9} {'documents/s':>12} {'perplexity':>11}",
    ]
    every = [(m["name"], m) for m in r["methods"]]
    if r["ceiling"] is not None:
        every.append((f"{r['reference']} again", r["ceiling"]))
    for name, m in every:
        said = f"{m['cosine']:7.3f} {m['divergence']:8.3f} {m['f1']:7.3f}"
        if name == r["reference"]:
            said = f"{'reference':>24}"
        out.append(f"{name:16} {said} {m['seconds']:9.3f} {m['documents_per_second']:12,.0f} {m['perplexity']:11.1f}")
    out.append(f"  {r['measured']}; again: another seed, nobody comes nearer")
    if any(r["envelope"].values()):
        best = "; by ".join(f"{what}: {', '.join(r['envelope'][k])}" for what, k in (("cosine", "cosine"), ("F1", "f1")))
        out.append(f"  none is faster and nearer, by {best}")
    out += [f"  left out {name}: {why}" for name, why in r["left_out"].items()]
    return out


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    from topicstream.errors import shown

    v = result["vocabulary"]
    out = [f"{result['a']} -> {result['b']}: {v['a']:,} and {v['b']:,} words, {v['common']:,} in common"]
    for m in result["matched"]:
        change = "".join(f" {sign}{shown(w)}" for sign, name in (("+", "gained"), ("-", "lost")) for w in m[name])
        kept = " ".join(shown(w) for w in m["words"] if w not in m["gained"])
        size = f"{100 * m['share_a']:.1f} -> {100 * m['share_b']:.1f} %"
        out.append(f"{m['a']:>4} -> {m['b']:<4} l1 {m['distance']:.3f}  {size:16} {kept}{change}")
    for name, title in (("unmatched_a", f"only in {result['a']}"), ("unmatched_b", f"only in {result['b']}")):
        for t in result[name]:
            out.append(f"{title}: topic {t['topic']} ({100 * t['share']:.1f} %) {' '.join(map(shown, t['words']))}")
    mean = result["mean_distance"]
    if mean is not None:
        out.append(f"{len(result['matched'])} topics matched, mean l1 distance {mean:.3f}")
    else:
        out.append(f"no topics matched within an l1 distance of {result['far']}")
    return out
