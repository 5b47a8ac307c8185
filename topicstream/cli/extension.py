"""Options that an add-on or another package adds to an existing command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import click

from topicstream.base import plugins
from topicstream.base.options import flags
from topicstream.cli.options import config_of, options_of


@dataclass(frozen=True)
class CommandOptions:
    """Options for an existing command, and the function that they call.

    An instance is an entry point of ``topicstream.options.COMMAND``. The commands `train`, `info`
    and `edit` have such options.

    Attributes
    ----------
    Options
        A dataclass of options.
    is_requested
        Returns, for an instance of ``Options``, whether ``run`` is to be called.
    run
        The function. docs/internals/extending.md has its arguments and its result for each command.
    requires
        The options that ask for ``run``, as a message names them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from topicstream.base.options import option
    >>> from topicstream.cli.extension import CommandOptions
    >>> @dataclass(frozen=True)
    ... class TimeOptions:
    ...     time_each: bool = option(False, "Print the seconds of a pass.")
    >>> def seconds_of_pass(config, options):
    ...     return {"seconds": 1.0}, ["1.0 s a pass"]
    >>> TIME = CommandOptions(
    ...     TimeOptions, lambda options: options.time_each, seconds_of_pass, "--time-each"
    ... )
    >>> TIME.is_requested(TimeOptions(time_each=True))
    True
    """

    Options: type
    is_requested: Callable[[Any], bool]
    run: Callable[..., Any]
    requires: str


Requested = dict[str, tuple[CommandOptions, Any]]
"""Extensions that a line asks for, with their options, by name."""


def extensions(command: str) -> dict[str, CommandOptions]:
    """Return the registered options of a command, by name."""
    return dict(plugins.loaded(f"{plugins.OPTIONS}.{command}"))


def extended(command: str) -> Callable[[Any], Any]:
    """Decorate a command's function so that it takes the registered options, too."""

    def add(function: Any) -> Any:
        """Add the options."""
        for extension in extensions(command).values():
            function = options_of(extension.Options)(function)
        return function

    return add


def take_extensions(command: str, values: dict[str, Any]) -> Requested:
    """Take the registered options out of a command's values.

    Returns
    -------
    dict
        The extensions that are asked for.

    Raises
    ------
    click.UsageError
        If an option of an extension is given that is not asked for.
    """
    requested: Requested = {}
    for name, extension in extensions(command).items():
        present = [field for field in fields(extension.Options) if field.name in values]
        options = config_of(
            extension.Options, {field.name: values.pop(field.name) for field in present}
        )
        if extension.is_requested(options):
            requested[name] = (extension, options)
            continue
        wrong = [field for field in present if getattr(options, field.name) != field.default]
        if wrong:
            raise click.UsageError(f"{flags(wrong[0])[-1]} requires {extension.requires}")
    return requested
