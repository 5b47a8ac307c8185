"""What one cycle of ``topics retrain`` is told beside its config file: the one list of keywords and options."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from topicstream.options import option, seconds

if TYPE_CHECKING:
    from topicstream.retraining.config import Config


@dataclass(frozen=True)
class RetrainConfig:
    """All settings of a cycle."""

    config: str | Path | Config = option("retrain.toml", "the config file", env="TOPICS_RETRAIN", show=True)
    _: KW_ONLY
    init: bool = option(
        False, "write a commented config file (and the folder raw beside it) and stop"
    )
    if_new_docs: bool = option(False, "act when there are new documents")
    if_drift: bool = option(False, "act when new documents have drifted")
    at_least_every: str | float | None = option(
        None, "train in full when the last is so old (30d)", metavar="TIME", parse=seconds
    )
    full: bool = option(False, "train in full, whatever holds")
    dry_run: bool = option(False, "say what would be done and why; change nothing")
    max_time: str | float | None = option(None, "of training (90s, 30m, 2h)", metavar="TIME", parse=seconds)
    mem_limit: str | int | None = option(None, "memory of the whole process, as 2G", metavar="SIZE")
    metrics: str | Path | None = option(
        None, "write how it went, in Prometheus' text format", path=True, metavar="FILE"
    )
    wait: bool = option(False, "wait while another run is at work (default: exit 4)")
    stream: TextIO | None = option(None, "where the log goes (stderr), a line with a timestamp each", cli=False)
    quiet: bool = option(False, "no log", cli=False)
