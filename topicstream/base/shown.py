"""Results that show themselves: summaries and tables for a prompt, a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, Any, Self
from unicodedata import east_asian_width

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 60
"""Rows of a table that are shown."""
ITEMS = 10
"""Items of a list that are shown in a line."""
WIDTH = 100
"""Columns of a cell that are shown."""


class Summary(dict[str, Any]):
    """A result with named figures, which prints as lines that a person reads.

    It is a dict, for ``json.dumps`` and the like. Its keys are attributes, too, except those with
    the name of a method of dict.

    Examples
    --------
    >>> from topicstream.base.shown import Summary
    >>> found = Summary(documents=4332, store={"cells": 102844})
    >>> found.documents
    4332
    >>> print(found)
    Summary
      documents  4,332
      store
        cells    102,844
    """

    _lines: Sequence[str] = ()
    """Lines that are printed in the place of the figures."""

    @classmethod
    def printed_as(cls, result: Mapping[str, Any], lines: Sequence[str]) -> Self:
        """Make a summary that prints as lines of its own."""
        summary = cls(result)
        summary._lines = tuple(lines)
        return summary

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        near = get_close_matches(name, self, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})

    def __repr__(self) -> str:
        if self._lines:
            return "\n".join(self._lines)
        rows = list(_outline(self, 1))
        width = max((_columns(name) for name, _ in rows), default=0)
        lines = [f"{_pad(name, width)}  {text}".rstrip() for name, text in rows]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        """Show the figures as an HTML table, or the lines."""
        if self._lines:
            return f"<pre>{escape(repr(self))}</pre>"
        rows = "".join(
            f"<tr><th style='text-align:left'>{_indent_html(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in _outline(self, 0)
        )
        return f"<p>{escape(type(self).__name__)}</p><table><tbody>{rows}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a plain dict."""
        return dict(self)


class ShownTable:
    """A table of results, which prints as aligned columns.

    Whatever else a ``pyarrow.Table`` has (``slice``, ``filter``, ``column_names``, ``table[name]``)
    works as on ``to_arrow()``.

    Parameters
    ----------
    table
        The ``pyarrow.Table``.
    shown
        Names of the columns that are printed (default: all).
    percent
        Names of printed columns that are shares.
    width
        Columns of a cell that are printed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from topicstream.base.shown import ShownTable
    >>> table = pa.table({"topic": [0, 1], "words": [["sea", "ship"], ["oven", "bread"]]})
    >>> print(ShownTable(table))
    topic  words
        0  sea ship
        1  oven bread
    """

    def __init__(
        self,
        table: pa.Table,
        shown: Sequence[str] | None = None,
        percent: Sequence[str] = (),
        width: int = WIDTH,
    ) -> None:
        self._table = table
        self._shown = list(table.column_names if shown is None else shown)
        self._percent = frozenset(percent)
        self._width = width

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._table, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._table)})

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, name: Any) -> Any:
        return self._table[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts."""
        for batch in self._table.to_batches(max_chunksize=1024):
            yield from batch.to_pylist()

    def __eq__(self, other: object) -> bool:
        return bool(self._table == (other._table if isinstance(other, ShownTable) else other))

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the table to a library that takes Arrow data."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = self._cells()
        numeric = [self._is_number(name) for name in self._shown]
        widths = [max(map(_columns, column)) for column in zip(self._shown, *rows, strict=True)]
        lines = []
        for row in [self._shown, *rows]:
            cells = [
                _pad(cell, width, right=number)
                for cell, width, number in zip(row, widths, numeric, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines + self._note_hidden_rows())

    def _repr_html_(self) -> str:
        """Show the table as an HTML table."""
        head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in self._shown)
        rows = ""
        for row in self._cells():
            cells = (f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row)
            rows += f"<tr>{''.join(cells)}</tr>"
        more = "".join(f"<p>{escape(line)}</p>" for line in self._note_hidden_rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def to_arrow(self) -> pa.Table:
        """Return the ``pyarrow.Table``."""
        return self._table

    def to_pandas(self, **options: Any) -> Any:
        """Convert to a ``pandas.DataFrame``, with the options of ``pyarrow.Table.to_pandas``."""
        return self._table.to_pandas(**options)

    def to_polars(self) -> Any:
        """Convert to a ``polars.DataFrame``."""
        try:
            import polars
        except ImportError as e:
            raise ImportError("to_polars needs polars: pip install polars") from e
        return polars.from_arrow(self._table)

    def _cells(self) -> list[list[str]]:
        """Format the first rows."""
        rows = []
        for row in self._table.slice(0, ROWS).to_pylist():
            rows.append([self._format_cell(name, row[name]) for name in self._shown])
        return rows

    def _format_cell(self, name: str, value: Any) -> str:
        """Format a value of a column."""
        if name in self._percent and value is not None:
            return f"{100 * value:.1f} %"
        return _text_of(value, width=self._width)

    def _note_hidden_rows(self) -> list[str]:
        """Say in a line how many rows are not shown, if any."""
        hidden = len(self) - ROWS
        return [f"and {hidden:,} more"] if hidden > 0 else []

    def _is_number(self, name: str) -> bool:
        """Tell whether a column holds numbers, which are aligned to the right."""
        import pyarrow as pa

        kind = self._table.schema.field(name).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _outline(value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """Yield the indented name and the text of each figure that has a value.

    The figures of a nested mapping follow its name, one level deeper.
    """
    indent = "  " * depth
    for name, item in value.items():
        if item is None or item in ({}, [], ()):
            continue  # nothing to say
        label = f"{indent}{name}"
        if isinstance(item, Mapping) and item:
            yield label, ""
            yield from _outline({str(key): figure for key, figure in item.items()}, depth + 1)
        elif isinstance(item, (list, tuple)) and item and isinstance(item[0], Mapping):
            yield label, f"{len(item):,} rows" if len(item) > 1 else "1 row"
        else:
            yield label, _text_of(item, ", ")


def _text_of(value: Any, separator: str = " ", width: int = WIDTH) -> str:
    """Format a value for people, in one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.5g}" if abs(value) < 1e5 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        text = separator.join(f"{key}={_text_of(item)}" for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        text = separator.join(_text_of(item) for item in value[:ITEMS])
        if len(value) > ITEMS:
            text += f"{separator}and {len(value) - ITEMS:,} more"
    else:
        text = " ".join(str(value).split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= width else text[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _columns(text: str) -> int:
    """Count the columns of a text on a terminal."""
    return sum(1 + (east_asian_width(c) in "WF") for c in text)


def _pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad a text to a width, on its left if it belongs to the right."""
    padding = " " * (width - _columns(text))
    return padding + text if right else text + padding


def _indent_html(name: str) -> str:
    """Escape a name and keep its indentation."""
    stripped = name.lstrip(" ")
    return "&nbsp;" * (len(name) - len(stripped)) + escape(stripped)
