"""The signal that ends a command.

Libraries written in C run our handlers, too, and some replace the error that a handler raises by
one of their own. The command then learns from here that it was a signal.
"""

from __future__ import annotations

from dataclasses import dataclass

from topicstream.base.errors import Interrupted, Stopped


@dataclass(frozen=True)
class Received:
    """A signal that came, and the message of its handler."""

    signum: int
    message: str


_received: list[Received] = []


def note_signal(signum: int, message: str) -> Stopped:
    """Note a signal, and return the error that its handler is to raise."""
    _received[:] = [Received(signum, message)]
    return Stopped(message, signum)


def forget_signals() -> None:
    """Forget the signals of an earlier command."""
    _received.clear()


def find_cause(error: BaseException) -> BaseException:
    """Return the error of the signal that an error stands for, or else the error itself."""
    if not _received or isinstance(error, (Interrupted, Stopped)):
        return error
    return Stopped(_received[0].message, _received[0].signum)
