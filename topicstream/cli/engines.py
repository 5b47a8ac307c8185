"""``topics engines``: the training algorithms, found by being there."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

from topicstream.base.text import each
from topicstream.cli.command import Printed, topics_command
from topicstream.engines import engines
from topicstream.engines.base import Shape

ARRAY = "{array}: [{times} x ]{dtype} a {per}"
ROW = """{name:<11} {rule:<8} {cites}
                     keeps on disk at K = 100: {kept}; cells: {cells}"""


def describe() -> list[dict[str, Any]]:
    """One entry an engine: name, source, rule, block memory a document, cell or token at K = 100,
    starts, options.
    """
    shape = Shape(docs=10_000, words=50_000, cells=1_000_000, tokens=2_000_000.0, topics=100)
    rows = []
    for name, kind in engines().items():
        engine = kind(shape, kind.Options())
        rows.append(
            {
                "name": name,
                "cites": kind.cites,
                "rule": ", ".join(
                    dict.fromkeys(spec.rule.value for spec in engine.tables.values())
                ),
                "memory": {
                    n: {"per": a.per, "dtype": a.dtype, "width": max(a.width, 1)}
                    for n, a in engine.state.items()
                },
                "starts": list(kind.about.starts),
                "weighted": kind.about.real_cells,
                "options": {
                    f.name: {
                        "default": None if f.default is MISSING else f.default,
                        "help": f.metadata.get("help", ""),
                    }
                    for f in kind.Options.__dataclass_fields__.values()
                },
            }
        )
    return rows


@topics_command("engines")
def command() -> Printed:
    """List the training algorithms with update rule, disk space and source."""
    rows = describe()
    listed = []
    for row in rows:
        kept = [
            each(ARRAY, [{**m, "array": n, "times": m["width"] if m["width"] > 1 else None}])[0]
            for n, m in row["memory"].items()
        ]
        cells = "whole or real" if row["weighted"] else "whole counts"
        listed.append({**row, "kept": ", ".join(kept) or "nothing", "cells": cells})
    return rows, each(ROW, listed)
