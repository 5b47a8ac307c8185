"""``topics show``: print the topics of a model, or the view that an option asks for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from topicstream.base import plugins
from topicstream.cli.command import Printed, Section, show_progress, topics_command
from topicstream.cli.options import config_of, options_of, value_on_line
from topicstream.display.config import ShowConfig
from topicstream.display.show import TopicsView
from topicstream.display.view import ModelView
from topicstream.model.manifest import read_manifest


def find_views(line: Sequence[str] | None) -> Mapping[str, Section]:
    """Find the views that a line asks for, by title (None, or for help: all views)."""
    words = {word.partition("=")[0] for word in line or ()}
    if line is None or words & {"-h", "--help"}:
        names = list(plugins.entries(plugins.VIEWS))
    else:
        names = [name for name in plugins.entries(plugins.VIEWS) if f"--{name}" in words]
    views = [plugins.load(plugins.VIEWS, name) for name in names]
    if line is not None and not views:
        views = default_views(
            value_on_line(line, "--model", os.environ.get("TOPICS_MODEL", "model"))
        )
    return {view.title: Section(view) for view in views}


def default_views(model: str) -> list[type[ModelView]]:
    """Return the view that the engine of a model shows instead of topics, if any."""
    if not (Path(model) / "manifest.json").exists():
        return []
    engine = str(read_manifest(model).engine)
    known = engine in plugins.entries(plugins.DEFAULT_VIEWS)
    return [plugins.load(plugins.DEFAULT_VIEWS, engine)] if known else []


@topics_command("show", sections_of=find_views)
@options_of(ShowConfig)
def command(**values: Any) -> Printed:
    """Print the topics of a model, largest first: number, share of tokens, first words.

    The options below print other views of a model and its documents, one at a time.
    """
    views = [section.config for section in click.get_current_context().meta["sections"].values()]
    if len(views) > 1:
        raise click.UsageError(
            f"give one view at a time: {' or '.join(view.title for view in views)}"
        )
    with show_progress() as progress:
        view: ModelView = config_of(next(iter(views), TopicsView), values, progress=progress)
        result = view.result()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return None if result is None else (result, view.lines(result, width))
