"""Signals that end a command: their exit codes, and the last one that a handler raised an error
for.

Libraries written in C run our handlers, too, and some put an error of their own in the place of
what a handler raises; the command then knows from here that it was a signal.
"""

from __future__ import annotations

from dataclasses import dataclass

from topicstream.base.errors import Interrupted, Stopped


@dataclass(frozen=True)
class Received:
    """A signal that came, and what its handler said."""

    signum: int
    message: str


_received: list[Received] = []


def stopped(signum: int, message: str) -> Stopped:
    """Remember a signal; the error that its handler raises."""
    _received[:] = [Received(signum, message)]
    return Stopped(message, signum)


def forget_signals() -> None:
    """Begin a command."""
    _received.clear()


def behind(error: BaseException) -> BaseException:
    """What a command ends with: a signal that an error stands for, else the error itself."""
    if not _received or isinstance(error, (Interrupted, Stopped)):
        return error
    return Stopped(_received[0].message, _received[0].signum)
