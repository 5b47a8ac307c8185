"""Progress of a command: to a ``Progress``, to a plain callable, or nowhere.

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

from topicstream.base.errors import show_addresses
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
    "pass {pass}/{passes}: {seconds:.2f} s, {speed:.1f} M values/s[, running perplexity "
    "{running_perplexity:.1f}]"
    "[, held-out {heldout_perplexity:.1f}][, {figures}]" + FETCHED + "[, at most {left:.0f} s left]"
)
STEP = "{what}: {done:,}[ of {total:,}] {unit}"
STEPS = {
    "cell": "{what}: {share:.0p} %, {speed:.1f} M values/s, {left}",
    "B": "read {done:size}[ of {total:size}], {documents}[{total:?}, {left}]",
    "piece": "{what}: {share:.0p} %",
}
"""A step in words, by its unit."""


MANY_PASSES = 200
"""More passes than these do not each get a line of a terminal."""
LEAST_BETWEEN = 5
MOST_MILESTONES = 40
"""Lines of passes that follow each other fast: about so many, and at least so many passes apart."""


@runtime_checkable
class Progress(Protocol):
    """A listener to the progress of a command. Derive from it and override what is wanted.

    By itself it only logs lines.

    Examples
    --------
    >>> import topicstream
    >>> from topicstream.base.progress import Progress
    >>> class Passes(Progress):
    ...     def end_pass(self, record, passes):
    ...         if record["pass"]:  # 0 is the start
    ...             print("pass", record["pass"], "of", passes)
    >>> trained = topicstream.train("corpus.zarr", "small", topics=2, passes=2, progress=Passes())
    pass 1 of 2
    pass 2 of 2
    """

    def say(self, line: str) -> None:
        """Report a line at once."""
        LOG.log(
            logging.WARNING if line.startswith("warning") else logging.INFO,
            "%s",
            show_addresses(line),
        )

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        """Report that ``done`` of ``total`` units of a phase are finished.

        It is called often.

        Parameters
        ----------
        phase
            The phase, such as ``"topics of documents"``.
        done, total
            Finished units and all of them (None: unknown).
        unit
            ``cell``, ``B`` (bytes), ``piece``, ``documents`` or ``words``; without a unit, the
            phase only begins, and nothing is reported on the way.
        documents
            Documents in the bytes.
        """
        return

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        """Report the end of a training pass.

        Parameters
        ----------
        record
            The pass's line of the history.
        passes
            Passes of the training, at most.
        """
        return

    def close(self) -> None:
        """End the report."""
        return


ProgressLike = Progress | Callable[[str, int, int], None] | bool | None
"""Values of an argument ``progress``: a ``Progress``; a function called with (phase, done, total
or 0); True: stderr; False: silence; None: the function's default."""


class Calls(Progress):
    """A listener that calls a plain function."""

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
    """A listener that only logs."""


def in_notebook() -> bool:
    """Tell whether a Jupyter kernel runs us, whose stderr is no terminal but shows bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


def _bar_class(terminal: bool) -> Any:
    """Return tqdm's class of bars for a terminal or a notebook."""
    if terminal:
        from tqdm import tqdm

        return tqdm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook, too, gets the bar of text
        from tqdm.auto import tqdm as auto
    return auto


class Shown(Progress):
    """A listener that writes to a stream.

    It shows a bar on a terminal and in a notebook, and elsewhere a plain line at least every 10 s.

    Parameters
    ----------
    verbose
        Below 0: nothing is written; above 0: every pass is.
    stream
        The stream (default: stderr).
    stamped
        Begin every line with the time, as it does if ``verbose`` is above 0.
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
        """Write a line in the place of a bar, and log it."""
        Progress.say(self, line)
        self.close()
        if self._verbose >= 0:
            self._write(show_addresses(line))

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        """Move the bar, or write a line if one is due."""
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
                self._write(phase)
        elif self._bars:
            self._move_bar(done, total, unit, documents)
        elif due and time.monotonic() - self._began >= DELAY.get(unit, 0.0):
            ends_pass = unit == "cell" and done >= (total or 0)
            if not ends_pass:  # whose line ``end_pass`` writes
                self._write(self._describe_step(done, total, unit, documents))

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        """Write a line about the pass, unless passes follow each other too fast to read."""
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
        seconds_left = record["seconds"] * (passes - number)
        about = {
            "passes": passes,
            "speed": record["cells_per_second"] / 1e6,
            "figures": figures,
            "left": seconds_left if seconds_left >= 1 else 0,
        }
        shows_all = self._verbose > 0 or (self._terminal and passes <= MANY_PASSES)
        is_long = record["seconds"] >= 0.5
        between = max(LEAST_BETWEEN, passes // MOST_MILESTONES)
        is_milestone = number % between == 0 or number == passes
        due = time.monotonic() - self._last >= EVERY / 2
        if shows_all or is_long or is_milestone or due:
            self.say(*render(PASS, {**record, **about}))

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _write(self, text: str) -> None:
        """Write a line, with the time or wrapped."""
        if self._stamped:
            text = f"{datetime.now().astimezone().isoformat(timespec='seconds')} {text}"
        elif self._terminal:
            text = textwrap.fill(
                text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        print(text, file=self._stream, flush=True)
        self._last = time.monotonic()

    def _describe_step(self, done: int, total: int | None, unit: str, documents: int) -> str:
        """Describe a step by share, speed and time left."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        known_total = total or 0
        about = {
            "what": self._what.partition("/")[0] if unit == "cell" else self._what,
            "share": done / (known_total or 1),
            "done": done,
            "total": total,
            "unit": unit,
            "documents": f"{counted(documents, 'document')}, {documents / seconds:,.0f}/s",
            "speed": done / seconds / 1e6,
            "left": f"{seconds * (known_total - done) / max(done, 1):.0f} s left",
        }
        return render(STEPS.get(unit, STEP), about)[0]

    def _move_bar(self, done: int, total: int | None, unit: str, documents: int) -> None:
        """Move the bar, and make it if the phase takes long enough."""
        if self._bar is None:
            if time.monotonic() - self._began < DELAY.get(unit, 0.0):
                return
            self._bar = _bar_class(self._terminal)(
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


class OneBar(Progress):
    """A listener for notebooks: one bar, and warnings as lines of output.

    The bar is that of the step at hand; during a training it counts the passes.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._unit = ""
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """Print a warning. A line of progress only goes to the log."""
        Progress.say(self, line)
        if line.startswith("warning"):
            print(show_addresses(line), flush=True)  # a notebook shows stderr in red

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        """Move the bar, unless it counts passes."""
        if self._unit == "pass" or not unit:
            return
        self._move(phase, unit, done, total)

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        """Move the bar by a pass."""
        self._move("training", "pass", record["pass"], passes)
        perplexity = record.get("running_perplexity")
        if perplexity and self._bar is not None:
            self._bar.set_postfix_str(f"running perplexity {perplexity:.1f}", refresh=False)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _move(self, phase: str, unit: str, done: int, total: int | None) -> None:
        """Make the bar a moment after the beginning, and move it."""
        if self._bar is None:
            if time.monotonic() - self._began < DELAY.get(unit, 0.0):
                return
            self._bar = _bar_class(terminal=False)(leave=False, unit_scale=unit != "pass")
        if unit != self._unit:
            self._bar.reset(total or None)
            self._unit = unit
        self._bar.set_description(phase, refresh=False)
        self._bar.unit = unit if unit in ("B", "cell", "piece", "pass") else f" {unit}"
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)
        if total and done >= total:
            self.close()


def screen_listener() -> Progress:
    """Make the listener that suits a terminal, a file or a notebook."""
    return OneBar() if in_notebook() else Shown()


def listener(progress: ProgressLike, default: Callable[[], Progress] = Silent) -> Progress:
    """Make the ``Progress`` that a function's argument ``progress`` asks for.

    Parameters
    ----------
    progress
        The argument.
    default
        Makes the listener for None.
    """
    if isinstance(progress, Progress):
        return progress
    if progress is None:
        return default()
    if isinstance(progress, bool):
        return screen_listener() if progress else Silent()
    return Calls(progress)
