"""The errors a user can meet, each with its exit code (0 done, 2 usage is click's own).

Every message is one line: what, where (file:line, record, block), what to do.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Self


def one_line(message: object) -> str:
    """What is shown of text that others wrote: line breaks are spaces, control characters their
    escapes.
    """
    text = str(message).replace("\n", " ").strip()
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    )


ADDRESSES: dict[str, str] = {}
"""Folders that hold what was read at an address (base/places.py), and that address."""


def named(text: str) -> str:
    """Text that names what was read at an address by that address, and not by its folder here or as
    a ``Path`` writes it.
    """
    for folder, address in ADDRESSES.items():
        text = text.replace(folder, address)
    return re.sub(r"\b(s3|gs|az|abfss?|https?):/(?=[^/\s])", r"\1://", text)


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")

_MARKS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def terminal_safe(text: object) -> str:
    """A word or an id for a terminal: controls, and marks that turn the direction of what follows,
    as their escapes.
    """
    return _CONTROLS.sub(
        lambda m: repr(m[0])[1:-1] if ord(m[0]) < 0xA0 else f"\\u{ord(m[0]):04x}", str(text)
    )


def json_line(value: object, indent: int | None = None) -> str:
    """JSON for a terminal or a pipe: letters as they are, controls and marks of direction as
    escapes.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _MARKS.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def restore_error(
    kind: type[BaseException], args: tuple[object, ...], state: Mapping[str, Any]
) -> BaseException:
    """Rebuild an error from its parts, whatever its constructor takes."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class _Portable:
    """Lets an error be copied and sent to another process."""

    args: tuple[object, ...]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            cls.__module__ = "topicstream.errors"

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_error, (type(self), self.args, dict(self.__dict__))


class TopicsError(_Portable, Exception):
    """Base of all errors reported as one line; ``exit_code`` is the process's."""

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(named(one_line(message)))
        self._note_options()

    def _note_options(self) -> None:
        """Name options as Python does, where the message names them as the command line does."""
        if options := dict.fromkeys(_OPTION.findall(str(self))):
            self.add_note(
                f"In Python: {', '.join(option.replace('-', '_') + '=' for option in options)}"
            )

    def reworded(self, message: object) -> Self:
        """The same error with another message."""
        other = copy(self)
        other.args = (named(one_line(message)),)
        other.__dict__.pop("__notes__", None)
        other._note_options()
        return other


def exit_code_of(error: BaseException) -> int:
    """The exit code of a process that an error ends: 5 for a full disk, too, whoever noticed it."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return int(getattr(error, "exit_code", 5 if full else 1))


class InputError(TopicsError):
    """Bad input data (exit 3)."""

    exit_code = 3


class NothingKept(InputError):
    """Nothing of what an ingest has read can be used as it was asked (exit 3): its working folder
    goes, too.
    """


class UsageError(InputError):
    """What was asked for cannot be meant (exit 2): an option's value, or a place that is no place
    for the output.
    """

    exit_code = 2


class FilesFailed(InputError):
    """Raw files cannot be taken in; the run has gone on without them (exit 3)."""

    def __init__(self, message: str, summary: Mapping[str, Any]) -> None:
        """``summary``: of the run."""
        super().__init__(message)
        self.summary = summary


class StoreError(InputError):
    """A store or a model on disk is damaged, incomplete or of another version (exit 3)."""


class NotOurs(InputError):
    """A file or folder is in the way that this program did not make (exit 3)."""


class Busy(TopicsError):
    """Another process holds the lock (exit 4)."""

    exit_code = 4


class DoesNotFit(TopicsError):
    """The work does not fit the memory limit or the disk (exit 5)."""

    exit_code = 5

    def __init__(self, message: str, *, least: int = 0) -> None:
        """``least``: megabytes that would do, where that is known."""
        super().__init__(message)
        self.least = least


class DiskTooSmall(DoesNotFit):
    """What the work would write does not fit the disk (exit 5)."""


class GateRefused(TopicsError):
    """The quality gate of a retrain refused the new model (exit 6)."""

    exit_code = 6


class WorkersLost(TopicsError):
    """Workers of a cluster are gone in the middle of a training, whose checkpoints stay
    (exit 7).
    """

    exit_code = 7

    def __init__(self, message: str, addresses: Iterable[str] = ()) -> None:
        """``addresses``: of those workers, where it is known."""
        super().__init__(message)
        self.addresses = set(addresses)


def exit_code_of_signal(signum: int) -> int:
    """The exit code of a process that a signal ends, as shells have it."""
    return 128 + signum


class Interrupted(TopicsError):
    """Stopped by a signal after a checkpoint was written (exit 130 or 143)."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code_of_signal(signum)


class Stopped(_Portable, BaseException):
    """A signal came in the middle of something (exit 130 or 143).  No ``Exception``: whoever can go
    on after one must not take this for one.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code_of_signal(signum)
