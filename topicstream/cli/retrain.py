"""``topics retrain``: one cycle, for cron."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import click

from topicstream.cli.train import seconds
from topicstream.errors import GateRefused, Interrupted, TopicsError


def _stop(signum: int, frame: object) -> None:
    raise Interrupted("stopped; the same command again carries on with this cycle", signum)


@click.command("retrain")
@click.option("--config", envvar="TOPICS_RETRAIN", default="retrain.toml", show_default=True, help="the config file")
@click.option("--init", is_flag=True, help="write a commented config file (and the folder raw beside it) and stop")
@click.option("--if-new-docs", is_flag=True, help="act when there are new documents")
@click.option("--if-drift", is_flag=True, help="act when new documents have drifted")
@click.option("--at-least-every", callback=seconds, metavar="TIME", help="train in full when the last is so old (30d)")
@click.option("--full", is_flag=True, help="train in full, whatever holds")
@click.option("--dry-run", is_flag=True, help="say what would be done and why; change nothing")
@click.option("--max-time", callback=seconds, metavar="TIME", help="of training (90s, 30m, 2h)")
@click.option("--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G")
@click.option("--wait", is_flag=True, help="wait while another run is at work (default: exit 4)")
def command(config: str, init: bool, **given: Any) -> None:
    """Look for new raw files, take them in, and publish a better model: one cycle.

    Prints one line of JSON; the log goes to stderr.  Without conditions on the command line those of the config's [when]
    count; new files that none of them acts on wait.  Readers use the link `current`, which changes in one rename, once
    the new model has passed the gate; if it does not pass, the old one stays and the command exits 6.

    A changed file is read again (changed in the config says how its documents enter); a deleted file does nothing: its
    documents stay.  Killed at any instant, the next run carries on.
    """
    if init:
        from topicstream.retrain.config import TEMPLATE

        raw = Path(config).resolve().parent / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        try:
            with open(config, "x", encoding="utf-8") as f:
                f.write(TEMPLATE)
        except FileExistsError:
            raise TopicsError(f"{config}: is there already; name another with --config") from None
        click.echo(f"{config}: written; put raw files into {raw}")
        return
    from topicstream.cli.verbosity import QUIET, verbosity
    from topicstream.retrain.cycle import retrain

    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    summary = retrain(config, quiet=verbosity() <= QUIET, **given)
    click.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
    if summary["refused"]:
        raise GateRefused(f"the gate refused the new model: {'; '.join(summary['refused'])}; the present one stays")
