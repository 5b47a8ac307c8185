"""``topics retrain``: one cycle, for cron."""

from __future__ import annotations

import signal
from typing import Any

import click

from topicstream.cli import startup
from topicstream.cli.options import given, options_of
from topicstream.errors import GateRefused, Stopped, json_line
from topicstream.retraining.run_config import RetrainConfig


@click.command("retrain")
@options_of(RetrainConfig)
def command(**values: Any) -> None:
    """Look for new raw files, take them in, and publish a better model: one cycle.

    Prints one line of JSON, with "failed" and why where it failed; the log goes to stderr.  Without conditions on the command line those of the config's [when]
    count; new files that none of them acts on wait.  Readers use the link `current`, which changes in one rename, once
    the new model has passed the gate; if it does not pass, the old one stays and the command exits 6.

    A changed file is read again (changed in the config says how its documents enter); a deleted file does nothing: its
    documents stay.  Killed at any instant, the next run carries on.
    """
    from topicstream.cli.verbosity import QUIET, verbosity
    from topicstream.retraining.retrain import retrain

    config = RetrainConfig(**given(values), quiet=verbosity() <= QUIET)
    if config.init:
        made = retrain(config)
        click.echo(f"{made['config']}: written; put raw files into {made['raw']}")
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, startup.stopping("stopped; the same command again carries on with this cycle"))
    try:
        summary = retrain(config)
    except (Exception, Stopped) as e:  # whoever reads the line of every night gets one of a failed night too
        click.echo(json_line({"failed": str(e), "exit_code": getattr(e, "exit_code", 1), "config": str(config.config)}))
        raise
    click.echo(json_line(summary))
    if summary["refused"]:
        raise GateRefused(f"the gate refused the new model: {'; '.join(summary['refused'])}; the present one stays")
