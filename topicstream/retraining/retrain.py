"""``topics retrain``: one cycle under the folder's lock."""

from __future__ import annotations

import errno
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from topicstream.base.errors import FilesFailed, GateRefused, TopicsError
from topicstream.base.files.durable import lock
from topicstream.base.machine import parse_bytes
from topicstream.base.memory import MemoryOptions
from topicstream.base.metrics import record_metrics
from topicstream.base.options import configured, option, seconds
from topicstream.base.progress import Shown
from topicstream.base.shown import Summary
from topicstream.base.text import counted
from topicstream.retraining.config import Config, When, load_config
from topicstream.retraining.cycle import Cycle
from topicstream.retraining.publish import current_version
from topicstream.retraining.template import write_template


@dataclass(frozen=True)
class RetrainConfig(MemoryOptions):
    """Settings of a cycle beside those of its configuration file, which they override."""

    config: str | Path | Config = option(
        "retrain.toml", "Configuration file.", env="TOPICS_RETRAIN", show=True
    )
    _: KW_ONLY
    init: bool = option(
        False, "Write a commented configuration file (and a folder raw next to it) and stop."
    )
    if_new_docs: bool = option(False, "Update when there are new documents.")
    if_drift: bool = option(False, "Act when new documents have drifted.")
    at_least_every: str | float | None = option(
        None,
        "Train from scratch when the last full training is older than this, such as 30d.",
        metavar="TIME",
        parse=seconds,
    )
    full: bool = option(False, "Train from scratch, whatever the conditions say.")
    release: bool = option(
        False, "End the hold of a rollback, and retry files that were set aside."
    )
    dry_run: bool = option(False, "Print what would be done and why; change nothing.")
    max_time: str | float | None = option(
        None, "Maximum training time, such as 90s, 30m or 2h.", metavar="TIME", parse=seconds
    )
    metrics: str | Path | None = option(
        None,
        "Write the outcome to this file, in Prometheus' text format.",
        path=True,
        metavar="FILE",
    )
    wait: bool = option(False, "Wait while another run is active (default: exit 4).")
    stream: TextIO | None = option(
        None, "where the log goes (stderr), a line with a timestamp each", cli=False
    )
    quiet: bool = option(False, "no log", cli=False)

    def settings(self) -> Config:
        """Return the settings of the file, with the ones that are set here in their place."""
        settings = self.config if isinstance(self.config, Config) else load_config(self.config)
        if self.if_new_docs or self.if_drift or self.at_least_every is not None:
            settings = replace(
                settings,
                when=When(
                    self.if_new_docs,
                    self.if_drift,
                    seconds(self.at_least_every),
                    settings.when.after_rollback,
                ),
            )
        overrides = {
            "max_time": seconds(self.max_time),
            "mem_limit": self.mem_limit and parse_bytes(self.mem_limit),
        }
        overrides = {name: value for name, value in overrides.items() if value is not None}
        return replace(settings, train=replace(settings.train, **overrides))


class RetrainSummary(Summary):
    """The summary of a cycle.

    ``refused`` lists why the gate refused the new model; it is empty if the model was published.
    """

    current: int | None
    refused: list[str]
    left_out: list[str]


@configured(RetrainConfig)
def retrain(config: RetrainConfig) -> RetrainSummary:
    """Run one cycle: ingest new files, train a model, judge it, publish it.

    The conditions (``if_new_docs``, ``if_drift``, ``at_least_every``) replace those of the
    configuration's [when].

    Returns
    -------
    dict
        The summary of the cycle. ``refused`` lists why the gate refused the new model; it is empty
        if the model was published.

    Raises
    ------
    InputError
        If raw files cannot be read, at the end of the cycle, which runs without them. ``summary``
        of the error is the summary of the cycle.
    Busy
        If another cycle runs.
    DoesNotFit
        If memory or disk is too small.
    Interrupted
        After a signal; the same call resumes.

    Examples
    --------
    Write a commented configuration to begin with:

    >>> _ = topicstream.retrain("retrain.toml", init=True)
    """
    if config.init:
        raw = write_template(Path(str(config.config)))
        return RetrainSummary(config=str(config.config), raw=str(raw))
    name = config.config.folder if isinstance(config.config, Config) else config.config
    with record_metrics(config.metrics, "retrain", config=name) as note_figures:
        settings = config.settings()
        try:
            settings.folder.mkdir(parents=True, exist_ok=True)
            note_figures(
                {"version": current_version(settings.folder)}
            )  # a run that fails leaves it
            with (
                lock(settings.folder, "retraining", kind="retrain", wait=config.wait),
                closing(Shown(-config.quiet, config.stream, stamped=True)) as log,
            ):
                summary: dict[str, Any] = Cycle(settings, log).run(
                    config.full, config.dry_run, config.release
                )
        except OSError as e:
            if e.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            problem = "is read-only" if e.errno == errno.EROFS else e.strerror
            raise TopicsError(
                f"{e.filename or settings.folder}: {problem}; retrain writes there, and needs a "
                f"folder that it can write to"
            ) from e
        code = exit_code_of_cycle(summary)  # of the command: a refused model is no error here
        note_figures(
            {
                **summary,
                "version": summary["current"],
                "heldout_perplexity": (summary.get("gate") or {}).get("perplexity"),
                "refused": bool(summary["refused"]),
                "success": code == 0,
                "exit_code": code,
            }
        )
        if code == FilesFailed.exit_code:
            raise _make_error(summary)
    return RetrainSummary(summary)


def exit_code_of_cycle(summary: dict[str, Any]) -> int:
    """Return the exit code of a finished cycle."""
    if summary["refused"]:
        return GateRefused.exit_code
    return FilesFailed.exit_code if summary["left_out"] else 0


def _make_error(summary: dict[str, Any]) -> FilesFailed:
    """Make the error of a finished cycle about raw files that could not be read."""
    first, *others = summary["left_out"].values()
    more = f"; {counted(len(others), 'more file')} could not be read either" if others else ""
    pronoun = "them" if others else "it"
    return FilesFailed(
        f"{first}{more}; the run has gone on without {pronoun}, and the next one tries again",
        summary,
    )
