"""An option for `topics train`, and the part of a model's folder that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.base.options import option
from topicstream.cli.extension import CommandOptions
from topicstream.model.parts import ModelPart
from topicstream.model.topic_model import TopicModel
from topicstream.training.config import TrainConfig

NAME = "largest.txt"


@dataclass(frozen=True)
class LargestOption:
    """Options for ``topics train``."""

    note_largest: bool = option(False, "Note the share of the largest topic beside the model.")


def note(config: TrainConfig, options: LargestOption) -> tuple[dict[str, Any], list[str]]:
    """Write the share of the largest topic of a finished model into its folder."""
    folder = Path(config.model)
    share = float(TopicModel.open(folder).shares.max())
    (folder / NAME).write_text(f"{share}\n")
    return {"share": share}, [f"largest topic: {share:.1%}"]


def files(folder: Path) -> list[str]:
    """List the files of the part in a model's folder."""
    return [NAME] if (folder / NAME).exists() else []


def describe(model: TopicModel) -> dict[str, Any] | None:
    """Describe the part for ``topics info``."""
    if model.path is None or not files(model.path):
        return None
    return {"share": float((model.path / NAME).read_text())}


TRAIN = CommandOptions(LargestOption, lambda options: options.note_largest, note, "--note-largest")
PART = ModelPart(files, describe, line="  largest      {largest.share:.3f} of the tokens")
