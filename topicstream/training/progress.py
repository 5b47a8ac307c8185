"""What a training run tells while it runs: on stderr, a bar on a terminal, else a plain line at least every 10 s."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

QUIET_SECONDS = 10.0


class Progress:
    """Prints the plan, the passes and, within a long pass, how far it is.  ``verbose`` < 0: errors only."""

    def __init__(self, verbose: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._bar: Any = None
        self._last = time.monotonic()
        self._terminal = self._stream.isatty()

    def say(self, line: str) -> None:
        """One line."""
        if self._verbose >= 0:
            if self._bar is not None:
                self._bar.clear()
            print(line, file=self._stream, flush=True)
            self._last = time.monotonic()

    def begin_pass(self, number: int, passes: int, cells: int) -> None:
        """A pass of ``cells`` cells begins (0 is the start)."""
        self._number, self._passes, self._cells = number, passes, cells
        self._began = time.monotonic()
        if self._terminal and self._verbose >= 0:
            from tqdm import tqdm

            name = "start" if number == 0 else f"pass {number}/{passes}"
            self._bar = tqdm(
                total=cells, desc=name, unit="cell", unit_scale=True, leave=False, file=self._stream, delay=1.0
            )

    def cells(self, done: int) -> None:
        """So many cells of the pass are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif time.monotonic() - self._last >= QUIET_SECONDS and done < self._cells:
            seconds = time.monotonic() - self._began
            left = seconds * (self._cells - done) / max(done, 1)
            name = "start" if self._number == 0 else f"pass {self._number}"
            self.say(
                f"{name}: {100 * done / self._cells:.0f} %, {done / max(seconds, 1e-9) / 1e6:.1f} M cells/s, {left:.0f} s left"
            )

    def end_pass(self, record: dict[str, Any]) -> None:
        """A pass is done; ``record`` is its line of the history."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._number == 0:
            self.say(f"start ({record['start']}): {record['seconds']:.1f} s")
            return
        parts = [
            f"pass {record['pass']}/{self._passes}: {record['seconds']:.2f} s, {record['cells_per_second'] / 1e6:.1f} M cells/s"
        ]
        if record.get("train_perplexity") is not None:
            parts.append(f"perplexity {record['train_perplexity']:.1f}")
        if record.get("heldout_perplexity") is not None:
            parts.append(f"held-out {record['heldout_perplexity']:.1f}")
        left = record["seconds"] * (self._passes - record["pass"])
        if left >= 1:
            parts.append(f"at most {left:.0f} s left")
        short = record["seconds"] < 0.5 and record["pass"] % 5 and record["pass"] != self._passes
        if not (
            short and self._verbose <= 0 and not self._terminal and time.monotonic() - self._last < QUIET_SECONDS / 2
        ):
            self.say(", ".join(parts))
