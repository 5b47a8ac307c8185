"""Progress of a command, the same for all: to a ``Progress``, to a plain callable, or nowhere.

Lines also go to the logger ``topicstream`` (level INFO, warnings WARNING), which is silent unless
the program that uses the library sets up logging.
"""

from __future__ import annotations

import logging
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol, TextIO, runtime_checkable

from topicstream.base.errors import named
from topicstream.base.text import counted, render

LOG = logging.getLogger("topicstream")
LOG.addHandler(logging.NullHandler())
WIDTH = 80
EVERY = 10.0
"""Seconds between two plain lines."""
DELAY = {"cell": 1.0, "B": 0.5, "piece": 0.5}
"""Seconds before there is a bar, or a line with a speed, by unit."""

FETCHED = "[, {fetched.requests:,} requests for {fetched.bytes:size}]"
START = "start ({start}): {seconds:.1f} s" + FETCHED
CLUSTER = (
    "{workers} workers, {sent_bytes:size} sent, {waiting_seconds:.2f} s waiting, slowest {slowest}"
)
PASS = (
    "pass {pass}/{passes}: {seconds:.2f} s, {speed:.1f} M cells/s[, running perplexity "
    "{running_perplexity:.1f}]"
    "[, held-out {heldout_perplexity:.1f}][, {figures}]" + FETCHED + "[, at most {left:.0f} s left]"
)
STEP = "{what}: {done:,}[ of {total:,}] {unit}"
STEPS = {
    "cell": "{what}: {share:.0p} %, {speed:.1f} M cells/s, {left}",
    "B": "read {done:size}[ of {total:size}], {documents}[{total:?}, {left}]",
    "piece": "{what}: {share:.0p} %",
}
"""A step in words, by its unit."""


@runtime_checkable
class Progress(Protocol):
    """A listener.  Derive from it and override what is wanted: by itself it only logs."""

    def say(self, line: str) -> None:
        """One line, at once."""
        LOG.log(logging.WARNING if line.startswith("warning") else logging.INFO, "%s", named(line))

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        """``phase`` is so far: ``done`` of ``total`` (None: not known) of a unit, or without one,
        it begins and will tell nothing on the way. Called often. Units: cell, B (bytes; with the
        documents in them), piece, documents, words.
        """
        return

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        """A pass of a training has ended, of so many at most; ``record`` is its line of the
        history.
        """
        return

    def close(self) -> None:
        """No more to say."""
        return


Told = Progress | Callable[[str, int, int], None] | bool | None
"""What a function takes as ``progress``: a Progress; a function called with (what, done, total or
0); True: stderr; False: silence; None: the function's default."""


class Calls(Progress):
    """Tells a plain function how far it is."""

    def __init__(self, function: Callable[[str, int, int], None]) -> None:
        self._function = function

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        self._function(phase, done, total or 0)


class Silent(Progress):
    """Only logs."""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs us: its stderr is no terminal, but shows bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


def _bars(terminal: bool) -> Any:
    """tqdm's class of bars for a terminal or a notebook."""
    if terminal:
        from tqdm import tqdm

        return tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook, too, gets the bar of text
        from tqdm.auto import tqdm as auto
    return auto


class Shown(Progress):
    """On a stream (default: stderr): a bar on a terminal and in a notebook, else a plain line at
    least every 10 s. ``verbose`` < 0: nothing; > 0: every pass. ``stamped``: every line begins
    with the time [default: where verbose > 0].
    """

    def __init__(
        self, verbose: int = 0, stream: TextIO | None = None, stamped: bool = False
    ) -> None:
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._stamped = stamped or verbose > 0
        self._bar: Any = None
        self._what = ""
        self._began = self._last = time.monotonic()
        self._terminal = self._stream.isatty()
        self._bars = self._terminal or (stream is None and in_notebook())

    def say(self, line: str) -> None:
        Progress.say(self, line)
        self.close()
        if self._verbose >= 0:
            self._line(named(line))

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        if self._verbose < 0:
            return
        if phase != self._what:
            self.close()
            self._what = phase
            self._began = time.monotonic()
        due = time.monotonic() - self._last >= EVERY
        if not unit:
            self.close()
            if self._terminal or due:
                self._line(phase)
        elif self._bars:
            self._show(done, total, unit, documents)
        elif (
            due
            and time.monotonic() - self._began >= DELAY.get(unit, 0.0)
            and (unit != "cell" or done < (total or 0))
        ):
            self._line(self._text(done, total, unit, documents))

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        self.close()
        self._what = ""
        number = record["pass"]
        if number == 0:
            self.say(*render(START, record))
            return
        figures = [f"{name} {value:.4f}" for name, value in record.get("objective", {}).items()]
        figures += [
            f"held-out {name} {value:.4f}" for name, value in record.get("heldout", {}).items()
        ]
        figures += render(CLUSTER, record["cluster"]) if "cluster" in record else []
        left = record["seconds"] * (passes - number)
        about = {
            "passes": passes,
            "speed": record["cells_per_second"] / 1e6,
            "figures": figures,
            "left": left if left >= 1 else 0,
        }
        short = record["seconds"] < 0.5 and number % 5 and number != passes
        if not (
            short
            and self._verbose <= 0
            and not self._terminal
            and time.monotonic() - self._last < EVERY / 2
        ):
            self.say(*render(PASS, {**record, **about}))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _line(self, text: str) -> None:
        if self._stamped:
            text = f"{datetime.now().astimezone().isoformat(timespec='seconds')} {text}"
        elif self._terminal:
            text = textwrap.fill(
                text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        print(text, file=self._stream, flush=True)
        self._last = time.monotonic()

    def _text(self, done: int, total: int | None, unit: str, documents: int) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        whole = total or 0
        about = {
            "what": self._what.partition("/")[0] if unit == "cell" else self._what,
            "share": done / (whole or 1),
            "done": done,
            "total": total,
            "unit": unit,
            "documents": f"{counted(documents, 'document')}, {documents / seconds:,.0f}/s",
            "speed": done / seconds / 1e6,
            "left": f"{seconds * (whole - done) / max(done, 1):.0f} s left",
        }
        return render(STEPS.get(unit, STEP), about)[0]

    def _show(self, done: int, total: int | None, unit: str, documents: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._began < DELAY.get(unit, 0.0):
                return  # over soon: no bar
            self._bar = _bars(self._terminal)(
                total=total or None,
                initial=done,
                desc=self._what,
                unit=unit if unit in ("B", "cell", "piece") else f" {unit}",
                unit_scale=unit != "piece",
                leave=False,
                file=self._stream,
            )
        self._bar.total = total or None
        if unit == "B":
            self._bar.set_postfix_str(counted(documents, "document"), refresh=False)
        self._bar.update(done - self._bar.n)
        if total and done >= total:
            self.close()


def listener(told: Told, default: Callable[[], Progress] = Silent) -> Progress:
    """The Progress that a function's ``progress`` asks for; ``default`` makes that of None."""
    if isinstance(told, Progress):
        return told
    if told is None:
        return default()
    if isinstance(told, bool):
        return Shown() if told else Silent()
    return Calls(told)
