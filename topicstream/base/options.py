"""The options of a command, written once: a field of its config dataclass is a keyword of the
library's function, an option of the command line (cli/options.py), a line of the docs, and the
check of what is given. See docs/internals/extending.md.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import os
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from topicstream.base.errors import UsageError
from topicstream.base.files.openings import current_openings, rewriting_behind
from topicstream.base.text import compose_text

P = ParamSpec("P")
C = TypeVar("C")
C_in = TypeVar("C_in", contravariant=True)
R = TypeVar("R")
R_out = TypeVar("R_out", covariant=True)
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def option(default: Any, help: str, **about: Any) -> Any:
    """A field of a config or of an engine's or method's Options: becomes ``--name-with-dashes``
    with this help.

    Checked, in the library and on the command line: the kind (``instead``: said beside a wrong
    one), ``min``, ``max`` (inclusive), ``above`` (exclusive), ``choices`` (and ``more``: whether a
    value is one more of them), ``parse`` (text -> value), ``stored`` (a store or a model to be
    read, which may be at an address). Shown by the command line: ``flags`` (("-K", "--topics")),
    ``metavar``, ``show`` (the default), ``env``, ``path`` (True, "exists" or "file"), ``pair``
    (--x/--no-x), ``required``, ``cli`` (False: a keyword of the library alone; names of commands:
    those alone), ``help_COMMAND`` (another help there), ``rest`` (a mapping that takes the
    keywords that are no fields), ``after`` (comes behind that field, and those that follow behind
    it: for configs that derive from others), ``last`` (comes behind all others), ``group`` (the
    section of ``--help-all`` that shows it).

    What an option is, for those who ask with ``names_tagged``: ``machine`` (how the work is run;
    the result does not depend on it). For training: ``recorded`` (the result depends on it: it
    goes into the run's record), ``decided`` (by corpus or other options where not given: a resumed
    run keeps it). For ingest:

    decides
        What of the store depends on it: ``reading`` (how the input is read), ``tokenizer``,
        ``side`` (files beside the input), ``words`` (which words are kept), ``heldout``,
        ``documents`` (which documents are kept), ``input`` (what is read), or ``nothing``.
        Every option of an ingest says so.
    recalled
        A store remembers it, and later inputs are read alike: ``fields`` (what fields and counts
        mean), ``layout`` (how files name and part them), ``meta`` (the columns of metadata),
        ``cut`` (how records become documents) or ``files`` (how these very files are read again;
        others of the corpus may be unlike them).
    new_store
        Only a new store is made by it: an append may repeat it, but not change it.
    set_by_retrain
        ``topics retrain`` sets it itself.
    """
    return dataclasses.field(default=default, metadata={"help": help, **about})


def like(config: type, name: str, **changes: Any) -> Any:
    """The field of another config again, with what is different (``help``, ``default``, ...)."""
    field = config.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return option(**{"default": field.default, **field.metadata, **changes})


def numbers(given: int | str | Sequence[int | str]) -> Sequence[int]:
    """``20,50``, or some of these -> [20, 50]; numbers as they are; UsageError."""
    listed = [given] if isinstance(given, (int, str)) else given
    try:
        return [
            number
            for one in listed
            for number in (map(int, one.split(",")) if isinstance(one, str) else (one.__index__(),))
        ]
    except ValueError:
        raise UsageError(
            f"{','.join(map(str, listed))}: expected numbers separated by commas, such as 20,50,100"
        ) from None


def seconds(text: Any) -> Any:
    """``90``, ``90s``, ``5min``, ``2h``, ``1d``, ``1 week`` -> seconds; a number as it is;
    UsageError.
    """
    if not isinstance(text, str):
        return text
    names = r"s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({names}|)", text.strip().lower())
    if match is None:
        raise UsageError(f"{text!r} is not a time; write for example 90, 5min or 2h")
    return float(match[1]) * UNITS[match[2][:1]]


def share(text: Any) -> Any:
    """``0.05`` or ``5%`` -> 0.05; a number as it is; UsageError."""
    if not isinstance(text, str):
        return text
    try:
        number = text.strip()
        value = float(number[:-1]) / 100 if number.endswith("%") else float(number)
        if not 0 <= value <= 1:
            raise ValueError
        return value
    except ValueError:
        raise UsageError(f"{text!r} is not a share; write for example 0.05 or 5%") from None


def share_or_number(text: Any) -> Any:
    """``0.5`` or ``50%`` -> 0.5; ``500`` -> 500 (an int); a number as it is; UsageError."""
    if not isinstance(text, str):
        return text
    if re.fullmatch(r"\s*\d+\s*", text):
        if int(text) >= 1 << 62:
            raise UsageError(f"{text} is too large")
        return int(text)
    try:
        return share(text)
    except UsageError:
        raise UsageError(
            f"{text!r}: give a share (0.5 or 50%) or a whole number of documents"
        ) from None


def listed_names(names: str | Iterable[str]) -> list[str]:
    """``a,b`` -> [a, b]; names that were given apart as a list.  Their letters are composed."""
    listed = names.split(",") if isinstance(names, str) else names
    stripped = [name.strip() for name in listed] if isinstance(names, str) else list(listed)
    return [compose_text(name) for name in stripped if name]


def composed_names(names: Any) -> Any:
    """Compose the letters of a name of a column, or of several: stores have them so."""
    return compose_text(names) if isinstance(names, str) else list(map(compose_text, names))


def ordered(config: type) -> list[dataclasses.Field[Any]]:
    """The fields of a config in the order in which they are shown."""
    out: list[dataclasses.Field[Any]] = []
    at = 0
    for field in sorted(
        dataclasses.fields(config), key=lambda field: bool(field.metadata.get("last"))
    ):
        if field.metadata.get("last"):
            at = len(out)
        elif (after := field.metadata.get("after")) is not None:
            at = [f.name for f in out].index(after) + 1 if after else 0
        out.insert(at, field)
        at += 1
    return out


def names_tagged(config: type, tag: str, *values: str) -> tuple[str, ...]:
    """Return the names of the options that carry a tag, or one of some values of it."""
    tags = {name: field.metadata.get(tag) for name, field in config.__dataclass_fields__.items()}  # type: ignore[attr-defined]
    return tuple(name for name, value in tags.items() if (value in values if values else value))


def flags(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """How an option is spelt on the command line."""
    return tuple(field.metadata.get("flags", ())) or ("--" + field.name.replace("_", "-"),)


@functools.cache
def field_types(config: type) -> dict[str, Any]:
    """The types of a config's fields, by name."""
    return typing.get_type_hints(config)


KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Path: "a path",
    Sequence: "a list",
    Iterable: "a list",
    Mapping: "a mapping",
    Callable: "a function",
    typing.TextIO: "a stream to write to",
    typing.BinaryIO: "a stream to write to",
}
LARGEST = 1 << 62
"""Numbers lie between 0 and this unless the option has bounds of its own."""


def fits(value: Any, kind: Any) -> bool:
    """Whether a value has a type; a list or a mapping, whether all its members have theirs."""
    if kind is Any:
        return True
    origin = typing.get_origin(kind) or kind
    members = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, alternative) for alternative in members)
    if origin in (int, float):
        return isinstance(value, (int, origin)) and not isinstance(value, bool)
    if origin in (typing.TextIO, typing.BinaryIO):
        return hasattr(value, "write")
    if origin is typing.Literal:
        return value in members
    if origin in (Sequence, Iterable) and (
        isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable)
    ):
        return False
    if origin not in (Sequence, Path) and not isinstance(value, origin):
        return False
    if origin is Path:
        return isinstance(value, os.PathLike)
    within = (
        value.values()
        if origin is Mapping
        else value
        if isinstance(value, (list, tuple, set))
        else ()
    )
    return not members or all(fits(one, members[-1]) for one in within)


def _checked_value(name: str, value: Any, kind: Any, about: Mapping[str, Any]) -> Any:
    """A value as its option takes it; UsageError naming the option."""
    if getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy's
    alternatives = (
        typing.get_args(kind)
        if typing.get_origin(kind) in (typing.Union, types.UnionType)
        else (kind,)
    )
    if value is None and {int, float}.isdisjoint(alternatives):
        return None
    if value is not None and "parse" in about:
        try:
            value = about["parse"](value)
        except UsageError as e:
            raise UsageError(f"{name}: {e}") from None
        except (TypeError, AttributeError, ValueError):
            raise UsageError(f"{name} cannot be {repr(value)[:60]}: {about['help']}") from None
    if (
        isinstance(value, float)
        and value.is_integer()
        and int in alternatives
        and float not in alternatives
    ):
        value = int(value)
    if not fits(value, kind):
        expected = (
            [f"one of {', '.join(map(str, about['choices']))}"]
            if about.get("choices")
            else dict.fromkeys(
                KINDS.get(origin, f"a {getattr(origin, '__name__', origin)}")
                for k in alternatives
                if (origin := typing.get_origin(k) or k) is not type(None)
            )
        )
        raise UsageError(
            f"{name} must be {' or '.join(expected)}, not "
            f"{' '.join(repr(value).split())[:60]}{about.get('instead', '')}"
        )
    if about.get("cli", True) is not False:  # others are data, which readers look at
        kinds = [typing.get_origin(k) or k for k in alternatives]
        check_text(name, value, file_names="path" in about or bool({Path, os.PathLike} & {*kinds}))
    each = value if isinstance(value, (list, tuple, range)) else (value,)
    for number in each:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _check_bounds(name, number, about)
    more = about.get("more", lambda other: False)
    if (
        about.get("choices")
        and value is not None
        and not all(one in about["choices"] or more(one) for one in each)
    ):
        raise UsageError(
            f"{name} must be one of {', '.join(map(str, about['choices']))}, not {value}"
        )
    return value


def check_text(name: str, value: Any, *, file_names: bool = False) -> None:
    """Refuse a string that cannot be encoded; UsageError names the option.

    Names of files may hold any byte.
    """
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    for text in value if isinstance(value, (list, tuple, set, frozenset)) else (value,):
        try:
            if isinstance(text, str):
                text.encode("utf-8", "surrogateescape" if file_names else "strict")
        except UnicodeEncodeError:
            raise UsageError(f"{name}: {ascii(text)[:60]} is not valid Unicode") from None


def _check_bounds(name: str, number: float, about: Mapping[str, Any]) -> None:
    least = about.get("min", 0)
    most = about.get("max", LARGEST)
    if "above" in about and not number > about["above"]:
        raise UsageError(f"{name} must be above {about['above']}, not {number}")
    if not number >= least:
        raise UsageError(f"{name} must be at least {least}, not {number}")
    if not number <= most:
        raise UsageError(f"{name} must be at most {most}, not {number}")


def by_name(
    config: type, given: Mapping[str, Any], whose: str, beside: type | None = None
) -> dict[str, Any]:
    """Check the names of options; UsageError for a name that is none, or one of
    ``beside`` mistyped.
    """
    fields = config.__dataclass_fields__  # type: ignore[attr-defined]
    values = dict(given)
    if (
        rest := next((name for name, field in fields.items() if field.metadata.get("rest")), None)
    ) is not None:
        others = {name: values.pop(name) for name in list(values) if name not in fields}
        values |= {rest: {**others, **(values.get(rest) or {})}} if others else {}
    for name in values:
        if name not in fields:
            others = fields | (beside or config).__dataclass_fields__  # type: ignore[attr-defined]
            flagged = [known for known, field in others.items() if f"-{name}" in flags(field)]
            near = flagged or difflib.get_close_matches(name, others, 1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"it has {', '.join(fields) or 'no options'}"
            )
            raise UsageError(f"{whose} has no option {name!r}; {hint}")
    return values


def checked(
    config: type,
    values_given: Mapping[str, Any],
    whose: str,
    spell: Callable[[Any], str] | None = None,
    beside: type | None = None,
) -> dict[str, Any]:
    """Options of a config by name, each with its type and within its bounds.

    Parameters
    ----------
    config
        The dataclass of options.
    values_given
        Values by name.
    whose
        The function or engine that has these options, for messages.
    spell
        Makes the name that a message shows of an option's field; by default the field's name.
    beside
        The dataclass of options that these are given with, one of which an unknown name may have
        meant.

    Raises
    ------
    UsageError
        Naming the option and what it takes.
    """
    fields = config.__dataclass_fields__  # type: ignore[attr-defined]
    kinds = field_types(config)
    spelling = {name: spell(fields[name]) if spell else name for name in fields}
    return {
        name: _checked_value(spelling[name], value, kinds[name], fields[name].metadata)
        for name, value in by_name(config, values_given, whose, beside).items()
    }


class Verb(Protocol[P, C_in, R_out]):
    """A function of the library that takes its config's fields as arguments, or one config."""

    __name__: str

    @overload
    def __call__(self, config: C_in, /) -> R_out: ...
    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> R_out: ...


def configured(config: Callable[P, C]) -> Callable[[Callable[[C], R]], Verb[P, C, R]]:
    """Make ``f(config)`` callable with the config's fields too; signature and docstring
    show them.
    """
    kind = cast(Any, config)
    signature = inspect.signature(config)

    def wrap(function: Callable[[C], R]) -> Verb[P, C, R]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> R:
            if len(args) == 1 and isinstance(args[0], kind) and not given:
                config = args[0]
            else:
                name = function.__name__
                named = signature.bind_partial(*args, **by_name(kind, given, name)).arguments
                config = kind(**checked(kind, named, name))
            earlier = current_openings()
            try:
                return function(config)
            except Exception as e:
                busy = rewriting_behind(e, earlier)
                if busy is None:
                    raise
                raise busy from e

        returns = inspect.signature(function).return_annotation
        call.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
        call.__annotations__ = {f.name: f.type for f in dataclasses.fields(kind)} | {
            "return": returns
        }
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{listed(kind)}"
        del call.__wrapped__
        return cast("Verb[P, C, R]", call)

    return wrap


class OpenVerb(Verb[P, C_in, R_out], Protocol):
    """A verb that takes more keywords than its config has fields: options of what another keyword
    names.
    """

    @overload
    def __call__(self, config: C_in, /) -> R_out: ...
    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> R_out: ...
    @overload
    def __call__(self, *args: Any, **given: Any) -> R_out: ...


def openly_configured(config: Callable[P, C]) -> Callable[[Callable[[C], R]], OpenVerb[P, C, R]]:
    """``configured`` for a config with a field that is ``rest``."""
    return cast("Callable[[Callable[[C], R]], OpenVerb[P, C, R]]", configured(config))


def listed(config: type) -> str:
    """The fields of a config for a docstring: name, type, default and help."""
    lines = []
    for f in ordered(config):
        if text := f.metadata.get("help"):
            default = "" if f.default in (None, dataclasses.MISSING) else f", default {f.default!r}"
            lines.append(
                f"{f.name} : {f.type}{default}\n"
                + textwrap.indent(textwrap.fill(text, 110), "    ")
            )
    return "Parameters\n----------\n" + "\n".join(lines)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchedulerOptions:
    """Base of the configurations of all verbs that can work on a cluster (base/cluster.py)."""

    scheduler: Any = option(
        None,
        "Run on a Dask cluster: the scheduler's address, its JSON file, or local:N for N "
        "processes on this "
        "machine; in Python also a distributed.Client (docs/scale.md).",
        metavar="ADDRESS|FILE.json|local:N",
        last=True,
        machine=True,
        decides="nothing",
    )
