"""``topics update``: options -> ``topicstream.update`` -> the summary."""

from __future__ import annotations

import json
from typing import Any

import click

from topicstream.cli.options import as_json, given, options_of
from topicstream.progress import Shown
from topicstream.retraining.update_config import UpdateConfig


@click.command("update")
@options_of(UpdateConfig)
@as_json()
def command(as_json: bool, **values: Any) -> None:
    """Take documents that were appended to the corpus into the model.

    \b
        topics ingest new/ --out corpus.zarr --append --grow-vocab
        topics update

    Training goes on from the model: topics keep their numbers.  Where the model's own run is there and no old document
    was removed, only the new blocks are started, the old ones go on from what is known of them.  The new model takes the
    old one's place in one rename when it is done; killed, the same command carries on.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.retraining.update import update

    done = update(UpdateConfig(**given(values), progress=Shown(verbosity())))
    if as_json:
        told = {"model": str(done.model), "how": done.how, "why": done.why, "passes": done.passes}
        click.echo(json.dumps({**told, "stopped": done.reason, "last": dict(done.last)}))
        return
    if done.how == "nothing":
        click.echo(f"{done.model}: is of this corpus already")
        return
    parts = [f"{done.model}: {done.passes} passes ({done.reason}), {done.how}"]
    if done.last.get("running_perplexity"):
        parts.append(f"running perplexity {done.last['running_perplexity']:.1f}")
    click.echo(", ".join(parts))
