"""The errors a user can meet, each with its exit code (0 done, 2 usage is click's own).

Every message is one line: what, where (file:line, record, block), what to do.
"""

from __future__ import annotations


def one_line(message: object) -> str:
    """What is shown of text that others wrote: line breaks are spaces, control characters their escapes."""
    text = str(message).replace("\n", " ").strip()
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class TopicsError(Exception):
    """Base of all errors reported as one line; ``exit_code`` is the process's."""

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


class InputError(TopicsError):
    """Bad input data (exit 3)."""

    exit_code = 3


class StoreError(InputError):
    """A store or a model on disk is damaged, incomplete or of another version (exit 3)."""


class Busy(TopicsError):
    """Another process holds the lock (exit 4)."""

    exit_code = 4


class DoesNotFit(TopicsError):
    """The work does not fit the memory limit or the disk (exit 5)."""

    exit_code = 5


class GateRefused(TopicsError):
    """The quality gate of a retrain refused the new model (exit 6)."""

    exit_code = 6


class Interrupted(TopicsError):
    """Stopped by a signal after a checkpoint was written (exit 130 or 143)."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum
