"""What all commands share: -q, -v and --json, options that the line itself asks for, and one way to
print a result.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import Field, dataclass
from typing import Any

import click

from topicstream.base.errors import json_line
from topicstream.base.files.marker import kind_of
from topicstream.base.options import checked, flags, ordered
from topicstream.base.progress import Shown
from topicstream.cli.options import click_option
from topicstream.cli.process import set_verbosity, verbosity


@contextmanager
def showing() -> Iterator[Shown]:
    """What a command tells on stderr while it runs, as -q and -v ask; a bar is gone before the
    result is printed.
    """
    with closing(Shown(verbosity())) as progress:
        yield progress


def _set_verbosity(ctx: click.Context, param: click.Parameter, value: int) -> None:
    if value:
        set_verbosity(-1 if param.name == "quiet" else value)


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            callback=_set_verbosity,
            expose_value=False,
            is_eager=True,
            help="Print no progress on stderr.",
        ),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            callback=_set_verbosity,
            expose_value=False,
            is_eager=True,
            help="Print more on stderr; -vv also prints tracebacks.",
        ),
    ]


@dataclass(frozen=True)
class Section:
    """Further options of a command: those of an engine, a method or a view.

    option_of: makes one of a field.
    """

    config: type
    option_of: Callable[[Field[Any]], click.Option] = click_option


def _help_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta["all options"] = True
        click.echo(ctx.get_help())
        ctx.exit()


class Command(click.Command):
    """A command of ``topics``.

    Parameters
    ----------
    asked_by
        The sections of options, by their titles, that a line asks for which is not parsed yet;
        None: all that there are.
    groups
        Names of options by the title of their section, of a command with many: ``--help-all`` shows
        all sections, ``--help`` the options that no group names, which matter first.
    """

    def __init__(
        self,
        *args: Any,
        asked_by: Callable[[Sequence[str] | None], Mapping[str, Section]] = lambda line: {},
        groups: Mapping[str, Sequence[str]] | None = None,
        **about: Any,
    ) -> None:
        super().__init__(*args, **about)
        self._asked_by = asked_by
        self._groups = groups or {}
        self.params += _common_options()
        if groups:
            text = f"Show all {len(self.params)} options."
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_help_all,
                    help=text,
                )
            )

    def sections(self, ctx: click.Context) -> Mapping[str, Section]:
        """Title -> options that this line asks for."""
        if "sections" not in ctx.meta:
            ctx.meta["sections"] = self._asked_by(ctx.meta.get("line"))
        sections: Mapping[str, Section] = ctx.meta["sections"]
        return sections

    def asked(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Title -> options of the sections, without those that the command has by itself."""
        if "asked" not in ctx.meta:
            names = {param.name for param in self.params}
            asked: dict[str, list[click.Option]] = {}
            for title, section in self.sections(ctx).items():
                fields = [
                    f
                    for f in ordered(section.config)
                    if f.name not in names and f.metadata.get("cli", True)
                ]
                asked[title] = [section.option_of(field) for field in fields]
                names |= {field.name for field in fields}
            ctx.meta["asked"] = asked
        options: dict[str, list[click.Option]] = ctx.meta["asked"]
        return options

    def invoke(self, ctx: click.Context) -> Any:
        if (
            not gc.isenabled()
        ):  # see cli/entry.py: what the command needs is imported now, and stays
            gc.freeze()
            gc.enable()
        return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [
            *super().get_params(ctx),
            *(option for options in self.asked(ctx).values() for option in options),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["line"] = tuple(args)
        return super().parse_args(ctx, self._with_places(ctx, args))

    def _with_places(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A line on which a store and a model stand as this command takes them, whether given as
        ``--corpus`` and ``--model`` or by their paths alone.
        """
        named = {f"--{p.name}" for p in self.params if isinstance(p, click.Argument)} & {
            "--corpus",
            "--model",
        }
        args = [
            a.partition("=")[2] if a.partition("=")[0] in named else a
            for a in args
            if a not in named
        ]
        kinds = {
            word: kind_of(os.path.realpath(word))
            for word in self.make_parser(ctx).parse_args(list(args))[1]
        }
        alone = {
            "--model" if kind == "version" else f"--{kind}": word for word, kind in kinds.items()
        }
        places = {
            name: word for name, word in alone.items() if any(name in p.opts for p in self.params)
        }
        args = [word for word in args if word not in places.values()]
        args += [word for place in places.items() for word in place]
        if places:  # the sections may depend on what lies there
            ctx.meta["line"] = tuple(args)
            for name in ("asked", "sections"):
                ctx.meta.pop(name, None)
        return args

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        common = super().get_params(ctx)
        grouped = {name for names in self._groups.values() for name in names}
        sections: dict[str, Sequence[click.Parameter]] = {
            "Options": [p for p in common if p.name not in grouped]
        }
        if "all options" in ctx.meta:
            sections |= {
                title: [p for p in common if p.name in names]
                for title, names in self._groups.items()
            }
        for title, options in (sections | self.asked(ctx)).items():
            records = [
                option.get_help_record(ctx)
                for option in options
                if isinstance(option, click.Option)
            ]
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows)


def asked_values(ctx: click.Context, values: dict[str, Any]) -> dict[str, Any]:
    """Take the values of the options that the line itself asked for, checked, out of those of a
    command.
    """
    section_values: dict[str, Any] = {}
    for section in ctx.meta["sections"].values():
        names = [f.name for f in ordered(section.config) if f.name in values]
        given = {name: value for name in names if (value := values.pop(name)) is not None}
        section_values |= checked(section.config, given, "topics", lambda field: flags(field)[-1])
    return section_values


Printed = tuple[Any, list[str]] | None
"""The result of a command, for JSON, and its lines for people; None where nothing is left to print.
"""


def topics_command(
    name: str, kind: type[Command] = Command, indent: int | None = 1, **about: Any
) -> Callable[[Callable[..., Printed]], Command]:
    """Make a command of a function of its options that returns what is to be printed.

    Parameters
    ----------
    name
        What the command is called.
    kind
        Its class.
    indent
        Of JSON; None: one line.
    about
        Anything else that ``Command`` takes.
    """

    def wrap(function: Callable[..., Printed]) -> Command:
        @functools.wraps(function)
        def call(*args: Any, as_json: bool, **values: Any) -> None:
            if (printed := function(*args, **values)) is not None:
                result, lines = printed
                click.echo(
                    json_line(result, indent) if as_json else "\n".join(lines),
                    nl=as_json or bool(lines),
                )

        return click.command(name, cls=kind, **about)(call)

    return wrap
