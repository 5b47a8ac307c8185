"""``topics info --drift``: how well a model still fits, period by period."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topicstream.addons.views.config import DriftConfig
from topicstream.base.progress import Progress
from topicstream.cli.extension import CommandOptions


def report_drift(path: str, config: DriftConfig, progress: Progress) -> tuple[Any, list[str]]:
    """Measure the drift of the model at a path."""
    from topicstream.addons.views.drift import drift, drift_lines  # brings inference with it

    result = drift(replace(config, model=path, progress=progress))
    return result, drift_lines(result)


INFO = CommandOptions(
    DriftConfig,
    lambda config: config.documents is not None or config.by is not None,
    report_drift,
    "--drift or --by",
)
