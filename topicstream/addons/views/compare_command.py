"""``topics compare``: the topics of two models, matched; or with ``--methods`` the ways to infer
topics with one model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from topicstream.addons.views.comparing import compare_methods, method_lines, plot_methods
from topicstream.base.text import each, render
from topicstream.cli.command import Printed, showing, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.display.config import MethodsConfig
from topicstream.display.figures import Figure
from topicstream.evaluation.config import CompareConfig
from topicstream.evaluation.matching import compare
from topicstream.model.topic_kinds import mark_kind

MATCHED = "{a:>4} -> {b:<4} l1 {distance:.3f}  {size:16} [({mark}) ]{kept: }[ {changes: }]"


@topics_command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@options_of(CompareConfig)
@options_of(MethodsConfig)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="With --methods: draw quality against time.",
)
@click.option("--force", is_flag=True, help="With --svg: replace the file.")
@click.pass_context
def command(
    ctx: click.Context, /, a: str, b: str | None, svg: str | None, force: bool, **values: Any
) -> Printed:
    """Match the topics of models A and B and print what changed. With --methods and without B,
    compare the inference methods of model A: closeness to a reference, time and held-out
    perplexity.

    Words are matched by text, so vocabularies may differ. Topics are matched one to one with the
    smallest total distance. Time grows with words x topics of A x topics of B; memory grows with
    the vocabulary only by its words.
    """
    named = {p for p in ctx.params if ctx.get_parameter_source(p) == ParameterSource.COMMANDLINE}
    of_two, of_methods = (
        {k: v for k, v in values.items() if k in config.__dataclass_fields__}
        for config in (CompareConfig, MethodsConfig)
    )
    with showing() as progress:
        if b is not None:
            if wrong := sorted((named & {*of_methods, "svg"}) - set(of_two)):
                raise click.UsageError(
                    f"--{wrong[0].replace('_', '-')} applies to inference methods of one model, "
                    f"not to two models; leave out {b}"
                )
            result = compare(
                config_of(CompareConfig, {"a": a, "b": b, **of_two}, progress=progress)
            )
            return result, lines(result)
        if "methods" not in named:
            raise click.UsageError("give a second model, or --methods all")
        figure = Figure(svg, "--svg", force=force) if svg is not None else None
        if of_methods["on"] not in ("heldout", "rest"):
            of_methods["on"] = Path(of_methods["on"])
        result = compare_methods(
            config_of(MethodsConfig, {"model": a, **of_methods}, progress=progress)
        )
    if figure is not None:
        plot_methods(result, figure)
    return result, method_lines(result)


def lines(result: dict[str, Any]) -> list[str]:
    """Two models for people."""
    out = render(
        "{a} -> {b}: {vocabulary.a:,} and {vocabulary.b:word}, {vocabulary.common:,} in common",
        result,
    )
    for m in result["matched"]:
        changes = [
            sign + word for sign, name in (("+", "gained"), ("-", "lost")) for word in m[name]
        ]
        kept = [word for word in m["words"] if word not in m["gained"]]
        size = f"{100 * m['share_a']:.1f} -> {100 * m['share_b']:.1f} %"
        marks = [mark_kind(m["kind_a"]), mark_kind(m["kind_b"])]
        mark = "" if not any(marks) else f"{marks[0] or 'live'} -> {marks[1] or 'live'}"
        out += render(MATCHED, {**m, "size": size, "mark": mark, "kept": kept, "changes": changes})
    for side in ("a", "b"):
        alone = [
            {**topic, "where": result[side], "mark": mark_kind(topic["kind"])}
            for topic in result[f"unmatched_{side}"]
        ]
        out += each("only in {where}: topic {topic} ({share:.1p} %) [({mark}) ]{words: }", alone)
    if result["mean_distance"] is None:
        return out + render("no topics matched within an l1 distance of {far}", result)
    return out + render(
        "{n} topics matched, mean l1 distance {mean_distance:.3f}",
        {**result, "n": len(result["matched"])},
    )
