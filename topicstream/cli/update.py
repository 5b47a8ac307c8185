"""``topics update``: update a model with documents that were appended to its corpus."""

from __future__ import annotations

from typing import Any

from topicstream.base.text import render
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.options import config_of, options_of
from topicstream.retraining.update import UpdateConfig, update


@topics_command("update", indent=None)
@options_of(UpdateConfig)
def command(**values: Any) -> Printed:
    """Update a model with documents that were appended to its corpus.

    \b
        topics ingest new/ --out corpus.zarr --append --grow-vocab
        topics update

    Training continues from the model, and topics keep their numbers. The finished model replaces
    the old one in one rename. After an interruption, run the same command again to resume.
    """
    with show_progress() as progress:
        updated = update(config_of(UpdateConfig, values, progress=progress))
    result = {
        "model": str(updated.model),
        "how": updated.how,
        "passes": updated.passes,
        "stopped": updated.reason,
        "last": dict(updated.last),
    }
    if updated.how == "nothing":
        return result, [f"{updated.model}: is up to date with the corpus"]
    return result, render(
        "{model}: {passes:pass} ({stopped}), {how}[, running perplexity "
        "{last.running_perplexity:.1f}]",
        result,
    )
