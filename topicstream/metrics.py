"""``--metrics FILE``: how a run went, in Prometheus' text format, for node_exporter's textfile
collector and the like.

The file is written when the command ends, however it ends, and appears whole, in one rename; one of
ours is replaced."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from topicstream.errors import exit_code_of
from topicstream.files.outputs import check_output, written
from topicstream.files.plain import read_given
from topicstream.machine import peak_bytes

FIRST = "# topicstream metrics"
HELP = {
    "success": "1 where the command did what it was asked, 0 where it failed",
    "exit_code": "exit code of the command",
    "end_timestamp_seconds": "when it ended, seconds since 1970",
    "last_success_timestamp_seconds": "when it last did what it was asked, seconds since 1970",
    "duration_seconds": "how long it took",
    "peak_memory_bytes": "resident memory at most, of this process",
    "passes": "passes over the corpus that the model has had",
    "pass_seconds": "seconds of the last pass",
    "cells_per_second": "cells a second in the last pass",
    "running_perplexity": "running perplexity of the last pass",
    "heldout_perplexity": "perplexity of the documents set aside, where it was measured",
    "new_files": "raw files that were new",
    "changed_files": "raw files that had changed",
    "files_set_aside": "raw files that failed three runs and are left out until they change",
    "files_left_out": "raw files that could not be read, and that the next run tries again",
    "documents_added": "documents taken into the corpus",
    "records_rejected": 'bad records that were left out (on_error = "skip")',
    "version": "version of the model that is published",
    "refused": "1 where the gate refused the new model",
}
KEPT = ("last_success_timestamp_seconds", "version")
"""Figures of the file before that a run which does not know better keeps."""


@contextmanager
def recorded(
    path: str | Path | None, command: str, **dimensions: object
) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Write how a run went when the block ends, however it ends.

    Within, a function takes figures by name (those of HELP that are numbers).  Of the file before,
    the published version and the time of the last success are kept by a run that fails.  Without a
    path nothing is written.  UsageError or NotOurs at once where the file cannot be written.
    """
    if path is None:
        yield lambda values: None
        return
    check_output(Path(path), "--metrics", force=True)
    labels = {"command": command, **dimensions}
    earlier = _earlier_figures(Path(path), labels)
    began = time.monotonic()
    figures = {name: value for name, value in earlier.items() if name in KEPT}

    def tell(values: Mapping[str, object]) -> None:
        figures.update(
            {
                k: float(v)
                for k, v in values.items()
                if k in HELP and isinstance(v, (bool, int, float))
            }
        )

    code = 0
    try:
        yield tell
    except BaseException as e:
        code = exit_code_of(e)
        raise
    finally:
        standard = {
            "success": float(code == 0),
            "exit_code": float(code),
            "end_timestamp_seconds": time.time(),
            "duration_seconds": time.monotonic() - began,
            "peak_memory_bytes": float(peak_bytes()),
        }
        every = {**standard, **figures}
        if every["success"]:
            every["last_success_timestamp_seconds"] = every["end_timestamp_seconds"]
        with written(Path(path), force=True, option="--metrics") as file:
            file.write(text(every, labels).encode())
            os.fchmod(file.fileno(), 0o644)  # readable for the collector, whoever it runs as


def text(figures: Mapping[str, float], dimensions: Mapping[str, object]) -> str:
    """The figures as gauges ``topicstream_NAME{command="train", ...}``."""
    of = _labels(dimensions)
    lines = [FIRST]
    for name, value in figures.items():
        full = f"topicstream_{name}"
        lines += [
            f"# HELP {full} {HELP[name]}",
            f"# TYPE {full} gauge",
            f"{full}{{{of}}} {value:.17g}",
        ]
    return "\n".join(lines) + "\n"


def _earlier_figures(path: Path, dimensions: Mapping[str, object]) -> dict[str, float]:
    """Read the figures that a run with the same labels left; none where the file is another."""
    try:
        content = read_given(path).decode()
    except (OSError, ValueError):
        return {}
    line = re.compile(
        rf"^topicstream_(\w+){re.escape('{' + _labels(dimensions) + '}')} (\S+)$", re.M
    )
    figures = {}
    for name, value in line.findall(content) if content.startswith(FIRST) else ():
        with suppress(ValueError):
            figures[name] = float(value)
    return figures


def _labels(dimensions: Mapping[str, object]) -> str:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in dimensions.items())


def _escaped(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return re.sub(r'["\\]', r"\\\g<0>", value).replace("\n", "\\n")
