"""click's options made from a config dataclass: the one list of a command's options is the library's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from topicstream.errors import UsageError
from topicstream.options import flags, ordered, renamed


def as_json(help: str = "print the result as JSON") -> Callable[[Any], Any]:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=help)


class OpenChoice(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A choice to which other packages may add."""

    def __init__(self, choices: Sequence[str], more: Callable[[str], bool] | None) -> None:
        super().__init__(choices)
        self._more = more

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, where it is one of them."""
        if value not in self.choices and self._more is not None and self._more(value):
            return value
        return super().convert(value, param, ctx)


def kind_of(field: dataclasses.Field[Any], ranged: bool = True) -> click.ParamType | type:  # type: ignore[type-arg,unused-ignore]
    """click's type of a field."""
    about, first = field.metadata, str(field.type).split(" |")[0]
    if about.get("choices"):
        return OpenChoice([str(c) for c in about["choices"]], about.get("more"))
    if path := about.get("path"):
        return click.Path(exists=path == "exists", dir_okay=path != "file")
    if first not in ("int", "float") or "parse" in about:
        return int if first == "Sequence[int]" else str
    least, most = about.get("min", about.get("above")), about.get("max")
    if not ranged or (least is None and most is None):
        return int if first == "int" else float
    return click.IntRange(least, most) if first == "int" else click.FloatRange(least, most, min_open="above" in about)


def parsed(read: Callable[[str], Any]) -> Callable[..., Any]:
    """A callback that reads the text of an option."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return value if value in (None, ()) else read(value)
        except UsageError as e:
            raise click.BadParameter(str(e)) from None

    return callback


def shown(field: dataclasses.Field[Any], command: str) -> bool:
    """Whether a field is an option of a command."""
    where = field.metadata.get("cli", True)
    return where if isinstance(where, bool) else command in where


def click_option(field: dataclasses.Field[Any], ranged: bool = True, command: str = "", **changes: Any) -> click.Option:
    """The option of a field, with changes of its metadata; its default is None where the default is not shown: not given."""
    about: dict[str, Any] = {"default": field.default, **field.metadata, **changes}
    first = str(field.type).split(" |")[0]
    names = list(flags(field))
    more: dict[str, Any] = {k: about[k] for k in ("metavar", "is_flag", "flag_value") if k in about}
    if "flag_value" in about:
        pass
    elif first == "bool" and not about.get("pair"):
        more |= {"is_flag": True} | ({"flag_value": False} if field.default is True else {})
    elif first == "bool":
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    else:
        more["type"] = kind_of(field, ranged)
    if "parse" in about:
        more["callback"] = parsed(about["parse"])
    return click.Option(
        [*names, field.name],
        default=about["default"] if about.get("show") else None,
        show_default=about.get("show", False),
        required=about.get("required", about["default"] is field.default_factory is dataclasses.MISSING),
        multiple=about.get("multiple", False),
        envvar=about.get("env"),
        help=about.get(f"help_{command}", about["help"]),
        **more,
    )


def options_of(config: type, command: str = "") -> Callable[[Any], Any]:
    """Decorator: a command function takes the options of a config that are for that command."""

    def add(function: Any) -> Any:
        params = getattr(function, "__click_params__", [])
        ours = [click_option(f, command=command) for f in ordered(config) if shown(f, command)]
        function.__click_params__ = [*params, *reversed(ours)]
        return function

    return add


def said(args: Sequence[str], flag: str, default: str) -> str:
    """The value of an option on a line that is not parsed yet."""
    value = default
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args):
            value = args[i + 1]
        elif arg.startswith(flag + "="):
            value = arg.partition("=")[2]
    return value


class Depending(click.Command):
    """A command with options of what another option names: ``own_options`` makes them before the line is parsed."""

    _own: Sequence[click.Option] = ()

    def own_options(self, ctx: click.Context, args: list[str]) -> tuple[Mapping[str, Any], Sequence[click.Option]]:
        """All fields whose old spellings are to be known, and the options to add."""
        raise NotImplementedError

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        fields, own = self.own_options(ctx, args)
        ctx.meta["own"] = [o.name for o in own]
        # another line in this process may have named another: its options go
        common = [p for p in self.params if p not in self._own and p.name not in ctx.meta["own"]]
        self._own, self.params = own, [*common, *own]
        return super().parse_args(ctx, spelt_now(args, fields))


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, or have a default that is shown."""
    return {k: v for k, v in values.items() if v is not None and v != ()}


def spelt_now(args: list[str], fields: Mapping[str, Any]) -> list[str]:
    """A command line with old spellings of options replaced, each with a note on stderr."""
    now = {"--" + old.replace("_", "-"): flags(fields[name])[-1] for old, name in renamed(fields).items()}
    out = list(args)
    for i, arg in enumerate(out[: out.index("--")] if "--" in out else out):
        old, sign, value = arg.partition("=")
        if old in now:
            click.echo(f"note: {old} is called {now[old]} now", err=True)
            out[i] = now[old] + sign + value
    return out
