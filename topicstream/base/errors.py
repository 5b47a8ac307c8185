"""The errors that a user can meet, each with its exit code.

A message is one line: what is wrong, where (file:line, record, block), and what to do.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Self


def one_line(message: object) -> str:
    """Put text of others on one line, with control characters escaped."""
    text = str(message).replace("\n", " ").strip()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


ADDRESSES: dict[str, str] = {}
"""Addresses by the folder that mirrors them (base/places.py)."""


SCHEMES = {"s3", "gs", "az", "abfs", "abfss", "http", "https"}
"""Schemes of addresses, with those of other packages that were asked (base/places.py)."""


def show_addresses(text: str) -> str:
    """Replace folders that mirror addresses by these, and restore both slashes of addresses."""
    for folder, address in ADDRESSES.items():
        text = text.replace(folder, address)
    schemes = "|".join(map(re.escape, sorted(SCHEMES)))
    return re.sub(rf"\b({schemes}):/(?=[^/\s])", r"\1://", text)


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")

_MARKS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Those of ``_CONTROLS`` that ``json.dumps`` leaves as they are."""


def _escape_character(match: re.Match[str]) -> str:
    r"""Escape a character as ``\x9f`` or ``\u2028``."""
    number = ord(match[0])
    return repr(match[0])[1:-1] if number < 0xA0 else f"\\u{number:04x}"


def terminal_safe(text: object) -> str:
    """Escape control characters and marks of direction, for a terminal."""
    return _CONTROLS.sub(_escape_character, str(text))


def json_line(value: object, indent: int | None = None) -> str:
    """Format JSON for a terminal or a pipe, with controls and marks of direction escaped."""
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


def _spell_keyword(option: str) -> str:
    """Spell an option of a command line as a keyword: ``--no-header`` is ``header=False``."""
    name = option.removeprefix("no-").replace("-", "_")
    return f"{name}=False" if option.startswith("no-") else f"{name}="


class _Portable:
    """Base of errors that can be copied and sent to another process."""

    args: tuple[object, ...]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            cls.__module__ = "topicstream.errors"  # the public name

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_error, (type(self), self.args, dict(self.__dict__))


class TopicsError(_Portable, Exception):
    """Base of all errors that are reported as one line (exit ``exit_code``)."""

    exit_code = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(show_addresses(one_line(message)))
        self._note_options()

    def _note_options(self) -> None:
        """Add a note with the Python names of the options in the message."""
        options = dict.fromkeys(_OPTION.findall(str(self)))
        if options:
            self.add_note(f"In Python: {', '.join(map(_spell_keyword, options))}")

    def reworded(self, message: object) -> Self:
        """Copy the error with another message."""
        reworded = copy(self)
        reworded.args = (show_addresses(one_line(message)),)
        reworded.__dict__.pop("__notes__", None)
        reworded._note_options()
        return reworded


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a process that an error ends."""
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        default = DoesNotFit.exit_code  # a full disk that no code of ours has noticed
    else:
        default = TopicsError.exit_code
    return int(getattr(error, "exit_code", default))


class InputError(TopicsError):
    """Bad input data (exit 3)."""

    exit_code = 3


class NothingKept(InputError):
    """An ingest has left out all documents; its working folder is removed, too (exit 3)."""


class UsageError(InputError):
    """An option has a value that it cannot take (exit 2)."""

    exit_code = 2


class FilesFailed(InputError):
    """Raw files could not be read, and the run has gone on without them (exit 3).

    Attributes
    ----------
    summary
        Summary of the run.
    """

    def __init__(self, message: str, summary: Mapping[str, Any]) -> None:
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
    """The work does not fit the memory limit or the disk (exit 5).

    Attributes
    ----------
    least
        Megabytes of the smallest limit that would do; 0: unknown.
    """

    exit_code = 5

    def __init__(self, message: str, *, least: int = 0) -> None:
        super().__init__(message)
        self.least = least


class DiskTooSmall(DoesNotFit):
    """The files that the work would write do not fit the disk (exit 5)."""


class GateRefused(TopicsError):
    """The quality gate of a retrain refused the new model (exit 6)."""

    exit_code = 6


class WorkersLost(TopicsError):
    """Workers of a cluster were lost during a training, whose checkpoints stay (exit 7).

    Attributes
    ----------
    addresses
        Addresses of those workers, as far as they are known.
    """

    exit_code = 7

    def __init__(self, message: str, addresses: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.addresses = set(addresses)


def exit_code_of_signal(signum: int) -> int:
    """Return the exit code of a process that a signal ends, as shells have it."""
    return 128 + signum


class Interrupted(TopicsError):
    """A signal came, and a checkpoint was written (exit 130 or 143)."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code_of_signal(signum)


class Stopped(_Portable, BaseException):
    """A signal came in the middle of some work (exit 130 or 143).

    It is no ``Exception``, so that code which goes on after one does not catch it.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code_of_signal(signum)
