"""``topics engines``: the training algorithms, found by being there."""

from __future__ import annotations

import json
from dataclasses import MISSING
from typing import Any

import click


def describe() -> list[dict[str, Any]]:
    """One entry an engine: name, source, rule, block memory a document, cell or token at K = 100, starts, options."""
    from topicstream.engines import engines
    from topicstream.engines.base import Shape

    shape = Shape(docs=10_000, words=50_000, cells=1_000_000, tokens=2_000_000.0, topics=100)
    rows = []
    for name, kind in engines().items():
        engine = kind(shape, kind.Options())
        memory = {
            array: {"per": spec.per, "dtype": spec.dtype, "width": spec.width} for array, spec in engine.memory.items()
        }
        options = {
            f.name: {"default": None if f.default is MISSING else f.default, "help": f.metadata.get("help", "")}
            for f in kind.Options.__dataclass_fields__.values()
        }
        rows.append(
            {
                "name": name,
                "cites": kind.cites,
                "rule": ", ".join(dict.fromkeys(spec.rule.value for spec in engine.tables.values())),
                "memory": memory,
                "starts": list(kind.starts),
                "weighted": kind.accepts_weights,
                "options": options,
            }
        )
    return rows


@click.command("engines")
@click.option("--json", "as_json", is_flag=True, help="everything, options included, as JSON")
def command(as_json: bool) -> None:
    """List the training algorithms: name, rule by which their changes enter, what they keep on disk, source."""
    rows = describe()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        kept = ", ".join(
            f"{name}: {m['width'] if m['width'] > 1 else ''}{' x ' if m['width'] > 1 else ''}{m['dtype']} a {m['per']}"
            for name, m in row["memory"].items()
        )
        click.echo(f"{row['name']:<11} {row['rule']:<8} {row['cites']}")
        click.echo(
            f"{'':<20} keeps on disk at K = 100: {kept or 'nothing'}; cells: {'whole or real' if row['weighted'] else 'whole counts'}"
        )
