"""``topics compare``: the topics of two models, matched."""

from __future__ import annotations

from typing import Any

import click


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("-n", "--words", type=click.IntRange(1), default=10, show_default=True, help="first words compared")
@click.option(
    "--far",
    type=click.FloatRange(0, 2),
    default=1.5,
    show_default=True,
    help="l1 distance (0 the same .. 2 nothing in common) beyond which two topics do not match",
)
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G or 512M [default: what there is]")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(as_json: bool, **options: Any) -> None:
    """Match the topics of model A with those of model B and print what changed.

    Words are matched by text, so the vocabularies may differ; topics one to one, with the least total distance.
    """
    import json

    from topicstream.evaluation.matching import compare

    result = compare(**options)
    click.echo(json.dumps(result, indent=1, ensure_ascii=False) if as_json else "\n".join(lines(result)))


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    v = result["vocabulary"]
    out = [f"{result['a']} -> {result['b']}: {v['a']:,} and {v['b']:,} words, {v['common']:,} in common"]
    for m in result["matched"]:
        change = "".join(f" {sign}{w}" for sign, name in (("+", "gained"), ("-", "lost")) for w in m[name])
        kept = " ".join(w for w in m["words"] if w not in m["gained"])
        size = f"{100 * m['share_a']:.1f} -> {100 * m['share_b']:.1f} %"
        out.append(f"{m['a']:>4} -> {m['b']:<4} l1 {m['distance']:.3f}  {size:16} {kept}{change}")
    for name, title in (("unmatched_a", f"only in {result['a']}"), ("unmatched_b", f"only in {result['b']}")):
        for t in result[name]:
            out.append(f"{title}: topic {t['topic']} ({100 * t['share']:.1f} %) {' '.join(t['words'])}")
    mean = result["mean_distance"]
    if mean is not None:
        out.append(f"{len(result['matched'])} topics matched, mean l1 distance {mean:.3f}")
    else:
        out.append(f"no topics matched within an l1 distance of {result['far']}")
    return out
