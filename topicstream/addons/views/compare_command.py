"""``topics compare``: the topics of two models, matched."""

from __future__ import annotations

from typing import Any

import click

from topicstream.base.text import render, render_each
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.evaluation.config import CompareConfig
from topicstream.evaluation.matching import compare
from topicstream.model.topic_kinds import BACKGROUND, mark_kind

MATCHED = "{a:>4} -> {b:<4} l1 {distance:.3f}  {size:16} [({mark}) ]{kept: }[ {changes: }]"


@topics_command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@options_of(CompareConfig)
def command(a: str, b: str, **values: Any) -> Printed:
    """Match the topics of models A and B and print what changed.

    Words are matched by text, so vocabularies may differ. Topics are matched one to one with the
    smallest total distance. Time grows with words x topics of A x topics of B; memory grows with
    the vocabulary only by its words.
    """
    with show_progress() as progress:
        config = config_of(CompareConfig, {"a": a, "b": b, **values}, progress=progress)
        result = compare(config)
    return result, lines(result)


def lines(result: dict[str, Any]) -> list[str]:
    """Format the comparison of two models as lines."""
    out = render(
        "{a} -> {b}: {vocabulary.a:,} and {vocabulary.b:word}, {vocabulary.common:,} in common",
        result,
    )
    for pair in result["matched"]:
        changes = [f"+{word}" for word in pair["gained"]]
        changes += [f"-{word}" for word in pair["lost"]]
        common = [word for word in pair["words"] if word not in pair["gained"]]
        size = f"{100 * pair['share_a']:.1f} -> {100 * pair['share_b']:.1f} %"
        marks = [mark_kind(pair["kind_a"]), mark_kind(pair["kind_b"])]
        mark = "" if not any(marks) else f"{marks[0] or 'live'} -> {marks[1] or 'live'}"
        out += render(
            MATCHED, {**pair, "size": size, "mark": mark, "kept": common, "changes": changes}
        )
    for side in ("a", "b"):
        alone = [
            {**topic, "where": result[side], "mark": mark_kind(topic["kind"])}
            for topic in result[f"unmatched_{side}"]
        ]
        out += render_each(
            "only in {where}: topic {topic} ({share:.1p} %) [({mark}) ]{words: }", alone
        )
    counted = [
        pair for pair in result["matched"] if BACKGROUND not in (pair["kind_a"], pair["kind_b"])
    ]
    if result["mean_distance"] is None:
        return out + render("no topics matched within an l1 distance of {far}", result)
    return out + render(
        "{n:topic} matched, mean l1 distance {mean_distance:.3f}"
        "[{without:?} (without the background)]",
        {**result, "n": len(counted), "without": len(counted) < len(result["matched"]) or None},
    )
