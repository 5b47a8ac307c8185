"""The process of a command: verbosity, standard streams, and signals that clean up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from topicstream.base.signals import note_signal

_verbosity = 0


def verbosity() -> int:
    """Return -1 (errors and results only), 0 (normal), 1 (verbose) or 2 (with tracebacks)."""
    return _verbosity


def set_verbosity(level: int) -> None:
    """Set the verbosity of the process."""
    global _verbosity
    _verbosity = level


def make_handler(message: str) -> Callable[[int, object], None]:
    """Make a handler of signals that ends the command with a message.

    The command removes its temporary files, which another signal does not cut short.
    """

    def handle(signum: int, frame: object) -> None:
        """Ignore further signals and raise the error that ends the command."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        raise note_signal(signum, message)

    return handle


def end_by_signals() -> None:
    """Let signals end the process's command in one line, unless they are ignored (nohup).

    Commands that can be resumed set handlers of their own.
    """
    signal.signal(signal.SIGTERM, make_handler("stopped; nothing was left half-written"))
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, make_handler("interrupted; nothing was left half-written"))


def stop_with(message: str) -> None:
    """Let SIGTERM and SIGINT end the command with a message of how to go on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, make_handler(message))


def reserve_streams() -> None:
    """Open the standard streams that the caller closed, so that no file gets their numbers.

    Input and output then fail when they are used, and stderr is lost.
    """
    for fd, name, mode in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_RDWR),
    ):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
            open_mode = "w" if fd else "r"
            stream = open(fd, open_mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
