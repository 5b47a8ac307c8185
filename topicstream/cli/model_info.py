"""``topics info MODEL``."""

from __future__ import annotations

from pathlib import Path

import click

from topicstream.errors import json_line
from topicstream.reporting.model_info import describe, lines


def show(path: str | Path, *, verify: bool = False, top: int = 0, as_json: bool = False) -> None:
    """Print what a model is; ``top`` is of corpora and says nothing here."""
    info = describe(path, verify=verify)
    click.echo(json_line(info, 1) if as_json else "\n".join(lines(info)))
