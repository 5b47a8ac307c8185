"""``topics update``: documents that were appended to the corpus, taken into the model."""

from __future__ import annotations

from typing import Any

from topicstream.cli.command import Printed, showing, topics_command
from topicstream.cli.options import made, options_of
from topicstream.retraining.update import UpdateConfig, update
from topicstream.text import render


@topics_command("update", indent=None)
@options_of(UpdateConfig)
def command(**values: Any) -> Printed:
    """Take documents that were appended to the corpus into the model.

    \b
        topics ingest new/ --out corpus.zarr --append --grow-vocab
        topics update

    Training continues from the model: topics keep their numbers.  Where the model's own run is there and no old document
    was removed, only the new blocks are started; the old ones continue from what is known of them.  The new model takes the
    old one's place in one rename when it is done; killed, the same command resumes.
    """
    with showing() as progress:
        done = update(made(UpdateConfig, values, progress=progress))
    result = {"model": str(done.model), "how": done.how, "why": done.why, "passes": done.passes, "stopped": done.reason,
              "last": dict(done.last)}  # fmt: skip
    if done.how == "nothing":
        return result, [f"{done.model}: is of this corpus already"]
    return result, render(
        "{model}: {passes} passes ({stopped}), {how}[, running perplexity {last.running_perplexity:.1f}]", result
    )
