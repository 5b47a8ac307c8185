"""``topics engines``: list the training algorithms."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

from topicstream.base.text import render_each
from topicstream.cli.command import Printed, topics_command
from topicstream.engines import engines
from topicstream.engines.base import Shape

ARRAY = "{array}: [{times} x ]{dtype} a {per}"
ROW = """{name:<11} {rule:<8} {cites}
                     keeps on disk at K = 100: {stored}; cells: {cells}"""


def describe() -> list[dict[str, Any]]:
    """Describe each engine by name, source, rule, memory, starts and options.

    ``memory`` is what the engine keeps on disk of a document, cell or token at K = 100.
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
    described = []
    for row in rows:
        arrays = [
            {**array, "array": name, "times": array["width"] if array["width"] > 1 else None}
            for name, array in row["memory"].items()
        ]
        stored = ", ".join(render_each(ARRAY, arrays)) or "nothing"
        cells = "whole or real" if row["weighted"] else "whole counts"
        described.append({**row, "stored": stored, "cells": cells})
    return rows, render_each(ROW, described)
