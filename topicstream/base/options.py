"""Options, each declared once as a field of a config dataclass.

A field is a keyword of the library's function, an option of the command line (cli/options.py), a
line of the docs, and the check of its value. See docs/internals/extending.md.
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
    """Declare an option: a field of a config, or of an engine's or method's ``Options``.

    On the command line it is ``--name-with-dashes``. Its value is checked there and in the library
    by the type of the field and the metadata.

    Parameters
    ----------
    default
        The default value.
    help
        The help text.
    about
        Metadata, as follows.

    Checks
        ``min``, ``max`` (inclusive), ``above`` (exclusive), ``choices``, ``more`` (a function that
        accepts further choices), ``parse`` (a function that converts text), ``instead`` (advice in
        the message about a wrong type).
    Command line
        ``flags`` (such as ("-K", "--topics")), ``metavar``, ``show`` (the default), ``env``,
        ``path`` (True, "exists" or "file"), ``pair`` (--x/--no-x), ``multiple``, ``required``,
        ``cli`` (False: only a keyword of the library; or the names of the commands that have the
        option), ``help_COMMAND`` (help text of one command), ``advanced`` (an option for experts).
    Order
        ``after`` (place it and the fields that follow behind that field, for configs that derive
        from others), ``last`` (place it behind all others), ``group`` (its section in
        ``--help-all``), ``rest`` (a mapping that collects keywords that match no field).
    Properties, which ``names_tagged`` finds
        ``machine`` (the result does not depend on it), and of training ``recorded`` (the result
        depends on it, so a run records it), ``decided`` (chosen from the corpus or other options
        by default, and kept by a resumed run). Of ingest:

    decides
        Part of the store that depends on it: ``reading`` (how the input is read), ``tokenizer``,
        ``side`` (files beside the input), ``words``, ``heldout``, ``documents``, ``input`` (the
        input itself), or ``nothing``. Every option of an ingest has it.
    recalled
        The store remembers it for later inputs: ``fields`` (meaning of fields and counts),
        ``layout`` (how files name and part them), ``meta`` (columns of metadata), ``cut`` (how
        records become documents) or ``files`` (only for reading the same files again).
    new_store
        It applies to a new store; an append may repeat, but not change it.
    set_by_retrain
        ``topics retrain`` sets it itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from topicstream.base.options import checked, option
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     depth: int = option(2, "Levels of the tree.", min=1, max=9)
    >>> checked(Options, {"depth": 3}, "my engine")
    {'depth': 3}
    >>> checked(Options, {"depth": 10}, "my engine")
    Traceback (most recent call last):
      ...
    topicstream.errors.UsageError: depth must be at most 9, not 10
    """
    return dataclasses.field(default=default, metadata={"help": help, **about})


def like(config: type, name: str, **changes: Any) -> Any:
    """Copy an option from another config, overriding default or metadata."""
    field = config.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return option(**{"default": field.default, **field.metadata, **changes})


def numbers(value: int | str | Sequence[int | str]) -> Sequence[int]:
    """Read whole numbers: ``20,50``, a number, or a list of such texts and numbers.

    Raises
    ------
    UsageError
        If a text is no list of whole numbers.
    """
    texts = [value] if isinstance(value, (int, str)) else value
    out: list[int] = []
    try:
        for text in texts:
            if isinstance(text, str):
                out += map(int, text.split(","))
            else:
                out.append(text.__index__())
    except ValueError:
        raise UsageError(
            f"{','.join(map(str, texts))}: expected numbers separated by commas, such as 20,50,100"
        ) from None
    return out


def seconds(text: Any) -> Any:
    """Read a time in seconds: ``90``, ``90s``, ``5min``, ``2h``, ``1d``, ``1 week``.

    Raises
    ------
    UsageError
        If a text is no time. Other values are returned as they are.
    """
    if not isinstance(text, str):
        return text
    names = r"s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*({names}|)", text.strip().lower())
    if match is None:
        raise UsageError(f"{text!r} is not a time; write for example 90, 5min or 2h")
    return float(match[1]) * UNITS[match[2][:1]]


def share(text: Any) -> Any:
    """Read a share: ``0.05`` or ``5%``.

    Raises
    ------
    UsageError
        If a text is no share. Other values are returned as they are.
    """
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
    """Read a share (``0.5``, ``50%``) or a whole number (``500``).

    Raises
    ------
    UsageError
        If a text is neither. Other values are returned as they are.
    """
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
    """Split ``a,b`` into names, or list names that are separate already."""
    listed = list(names)
    if isinstance(names, str):
        listed = [name.strip() for name in names.split(",")]
    return [compose_text(name) for name in listed if name]


def composed_names(names: Any) -> Any:
    """Compose the letters of the name of a column, or of several, as stores have them."""
    return compose_text(names) if isinstance(names, str) else list(map(compose_text, names))


def ordered(config: type) -> list[dataclasses.Field[Any]]:
    """Return the fields of a config in the order in which they are shown."""
    out: list[dataclasses.Field[Any]] = []
    position = 0
    fields = sorted(dataclasses.fields(config), key=lambda field: bool(field.metadata.get("last")))
    for field in fields:
        # a field follows the one before it, unless it says after which it is to stand
        after = field.metadata.get("after")
        if field.metadata.get("last"):
            position = len(out)
        elif after is not None:
            position = [f.name for f in out].index(after) + 1 if after else 0
        out.insert(position, field)
        position += 1
    return out


def names_tagged(config: type, tag: str, *values: str) -> tuple[str, ...]:
    """Return the names of the options that carry a tag, or one of some values of it."""
    fields = config.__dataclass_fields__  # type: ignore[attr-defined]
    tags = {name: field.metadata.get(tag) for name, field in fields.items()}
    if values:
        return tuple(name for name, value in tags.items() if value in values)
    return tuple(name for name, value in tags.items() if value)


def flags(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Return the names of an option on the command line."""
    return tuple(field.metadata.get("flags", ())) or ("--" + field.name.replace("_", "-"),)


@functools.cache
def field_types(config: type) -> dict[str, Any]:
    """Return the types of a config's fields, by name."""
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
"""Upper bound of a number whose option has none."""


def fits(value: Any, kind: Any) -> bool:
    """Tell whether a value, with all members of a list or mapping, has a type.

    An int passes for a float, a bool for neither, and a text for no list.
    """
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
    if origin is Mapping:
        contents = value.values()
    else:
        contents = value if isinstance(value, (list, tuple, set)) else ()
    return not members or all(fits(item, members[-1]) for item in contents)


def _checked_value(name: str, value: Any, kind: Any, about: Mapping[str, Any]) -> Any:
    """Convert a value to its option's type and check its bounds.

    Parameters
    ----------
    name
        Name of the option, for messages.
    value, kind
        The value and the option's type.
    about
        Metadata of the option.

    Raises
    ------
    UsageError
        If the option cannot take the value.
    """
    if getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy's
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    alternatives = typing.get_args(kind) if is_union else (kind,)
    if value is None and {int, float}.isdisjoint(alternatives):
        return None
    if value is not None and "parse" in about:
        try:
            value = about["parse"](value)
        except UsageError as e:
            raise UsageError(f"{name}: {e}") from None
        except (TypeError, AttributeError, ValueError):
            raise UsageError(f"{name} cannot be {repr(value)[:60]}: {about['help']}") from None
    wants_int = int in alternatives and float not in alternatives
    if wants_int and isinstance(value, float) and value.is_integer():
        value = int(value)
    origins = [typing.get_origin(k) or k for k in alternatives]
    if not fits(value, kind):
        raise UsageError(
            f"{name} must be {_describe_kinds(origins, about)}, not "
            f"{' '.join(repr(value).split())[:60]}{about.get('instead', '')}"
        )
    if about.get("cli", True) is not False:  # others are data, which readers look at
        file_names = "path" in about or bool({Path, os.PathLike} & {*origins})
        check_text(name, value, file_names=file_names)
    each = value if isinstance(value, (list, tuple, range)) else (value,)
    for number in each if _is_bounded(kind, about) else ():
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _check_bounds(name, number, about)
    choices = about.get("choices")
    if choices and value is not None:
        accepts_more = about.get("more", lambda choice: False)
        if not all(choice in choices or accepts_more(choice) for choice in each):
            raise UsageError(f"{name} must be one of {', '.join(map(str, choices))}, not {value}")
    return value


def _describe_kinds(origins: Iterable[Any], about: Mapping[str, Any]) -> str:
    """Describe the types or choices of an option: ``a whole number or a path``."""
    if about.get("choices"):
        return f"one of {', '.join(map(str, about['choices']))}"
    names = [
        KINDS.get(origin, f"a {getattr(origin, '__name__', origin)}")
        for origin in origins
        if origin is not type(None)
    ]
    return " or ".join(dict.fromkeys(names))


def check_text(name: str, value: Any, *, file_names: bool = False) -> None:
    """Raise UsageError if a string cannot be encoded (names of files may hold any byte)."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    for text in value if isinstance(value, (list, tuple, set, frozenset)) else (value,):
        try:
            if isinstance(text, str):
                text.encode("utf-8", "surrogateescape" if file_names else "strict")
        except UnicodeEncodeError:
            raise UsageError(f"{name}: {ascii(text)[:60]} is not valid Unicode") from None


def _is_bounded(kind: Any, about: Mapping[str, Any]) -> bool:
    """Tell whether an option has bounds: data of any type have only those that it states."""
    return kind is not Any or not {"min", "max", "above"}.isdisjoint(about)


def _check_bounds(name: str, number: float, about: Mapping[str, Any]) -> None:
    """Raise UsageError if a number is out of its option's bounds."""
    least = about.get("min", 0)
    most = about.get("max", LARGEST)
    if "above" in about and not number > about["above"]:
        raise UsageError(f"{name} must be above {about['above']}, not {number}")
    if not number >= least:
        raise UsageError(f"{name} must be at least {least}, not {number}")
    if not number <= most:
        raise UsageError(f"{name} must be at most {most}, not {number}")


def check_names(
    config: type, values: Mapping[str, Any], whose: str, beside: type | None = None
) -> dict[str, Any]:
    """Check the names of options, and collect keywords that match no field (``rest``).

    Parameters
    ----------
    config, values, whose, beside
        As of ``checked``.

    Returns
    -------
    dict
        The values, with the collected keywords as one value.

    Raises
    ------
    UsageError
        If there is no option of a name. The message suggests one of ``config`` or ``beside``.
    """
    fields = config.__dataclass_fields__  # type: ignore[attr-defined]
    values = dict(values)
    collecting = [name for name, field in fields.items() if field.metadata.get("rest")]
    if collecting:
        collector = collecting[0]
        unmatched = {name: values.pop(name) for name in list(values) if name not in fields}
        if unmatched:
            values[collector] = {**unmatched, **(values.get(collector) or {})}
    for name in values:
        if name not in fields:
            known = fields | (beside or config).__dataclass_fields__  # type: ignore[attr-defined]
            # -K on the command line stands for ``topics``: K may be meant for it
            flagged = [option for option, field in known.items() if f"-{name}" in flags(field)]
            near = flagged or difflib.get_close_matches(name, known, 1)
            if near:
                hint = f"did you mean {near[0]!r}?"
            else:
                hint = f"it has {', '.join(fields) or 'no options'}"
            raise UsageError(f"{whose} has no option {name!r}; {hint}")
    return values


def checked(
    config: type,
    values: Mapping[str, Any],
    whose: str,
    spell: Callable[[Any], str] | None = None,
    beside: type | None = None,
) -> dict[str, Any]:
    """Check options of a config by name, type and bounds, and convert their values.

    Parameters
    ----------
    config
        The dataclass of options.
    values
        Values by name.
    whose
        The function or engine that has these options, for messages.
    spell
        Makes the name of an option in messages from its field; by default the field's name.
    beside
        Another dataclass of options, one of which an unknown name may have meant.

    Returns
    -------
    dict
        The converted values by name.

    Raises
    ------
    UsageError
        If an option does not exist or cannot take its value.
    """
    fields = config.__dataclass_fields__  # type: ignore[attr-defined]
    kinds = field_types(config)
    spelling = {name: spell(fields[name]) if spell else name for name in fields}
    return {
        name: _checked_value(spelling[name], value, kinds[name], fields[name].metadata)
        for name, value in check_names(config, values, whose, beside).items()
    }


class Verb(Protocol[P, C_in, R_out]):
    """A function of the library that takes the fields of its config, or one config."""

    __name__: str

    @overload
    def __call__(self, config: C_in, /) -> R_out: ...
    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> R_out: ...


def configured(config: Callable[P, C]) -> Callable[[Callable[[C], R]], Verb[P, C, R]]:
    """Make ``f(config)`` callable with the config's fields, too.

    Its signature and its docstring show them.

    Parameters
    ----------
    config
        The dataclass of options.

    Returns
    -------
    callable
        A decorator of the function. The decorated one raises UsageError for options that
        ``checked`` refuses, and Busy where a store or model was rewritten while it was read.
    """
    kind = cast(Any, config)
    signature = inspect.signature(config)

    def wrap(function: Callable[[C], R]) -> Verb[P, C, R]:
        """Make the function of the fields."""

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> R:
            """Make the config and call the function."""
            if len(args) == 1 and isinstance(args[0], kind) and not keywords:
                config = args[0]
            else:
                name = function.__name__
                keywords = check_names(kind, keywords, name)
                values = signature.bind_partial(*args, **keywords).arguments
                config = kind(**checked(kind, values, name))
            earlier = current_openings()
            try:
                return function(config)
            except Exception as e:
                busy = rewriting_behind(e, earlier)
                if busy is None:
                    raise
                raise busy from e

        returns = inspect.signature(function).return_annotation
        returning = signature.replace(return_annotation=returns)
        call.__signature__ = returning  # type: ignore[attr-defined]
        call.__annotations__ = {f.name: f.type for f in dataclasses.fields(kind)} | {
            "return": returns
        }
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{_list_parameters(kind)}"
        del call.__wrapped__  # inspect.signature would follow it to ``f(config)``
        return cast("Verb[P, C, R]", call)

    return wrap


class OpenVerb(Verb[P, C_in, R_out], Protocol):
    """A verb that takes more keywords than its config has fields."""

    @overload
    def __call__(self, config: C_in, /) -> R_out: ...
    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> R_out: ...
    @overload
    def __call__(self, *args: Any, **given: Any) -> R_out: ...


def openly_configured(config: Callable[P, C]) -> Callable[[Callable[[C], R]], OpenVerb[P, C, R]]:
    """Do as ``configured`` for a config with a field that collects keywords (``rest``)."""
    return cast("Callable[[Callable[[C], R]], OpenVerb[P, C, R]]", configured(config))


def _list_parameters(config: type) -> str:
    """List the fields of a config for a docstring, with type, default and help."""
    lines = []
    for f in ordered(config):
        text = f.metadata.get("help")
        if text:
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
