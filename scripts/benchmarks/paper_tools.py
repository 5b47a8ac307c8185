"""Stores, models and lines of Markdown for the tables of papers (papers.py)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import topicstream

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def raw(a: argparse.Namespace, corpus: str) -> Path:
    """The file of a corpus: counts where it has them."""
    files = [Path(a.data, corpus, name) for name in ("docword.txt.gz", "docs.jsonl.gz")]
    return next(file for file in files if file.exists())


def store(a: argparse.Namespace, corpus: str, heldout: str, **options: Any) -> Path:
    """A store of a corpus with this share set aside."""
    path = Path(a.work, f"{corpus}-{heldout.rstrip('%')}.zarr")
    if not path.exists():
        topicstream.ingest([raw(a, corpus)], path, heldout=heldout, progress=False, **options)
    return path


def fit(corpus: Path, model: Path, options: dict[str, Any], **settings: Any) -> Any:
    """A training on one thread in the place of any model that is there.

    options: the engine's, and ``algo``.
    """
    given = {name: value for name, value in options.items() if name != "algo"}
    common: dict[str, Any] = {
        "algo": options["algo"],
        "threads": 1,
        "force": True,
        "progress": False,
    }
    return topicstream.train(corpus, model, options=given, **common | settings)


def spread(values: Any, digits: int = 0) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.{digits}f}" + (
        f" ± {np.std(values):.{digits}f}" if len(values) > 1 else ""
    )


def head(*columns: str) -> None:
    """The head of a table."""
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns), flush=True)


def line(*cells: object) -> None:
    """A row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
