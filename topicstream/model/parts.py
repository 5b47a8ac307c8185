"""Parts that an add-on or another package keeps in a model's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.base import plugins
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class ModelPart:
    """A part of a model's folder, an entry point of ``topicstream.model_parts``.

    Attributes
    ----------
    files
        A function of a model's folder that returns the names of the part's files, none without the
        part. `topics retrain` copies them to the version that it publishes.
    describe
        A function of a model that returns plain values for `topics info`, None without the part.
    line
        The template of its line in `topics info`, where its values stand under the part's name.

    Examples
    --------
    >>> def list_notes(folder):
    ...     return [path.name for path in folder.glob("notes.txt")]
    >>> part = ModelPart(files=list_notes, describe=lambda model: None)
    >>> part.files(Path("model"))
    []
    """

    files: Callable[[Path], list[str]]
    describe: Callable[[TopicModel], Mapping[str, Any] | None]
    line: str = ""


def model_parts() -> dict[str, ModelPart]:
    """Return every registered part by name."""
    return dict(plugins.loaded(plugins.MODEL_PARTS))
