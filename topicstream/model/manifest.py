"""What the manifest of a model may say: members that are there are of the kind that readers take them for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Any], bool]


def number(value: Any) -> bool:
    """A number, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def count(value: Any) -> bool:
    """A whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def text(value: Any) -> bool:
    """A string."""
    return isinstance(value, str)


def listed(of: Test) -> Test:
    """A list of such."""
    return lambda value: isinstance(value, list) and all(map(of, value))


def mapped(of: Test = lambda value: True) -> Test:
    """An object of such."""
    return lambda value: isinstance(value, Mapping) and all(map(of, value.values()))


def _either(*tests: Test) -> Test:
    return lambda value: any(test(value) for test in tests)


def _corpus(value: Any) -> bool:
    kinds = {"docs": count, "cells": count, "tokens": number, "generation": count, "fingerprint": text}
    return isinstance(value, Mapping) and all(test(value[n]) for n, test in kinds.items() if value.get(n) is not None)


NEEDED: dict[str, Test] = {"vocab_sha256": text, "beta": number, "alpha": _either(number, listed(number))}
OTHERS: dict[str, Test] = {
    **dict.fromkeys(("engine", "cites", "created", "start", "stopped"), text),
    **dict.fromkeys(("options", "versions", "weighting", "tokenizer"), mapped()),
    **dict.fromkeys(("passes", "vectors"), count),
    "alpha_sum": number,
    "seed": _either(number, text),
    "corpus": _either(text, _corpus),
    "layout": mapped(count),
    "labels": mapped(text),
    "label_docs": listed(count),
    "tables": mapped(mapped()),
}


def odd_member(manifest: Mapping[str, Any]) -> str | None:
    """The name of a member that is missing, or of another kind; None without one.  A member that is null says nothing."""
    for name, test in NEEDED.items():
        if not test(manifest.get(name)):
            return name
    if isinstance(manifest["alpha"], list) and len(manifest["alpha"]) != manifest["topics"]:
        return "alpha"
    return odd_among(manifest)


def odd_among(members: Mapping[str, Any]) -> str | None:
    """The same of members that may also be missing."""
    return next((n for n, test in OTHERS.items() if members.get(n) is not None and not test(members[n])), None)
