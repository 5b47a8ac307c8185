"""``-q`` and ``-v`` of every command, as one number the whole process reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from topicstream.progress import Shown

QUIET = -1
_level = 0


def verbosity() -> int:
    """-1 quiet (errors and results only), 0 normal, 1 verbose, 2 with tracebacks."""
    return _level


def set_verbosity(level: int) -> None:
    """Set it for the process."""
    global _level
    _level = level


@contextmanager
def showing() -> Iterator[Shown]:
    """What a command tells on stderr while it runs, as -q and -v ask; a bar is gone before the result is printed."""
    from topicstream.progress import Shown

    with closing(Shown(_level)) as progress:
        yield progress


def _quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        set_verbosity(QUIET)


def _verbose(ctx: click.Context, param: click.Parameter, value: int) -> None:
    if value:
        set_verbosity(value)


def verbosity_options() -> list[click.Parameter]:
    """The two options, to be added to a command; they pass nothing to its function."""
    common: dict[str, Any] = {"expose_value": False, "is_eager": True}
    return [
        click.Option(["-q", "--quiet"], is_flag=True, callback=_quiet, help="No progress on stderr.", **common),
        click.Option(
            ["-v", "--verbose"], count=True, callback=_verbose, help="More on stderr; -vv: tracebacks.", **common
        ),
    ]
