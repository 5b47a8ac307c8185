"""Options that an add-on or another package gives to an existing command."""

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
    """Options for an existing command, and the function that does what they ask for.

    It is an entry point of ``topicstream.options.COMMAND``; `train`, `info` and `edit` have such
    options.

    Attributes
    ----------
    Options
        A dataclass of options.
    asked
        Tells from an instance of it whether ``run`` is called.
    run
        What the command calls then (docs/internals/extending.md: with what, and what it returns).
    requires
        The options that ask for it, as a message names them.
    """

    Options: type
    asked: Callable[[Any], bool]
    run: Callable[..., Any]
    requires: str


Asked = dict[str, tuple[CommandOptions, Any]]
"""Extensions that a line asks for, with their options, by name."""


def extensions(command: str) -> dict[str, CommandOptions]:
    """Return the registered options of a command by name."""
    return dict(plugins.loaded(f"{plugins.OPTIONS}.{command}"))


def extended(command: str) -> Callable[[Any], Any]:
    """Decorate a command's function: it takes the registered options, too."""

    def add(function: Any) -> Any:
        for extension in extensions(command).values():
            function = options_of(extension.Options)(function)
        return function

    return add


def take_extensions(command: str, values: dict[str, Any]) -> Asked:
    """Take the registered options out of a command's values.

    Returns
    -------
    dict
        The extensions that are asked for.

    Raises
    ------
    click.UsageError
        For an option of an extension that is not asked for.
    """
    asked: Asked = {}
    for name, extension in extensions(command).items():
        own = [field for field in fields(extension.Options) if field.name in values]
        options = config_of(
            extension.Options, {field.name: values.pop(field.name) for field in own}
        )
        if extension.asked(options):
            asked[name] = (extension, options)
            continue
        wrong = [field for field in own if getattr(options, field.name) != field.default]
        if wrong:
            raise click.UsageError(f"{flags(wrong[0])[-1]} requires {extension.requires}")
    return asked
