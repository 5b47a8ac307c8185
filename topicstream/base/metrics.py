"""``--metrics FILE``: figures of a run in Prometheus' text format.

The file is for node_exporter's textfile collector and the like. It is written when the command
ends, however it ends, and appears whole, in one rename. It replaces only the file of an earlier
run, which has a checksum in its first line; a file that somebody has written or changed is refused.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import google_crc32c

from topicstream.base.errors import NotOurs, exit_code_of
from topicstream.base.files.outputs import check_output, written
from topicstream.base.files.plain import read_text
from topicstream.base.machine import peak_bytes

FIRST = "# topicstream metrics"
MOST = 1 << 20
"""Bytes of a metrics file, at most."""
HELP = {
    "success": "1 where the command did what it was asked, 0 where it failed",
    "exit_code": "exit code of the command",
    "end_timestamp_seconds": "when it ended, seconds since 1970",
    "last_success_timestamp_seconds": "when it last did what it was asked, seconds since 1970",
    "duration_seconds": "how long it took",
    "peak_memory_bytes": "resident memory at most, of this process",
    "passes": "passes over the corpus that the model has had",
    "pass_seconds": "seconds of the last pass",
    "cells_per_second": "values a second in the last pass",
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
CARRIED_OVER = ("last_success_timestamp_seconds", "version")
"""Figures that stay as in the earlier file unless the run has new ones."""


@contextmanager
def record_metrics(
    path: str | Path | None, command: str, **dimensions: object
) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Write the figures of a run when the block ends, however it ends.

    Parameters
    ----------
    path
        The file; None: nothing is written.
    command, dimensions
        Labels of the figures.

    Yields
    ------
    A function that takes figures by name and notes the numbers among them that ``HELP`` has.

    Raises
    ------
    UsageError, NotOurs
        At the beginning, if the file cannot be written.
    """
    if path is None:
        yield lambda values: None
        return
    check_output(Path(path), "--metrics", force=True)
    _refuse_other(Path(path))
    labels = {"command": command, **dimensions}
    earlier = _earlier_figures(Path(path), labels)
    began = time.monotonic()
    figures = {name: value for name, value in earlier.items() if name in CARRIED_OVER}

    def note_figures(values: Mapping[str, object]) -> None:
        """Note the values that are figures."""
        for name, value in values.items():
            if name in HELP and isinstance(value, (bool, int, float)):
                figures[name] = float(value)

    code = 0
    try:
        yield note_figures
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
        all_figures = {**standard, **figures}
        if all_figures["success"]:
            all_figures["last_success_timestamp_seconds"] = all_figures["end_timestamp_seconds"]
        _refuse_other(Path(path))
        with written(Path(path), force=True, option="--metrics") as file:
            file.write(_format(all_figures, labels).encode())
            os.fchmod(file.fileno(), 0o644)  # readable for the collector, whoever it runs as


def _format(figures: Mapping[str, float], dimensions: Mapping[str, object]) -> str:
    """Format figures as gauges ``topicstream_NAME{command="train", ...}``."""
    labels = _labels(dimensions)
    lines: list[str] = []
    for name, value in figures.items():
        full = f"topicstream_{name}"
        lines += [
            f"# HELP {full} {HELP[name]}",
            f"# TYPE {full} gauge",
            f"{full}{{{labels}}} {value:.17g}",
        ]
    body = "\n".join(lines) + "\n"
    return f"{_first_line(body.encode())}\n{body}"


def _first_line(body: bytes) -> str:
    """Return the first line of a file with this content."""
    return f"{FIRST} crc32c:{google_crc32c.value(body):08x}"


def _refuse_other(path: Path) -> None:
    """Raise NotOurs if a file is not as a run wrote it."""
    if not os.path.lexists(path):
        return
    first, _, body = path.read_bytes()[:MOST].partition(b"\n")
    if not body or first.decode("utf-8", "replace") != _first_line(body):
        raise NotOurs(
            f"--metrics {path}: is not as a run of topics wrote it; move it away, or name "
            f"another file"
        )


def _earlier_figures(path: Path, dimensions: Mapping[str, object]) -> dict[str, float]:
    """Read the figures that an earlier run with the same labels has left, if any."""
    try:
        content = read_text(path).decode()
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
    """Format the labels of a figure."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in dimensions.items())


def _escaped(value: str) -> str:
    """Escape the value of a label."""
    value = value.encode("utf-8", "replace").decode()
    return re.sub(r'["\\]', r"\\\g<0>", value).replace("\n", "\\n")
