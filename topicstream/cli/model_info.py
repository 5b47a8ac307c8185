"""``topics info MODEL``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from topicstream.report.model_info import describe, lines


def show(path: str | Path, *, verify: bool = False, top: int = 0, as_json: bool = False) -> None:
    """Print what a model is; ``top`` is of corpora and says nothing here."""
    info = describe(path, verify=verify)
    click.echo(json.dumps(info, indent=1, ensure_ascii=False) if as_json else "\n".join(lines(info)))
