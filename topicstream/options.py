"""The options of a command, written once: a field of its config dataclass is a keyword of the library's function, an option of
the command line (cli/options.py), a line of the docs, and the check of what is given.  See docs/extending.md."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import numbers
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload, runtime_checkable

from topicstream.errors import UsageError

P = ParamSpec("P")
C = TypeVar("C")
C_in = TypeVar("C_in", contravariant=True)
R = TypeVar("R")
R_out = TypeVar("R_out", covariant=True)
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def option(default: Any, help: str, **about: Any) -> Any:
    """A field of a config or of an engine's or method's Options: becomes ``--name-with-dashes`` with this help.

    Checked, in the library and on the command line: the kind (``instead``: said beside a wrong one), ``min``, ``max`` (inclusive),
    ``above`` (exclusive), ``choices`` (and ``more``: whether a value is one more of them), ``parse`` (text -> value).
    Shown by the command line: ``flags`` (("-K", "--topics")), ``metavar``, ``show`` (the default), ``env``, ``path`` (True,
    "exists" or "file"), ``pair`` (--x/--no-x), ``required``, ``old`` (spellings of before, which go on working with a note), ``cli`` (False:
    a keyword of the library alone; names of commands: those alone), ``help_COMMAND`` (another help there), ``after`` (comes
    behind that field, and those that follow behind it: for configs that derive from others).
    For training: ``recorded`` (the result depends on it: it goes into the run's record), ``was`` (what runs did that began
    before there was the option), ``decided`` (by corpus or other options where not given: a resumed run keeps it).
    """
    return dataclasses.field(default=default, metadata={"help": help, **about})


def like(config: type, name: str, **changes: Any) -> Any:
    """The field of another config again, with what is different (``help``, ``default``, ...)."""
    field = config.__dataclass_fields__[name]  # type: ignore[attr-defined]
    return option(**{"default": field.default, **field.metadata, **changes})


def seconds(text: Any) -> Any:
    """``90``, ``90s``, ``5min``, ``2h``, ``1d``, ``1 week`` -> seconds; a number as it is; UsageError."""
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
            raise UsageError(f"{text} is not a number that can be meant")
        return int(text)
    try:
        return share(text)
    except UsageError:
        raise UsageError(f"{text!r}: give a share (0.5 or 50%) or a whole number of documents") from None


def ordered(config: type) -> list[dataclasses.Field[Any]]:
    """The fields of a config in the order in which they are shown."""
    out: list[dataclasses.Field[Any]] = []
    at = 0
    for field in dataclasses.fields(config):
        if (after := field.metadata.get("after")) is not None:
            at = [f.name for f in out].index(after) + 1 if after else 0
        out.insert(at, field)
        at += 1
    return out


def flags(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """How an option is spelt on the command line."""
    return tuple(field.metadata.get("flags", ())) or ("--" + field.name.replace("_", "-"),)


def renamed(fields: Mapping[str, Any]) -> dict[str, str]:
    """Old name -> name."""
    return {old: name for name, field in fields.items() for old in field.metadata.get("old", ()) if old not in fields}


@runtime_checkable
class _Stream(Protocol):
    def write(self, data: Any, /) -> Any: ...


@runtime_checkable
class _Listener(Protocol):
    def step(self, what: str, /) -> Any: ...


_KINDS: dict[str, tuple[Any, str]] = {
    "None": (type(None), ""),
    "bool": ("bool bool_", "True or False"),
    "str": (str, "a string"),
    "Path": (os.PathLike, "a path"),
    "Place": ((str, os.PathLike), "a path"),
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "BinaryIO": (_Stream, "a stream to write to"),
    "Sequence": (Iterable, "a list"),
    "Mapping": (Mapping, "a mapping"),
    "TopicModel": ("TopicModel", "a model"),
    "Corpus": ("Corpus", "a corpus"),
    "Heldout": ("Heldout", "a Heldout"),
    "Config": ("Config", "a Config"),
    "Told": ((type(None), bool, Callable, _Listener), "True, False or a function"),
}


def _is(kind: str, value: Any) -> bool:
    """Whether a value is of one kind of an annotation; a list or a mapping: with all its members."""
    name, _, inner = kind.partition("[")
    wanted, member = _KINDS[name][0], inner.rstrip("]").split(", ")[-1]
    if isinstance(wanted, str):
        return any(c.__name__ in wanted.split() for c in type(value).__mro__)
    if not isinstance(value, wanted) or (name in ("int", "float") and isinstance(value, bool)):
        return False
    if name == "Sequence" and isinstance(value, (str, bytes, Mapping)):
        return False
    members = value.values() if name == "Mapping" else value if isinstance(value, (list, tuple, set)) else ()
    return member not in _KINDS or all(_is(member, one) for one in members)


def _meant(annotation: str, value: Any) -> str:
    """What a value of a field so annotated must be; nothing where it is that, or the annotation has kinds of its own."""
    kinds = re.split(r" \| (?![^\[]*\])", annotation)
    names = [kind.partition("[")[0] for kind in kinds]
    if not all(name in _KINDS for name in names) or any(_is(kind, value) for kind in kinds):
        return ""
    return " or ".join(dict.fromkeys(said for name in names if (said := _KINDS[name][1])))


def checked(fields: Mapping[str, Any], given: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """The values by their present names; UsageError naming an option there is not, or a value that cannot be meant."""
    values = {renamed(fields).get(name, name): value for name, value in given.items()}
    for name, value in values.items():
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(fields)}"
            raise UsageError(f"{whose} has no option {name!r}; {hint}")
        about = fields[name].metadata
        kind = str(fields[name].type)
        if value is None and (kind not in ("int", "float") or fields[name].default is None):
            continue
        if "parse" in about:
            try:
                value = values[name] = about["parse"](value)
            except (TypeError, AttributeError):
                raise UsageError(f"{name} cannot be {repr(value)[:60]}: {about['help']}") from None
        if wanted := _meant(kind, value):
            if not (isinstance(value, float) and value.is_integer() and "int" in kind):
                raise UsageError(f"{name} must be {wanted}, not {repr(value)[:60]}{about.get('instead', '')}")
            value = values[name] = int(value)
        if isinstance(value, (int, float)) and not abs(value) < 1 << 62:
            raise UsageError(f"{name} must be a number that can be meant, not {value}")
        each = value if isinstance(value, (tuple, list, range)) else (value,)
        if any(about.get(bound) is not None for bound in ("min", "max", "above")):
            for one in each:
                if not isinstance(one, numbers.Real):
                    raise UsageError(f"{name} must be a number, not {one!r}")
        if about.get("min") is not None and any(one < about["min"] for one in each):
            raise UsageError(f"{name} must be at least {about['min']}, not {value}")
        if "above" in about and not value > about["above"]:
            raise UsageError(f"{name} must be above {about['above']}, not {value}")
        if about.get("max") is not None and value > about["max"]:
            raise UsageError(f"{name} must be at most {about['max']}, not {value}")
        more = about.get("more", lambda other: False)
        if about.get("choices") and not all(one in about["choices"] or more(one) for one in each):
            raise UsageError(f"{name} must be one of {', '.join(map(str, about['choices']))}, not {value}")
    return values


class Verb(Protocol[P, C_in, R_out]):
    """A function of the library that takes its config's fields as arguments, or one config."""

    __name__: str

    @overload
    def __call__(self, config: C_in, /) -> R_out: ...
    @overload
    def __call__(self, *args: P.args, **given: P.kwargs) -> R_out: ...


def configured(config: Callable[P, C]) -> Callable[[Callable[[C], R]], Verb[P, C, R]]:
    """Make ``f(config)`` callable with the config's fields too; signature and docstring show them."""
    kind = cast(Any, config)
    signature = inspect.signature(config)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    placed = [f.name for f in fields.values() if not f.kw_only]

    def wrap(function: Callable[[C], R]) -> Verb[P, C, R]:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> R:
            if len(args) == 1 and isinstance(args[0], kind) and not given:
                (settings,) = args
            else:
                said = checked(fields, dict(zip(placed, args, strict=False)), function.__name__)
                settings = kind(*said.values(), *args[len(said) :], **checked(fields, given, function.__name__))
            return function(settings)

        returns = inspect.signature(function).return_annotation
        call.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
        call.__annotations__ = {f.name: f.type for f in fields.values()} | {"return": returns}
        call.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{listed(kind)}"
        del call.__wrapped__
        return cast("Verb[P, C, R]", call)

    return wrap


def listed(config: type) -> str:
    """The fields of a config for a docstring: name, type, default and help."""
    lines = []
    for f in ordered(config):
        if text := f.metadata.get("help"):
            default = "" if f.default in (None, dataclasses.MISSING) else f" = {f.default!r}"
            lines.append(f"{f.name}: {f.type}{default}\n" + textwrap.indent(textwrap.fill(text, 110), "    "))
    return "Parameters\n----------\n" + "\n".join(lines)
