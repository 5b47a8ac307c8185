"""Where a message of the program is made: from what a user quotes to the lines of the code.

    python scripts/tools/find_message.py "docs.csv:7: not valid UTF-8 (byte 0xe9); give --encoding"

Every string of the package is compared with the message, values of f-strings standing for anything.
The places that explain most of it come first, each with its function.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LEAST = 8
"""Letters of a constant part that say something about a message."""


class Place(NamedTuple):
    """A string of the code that may have made the message."""

    explained: int
    file: str
    line: int
    function: str
    text: str


def constant_parts(node: ast.expr) -> list[str]:
    """Return the constant parts of a string, in order; none of any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [v.value for v in node.values if isinstance(v, ast.Constant)]
    return []


def strings_of(node: ast.AST, function: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield the strings below a node that are no docstrings, with their functions."""
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inside = f"{function}.{child.name}".lstrip(".")
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, (ast.Constant, ast.JoinedStr)):
            yield child, inside
        if isinstance(child, ast.JoinedStr):  # its constant parts are not strings of their own
            values = [v for v in child.values if isinstance(v, ast.FormattedValue)]
            for value in values:
                yield from strings_of(value, inside)
        else:
            yield from strings_of(child, inside)


@cache
def list_strings(package: Path) -> list[tuple[str, int, str, list[str]]]:
    """List the strings of a package: file, line, function, constant parts."""
    return [
        (
            str(path.relative_to(package.parent)),
            node.lineno,
            function,
            [words_of(part) for part in constant_parts(node)],
        )
        for path in sorted(package.rglob("*.py"))
        for node, function in strings_of(ast.parse(path.read_text()), "")
    ]


def words_of(text: str) -> str:
    """Return a text without the placeholders of templates, white space as one blank."""
    return re.sub(r"\s+", " ", re.sub(r"\{[^{}]*\}", " ", text)).strip()


def find_places(message: str, package: Path = ROOT / "topicstream") -> list[Place]:
    """Return the strings that explain most of a message, the best first."""
    message = words_of(message)
    places = []
    for name, line, function, parts in list_strings(package):
        said = [part for part in parts if len(part) >= LEAST and part in message]
        if any(message in part for part in parts):  # a user may quote less than all
            said = [message]
        if said:
            places.append(Place(sum(map(len, said)), name, line, function, " … ".join(parts)))
    places.sort(key=lambda place: (-place.explained, place.file, place.line))
    return [place for place in places if 4 * place.explained >= places[0].explained]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("message", help="the message, or a part of it, as the user quotes it")
    parser.add_argument("-n", type=int, default=5, help="places to print (default: 5)")
    args = parser.parse_args()
    places = find_places(args.message)
    for place in places[: args.n]:
        print(f"{place.file}:{place.line}  {place.function}\n    {place.text[:100]}")
    return int(not places)


if __name__ == "__main__":
    sys.exit(main())
