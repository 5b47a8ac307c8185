"""``topics retrain``: one cycle from new files to a published model, for cron."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from topicstream.base.errors import FilesFailed, GateRefused, Stopped, exit_code_of, json_line
from topicstream.cli.command import Command
from topicstream.cli.options import config_of, options_of
from topicstream.cli.process import stop_with, verbosity
from topicstream.retraining.retrain import RetrainConfig, retrain


@click.command("retrain", cls=Command)
@options_of(RetrainConfig)
def command(as_json: bool, **values: Any) -> None:
    """Ingest new raw files, train, judge the result, and publish it: one cycle.

    Prints one line of JSON, with "failed" and the reason if it fails; the log goes to stderr.
    Conditions come from the command line, else from [when] in the configuration; new files wait
    until a condition holds. Readers use the link `current`. It changes in one rename, once the new
    model has passed the gate; otherwise the old model stays and the command exits 6.

    A changed file is read again (`changed` in the configuration says how). The documents of a
    deleted file stay. A file that cannot be read is left out and named, and the command exits 3
    once all else is done; the third time the file is set aside until it changes. After an
    interruption, the next run resumes.
    """
    config = config_of(RetrainConfig, values, quiet=verbosity() < 0)
    if config.init:
        paths = retrain(config)
        click.echo(f"{paths['config']}: written; put raw files into {paths['raw']}")
        return
    stop_with("stopped; the same command resumes this cycle")
    try:
        summary = retrain(config)
    except (Exception, Stopped) as e:
        # whoever reads the line of every night gets one of a failed night, too
        summary_so_far: Mapping[str, Any] = e.summary if isinstance(e, FilesFailed) else {}
        failure = {"failed": str(e), "exit_code": exit_code_of(e), "config": str(config.config)}
        click.echo(json_line({**summary_so_far, **failure}))
        raise
    click.echo(json_line(summary))
    if summary["refused"]:
        raise GateRefused(
            f"the gate refused the new model: {'; '.join(summary['refused'])}; the present one "
            f"stays"
        )
