"""The base of all commands: common options, options that a line asks for, printed results."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import Field, dataclass
from itertools import chain
from typing import Any

import click

from topicstream.base.errors import json_line
from topicstream.base.files.marker import kind_of
from topicstream.base.options import checked, flags, ordered
from topicstream.base.progress import Shown
from topicstream.cli.options import click_option
from topicstream.cli.process import set_verbosity, verbosity


@contextmanager
def show_progress() -> Iterator[Shown]:
    """Show progress on stderr as -q and -v ask, and clear a bar at the end."""
    with closing(Shown(verbosity())) as progress:
        yield progress


def _set_verbosity(ctx: click.Context, param: click.Parameter, value: int) -> None:
    """Set the verbosity as -q or -v says."""
    if value:
        set_verbosity(-1 if param.name == "quiet" else value)


def _common_options() -> list[click.Parameter]:
    """Make the options that every command has."""
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

    Attributes
    ----------
    config
        A dataclass of options.
    option_of
        Makes the command-line option of a field.
    """

    config: type
    option_of: Callable[[Field[Any]], click.Option] = click_option


def _help_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the help with all sections, and end."""
    if value:
        ctx.meta["all options"] = True
        click.echo(ctx.get_help())
        ctx.exit()


class Command(click.Command):
    """A command of ``topics``.

    Parameters
    ----------
    sections_of
        Returns the sections of options that an unparsed line calls for, by title; for None: all
        sections.
    groups
        Names of options by the title of their section. ``--help-all`` shows all sections,
        ``--help`` only the options that no group names.
    """

    def __init__(
        self,
        *args: Any,
        sections_of: Callable[[Sequence[str] | None], Mapping[str, Section]] = lambda line: {},
        groups: Mapping[str, Sequence[str]] | None = None,
        **about: Any,
    ) -> None:
        super().__init__(*args, **about)
        self._sections_of = sections_of
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
        """Return the sections that this line asks for, by title."""
        if "sections" not in ctx.meta:
            ctx.meta["sections"] = self._sections_of(ctx.meta.get("line"))
        sections: Mapping[str, Section] = ctx.meta["sections"]
        return sections

    def section_options(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Make the options of the sections, by title, that the command does not have itself."""
        if "section options" not in ctx.meta:
            names = {param.name for param in self.params}
            section_options: dict[str, list[click.Option]] = {}
            for title, section in self.sections(ctx).items():
                fields = [
                    f
                    for f in ordered(section.config)
                    if f.name not in names and f.metadata.get("cli", True)
                ]
                section_options[title] = [section.option_of(field) for field in fields]
                names |= {field.name for field in fields}
            ctx.meta["section options"] = section_options
        options: dict[str, list[click.Option]] = ctx.meta["section options"]
        return options

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with garbage collection on again."""
        if not gc.isenabled():
            # cli/entry.py turned it off; the modules of the command are imported now and stay
            gc.freeze()
            gc.enable()
        return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options, then those that the line asks for."""
        return [*super().get_params(ctx), *chain.from_iterable(self.section_options(ctx).values())]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line, on which paths may stand without their options."""
        ctx.meta["line"] = tuple(args)
        return super().parse_args(ctx, self._name_places(ctx, args))

    def _name_places(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrite a line so that store and model stand where this command takes them.

        A user may name them by ``--corpus`` and ``--model``, or give their paths alone, whether
        the command takes them as options or as arguments.
        """
        arguments = {f"--{p.name}" for p in self.params if isinstance(p, click.Argument)}
        positional = arguments & {"--corpus", "--model"}
        words = []
        for word in args:
            option, _, value = word.partition("=")
            if word not in positional:
                words.append(value if option in positional else word)
        alone = {}
        for word in self.make_parser(ctx).parse_args(list(words))[1]:
            kind = kind_of(os.path.realpath(word))
            alone["--model" if kind == "version" else f"--{kind}"] = word
        options = set(chain.from_iterable(p.opts for p in self.params))
        places = {name: word for name, word in alone.items() if name in options}
        args = [word for word in words if word not in places.values()]
        args += chain.from_iterable(places.items())
        if places:  # the sections may depend on the model
            ctx.meta["line"] = tuple(args)
            for name in ("section options", "sections"):
                ctx.meta.pop(name, None)
        return args

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options, section by section."""
        common = super().get_params(ctx)
        grouped = set(chain.from_iterable(self._groups.values()))
        sections: dict[str, Sequence[click.Parameter]] = {
            "Options": [p for p in common if p.name not in grouped]
        }
        if "all options" in ctx.meta:
            sections |= {
                title: [p for p in common if p.name in names]
                for title, names in self._groups.items()
            }
        for title, options in (sections | self.section_options(ctx)).items():
            records = [
                option.get_help_record(ctx)
                for option in options
                if isinstance(option, click.Option)
            ]
            rows = [record for record in records if record is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def take_section_values(ctx: click.Context, values: dict[str, Any]) -> dict[str, Any]:
    """Take the values of the sections' options out of ``values``, checked."""
    section_values: dict[str, Any] = {}
    for section in ctx.meta["sections"].values():
        names = [f.name for f in ordered(section.config) if f.name in values]
        given = {name: values.pop(name) for name in names}
        present = {name: value for name, value in given.items() if value is not None}
        section_values |= checked(section.config, present, "topics", lambda field: flags(field)[-1])
    return section_values


Printed = tuple[Any, list[str]] | None
"""The result of a command for JSON, and its lines for people; None: nothing is left to print."""


def topics_command(
    name: str, kind: type[Command] = Command, indent: int | None = 1, **about: Any
) -> Callable[[Callable[..., Printed]], Command]:
    """Make a command of a function that takes its options and returns its result.

    Parameters
    ----------
    name
        Name of the command.
    kind
        Class of the command.
    indent
        Indentation of ``--json``; None: one line.
    about
        Further arguments of ``Command``.

    Examples
    --------
    >>> import click
    >>> from topicstream.cli.command import topics_command
    >>> @topics_command("count")
    ... @click.argument("path")
    ... def command(path):
    ...     "Count the lines of PATH."
    ...     with open(path, encoding="utf-8") as file:
    ...         lines = sum(1 for _ in file)
    ...     return {"lines": lines}, [f"{path}: {lines} lines"]
    >>> command.name
    'count'
    """

    def wrap(function: Callable[..., Printed]) -> Command:
        """Make the command."""

        @functools.wraps(function)
        def call(*args: Any, as_json: bool, **values: Any) -> None:
            """Call the function and print its result."""
            printed = function(*args, **values)
            if printed is None:
                return
            result, lines = printed
            if as_json:
                click.echo(json_line(result, indent))
            else:
                click.echo("\n".join(lines), nl=bool(lines))

        return click.command(name, cls=kind, **about)(call)

    return wrap
