"""Command-line options made from the library's config dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from topicstream.base.options import checked, flags, ordered

C = TypeVar("C")


def click_option(field: dataclasses.Field[Any], command: str = "", **changes: Any) -> click.Option:
    """Make the command-line option of a field.

    click reads numbers and shows choices; other checks follow when the config is made
    (``config_of``). The default is None, unless it is shown.

    Parameters
    ----------
    field
        The field of a config.
    command
        The command, whose help text of the option may be its own (``help_COMMAND``).
    changes
        Changes of the field's metadata.
    """
    about: dict[str, Any] = {"default": field.default, **field.metadata, **changes}
    # an annotation may be text
    type_name = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    kind = type_name.split(" |")[0]
    names = list(flags(field))
    more: dict[str, Any] = {k: about[k] for k in ("metavar", "is_flag", "flag_value") if k in about}
    if kind == "bool" and about.get("pair"):
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    elif kind == "bool" and "flag_value" not in about:
        more |= {"is_flag": True} | ({"flag_value": False} if field.default is True else {})
    elif "flag_value" not in about:
        more["type"] = _click_type(about, kind)
    if about.get("choices") and "more" in about:
        more["metavar"] = f"[{'|'.join(map(str, about['choices']))}]"
    required = about.get(
        "required", about["default"] is field.default_factory is dataclasses.MISSING
    )
    if not required:  # for click 8.5 a default of None is one
        more["default"] = about["default"] if about.get("show") else None
    return click.Option(
        [*names, field.name],
        show_default=about.get("show", False),
        required=required,
        multiple=about.get("multiple", False),
        envvar=about.get("env"),
        help=about.get(f"help_{command}", about["help"]),
        **more,
    )


def _click_type(about: Mapping[str, Any], kind: str) -> Any:
    """Return the type that click converts a value to."""
    if about.get("choices") and "more" not in about:
        return click.Choice([str(choice) for choice in about["choices"]])
    path = about.get("path")
    if path:
        return click.Path(exists=path == "exists", dir_okay=path != "file")
    if "parse" in about:
        return str
    return {"int": int, "float": float, "Sequence[int]": int}.get(kind, str)


def _is_option_of(field: dataclasses.Field[Any], command: str) -> bool:
    """Tell whether a field is an option of a command."""
    commands = field.metadata.get("cli", True)
    return commands if isinstance(commands, bool) else command in commands


def options_of(config: type, command: str = "") -> Callable[[Any], Any]:
    """Decorate a command function so that it takes the options of a config.

    Of options that two configs of a command share, the first to be added stays.
    """

    def add(function: Any) -> Any:
        """Add the options."""
        params = getattr(function, "__click_params__", [])
        names = {param.name for param in params}
        options = [
            click_option(f, command)
            for f in ordered(config)
            if _is_option_of(f, command) and f.name not in names
        ]
        function.__click_params__ = [*params, *reversed(options)]
        return function

    return add


def drop_unset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the options that were not given and show no default."""
    return {k: v for k, v in values.items() if v is not None and v != ()}


def config_of(config: Callable[..., C], values: Mapping[str, Any], **more: Any) -> C:
    """Make the config of a command line, checked as the library checks its arguments."""
    kind: Any = config
    return config(
        **checked(kind, drop_unset(values), "topics", lambda field: flags(field)[-1]), **more
    )


def value_on_line(line: Sequence[str] | None, flag: str, default: str) -> str:
    """Return the value of an option on a line that is not parsed yet."""
    value = default
    args = line or ()
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args):
            value = args[i + 1]
        elif arg.startswith(flag + "="):
            value = arg.partition("=")[2]
    return value
