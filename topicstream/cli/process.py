"""The process of a command: how much it tells, its standard streams, and signals that clean up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from topicstream.base.signals import stopped

_verbosity = 0


def verbosity() -> int:
    """-1 quiet (errors and results only), 0 normal, 1 verbose, 2 with tracebacks."""
    return _verbosity


def set_verbosity(level: int) -> None:
    """Set it for the process."""
    global _verbosity
    _verbosity = level


def stopping(message: str) -> Callable[[int, object], None]:
    """A handler of signals that ends the command, so that temporary files go; another signal does
    not cut that short.
    """

    def handle(signum: int, frame: object) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        raise stopped(signum, message)

    return handle


def end_by_signals() -> None:
    """Let signals end the process's command, in one line, unless they are ignored (nohup).

    Commands that go on later have handlers of their own.
    """
    signal.signal(signal.SIGTERM, stopping("stopped; nothing was left half-written"))
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stopping("interrupted; nothing was left half-written"))


def stop_with(message: str) -> None:
    """Let SIGTERM and SIGINT end the command with a message of how to go on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopping(message))


def hold_streams() -> None:
    """Take the descriptors 0 to 2 where the caller closed them, so that no file of ours gets such a
    number: input and output fail when they are used, what goes to stderr is lost.
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
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
