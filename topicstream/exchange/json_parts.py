"""Lists of a JSON file read in parts: an object or list that ``json.loads`` takes is taken and all else refused, but no more is
held at a time than a megabyte or two of the file and what the caller keeps.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

PART = 1 << 20
MOST = 8 * PART
"""Characters of one string or number."""
Place = tuple[str, ...]
_BLANKS = re.compile(r"[ \t\n\r]*+")
_ONE = r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^ \t\n\r",:\[\]{}]++)[ \t\n\r]*+'
_ITEM = re.compile(rf"{_ONE}(?=.)", re.DOTALL)  # what stands last in the text may go on
_ITEMS = re.compile(rf"(?:[ \t\n\r]*+{_ONE},)++", re.DOTALL)


def read_lists(file: BinaryIO, wanted: Mapping[Place, Callable[[list[Any]], Any]]) -> dict[Place, list[Any]]:
    """For each wanted place (the keys that lead to it) where a list of strings, numbers or literals stands: what its function
    makes of the list's parts, in order.  ValueError where the file is no JSON, or the function raises it."""
    return _Lists(file, wanted).read()


class _Lists:
    def __init__(self, file: BinaryIO, wanted: Mapping[Place, Callable[[list[Any]], Any]]) -> None:
        first = file.read(PART)
        self._file, self._wanted, self._found = file, wanted, dict[Place, list[Any]]()
        self._decode = codecs.getincrementaldecoder(json.detect_encoding(first))("surrogatepass").decode
        self._text, self._at, self._ended = self._decode(first), 0, not first

    def read(self) -> dict[Place, list[Any]]:
        self._value(())
        if self._next():
            raise ValueError("more follows its end")
        return self._found

    def _more(self) -> None:
        """More of the file behind what is not yet used."""
        if self._ended or len(self._text) - self._at > MOST:
            raise ValueError("it is cut short" if self._ended else f"a string of more than {MOST:,} characters")
        some = self._file.read(PART)
        self._ended = not some
        self._text, self._at = self._text[self._at :] + self._decode(some, self._ended), 0

    def _next(self) -> str:
        """The next character that is no blank, not yet used; nothing at the end of the file."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def _take(self, choice: str) -> str:
        found = self._next()
        if not found or found not in choice:
            raise ValueError(f"{found!r} where one of {choice} must stand" if found else "it is cut short")
        self._at += 1
        return found

    def _atom(self) -> Any:
        """A string, number or literal."""
        if (first := self._next()) in (",", ":", "]", "}"):
            raise ValueError(f"{first!r} where a value must stand")
        while not (found := _ITEM.match(self._text, self._at)):
            self._more()
        self._at = found.end()
        return json.loads(found[0])

    def _value(self, at: Place) -> None:
        for place in [p for p in self._found if p[: len(at)] == at]:  # of two equal keys the last counts
            del self._found[place]
        if (first := self._next()) == "[":
            self._list(at)
        elif first == "{":
            self._at += 1
            more = self._next() != "}"
            self._at += not more
            while more:
                self._take('"')
                self._at -= 1
                name = self._atom()
                self._take(":")
                self._value((*at, name))
                more = self._take(",}") == ","
        else:
            self._atom()

    def _list(self, at: Place) -> None:
        keep: Callable[[list[Any]], Any] = self._wanted.get(at, len)
        kept: list[Any] = []
        self._at += 1
        more = self._next() != "]"
        self._at += not more
        while more:
            if found := _ITEMS.match(self._text, self._at):
                self._at = found.end()
                kept.append(keep(json.loads(f"[{found[0][:-1]}]")))
                continue
            if self._next() not in ("[", "{"):
                kept.append(keep([self._atom()]))
            elif at in self._wanted:
                raise ValueError(f"{'/'.join(at)} holds a list or an object")
            else:
                self._value((*at, "[]"))
            more = self._take(",]") == ","
        if at in self._wanted:
            self._found[at] = kept
