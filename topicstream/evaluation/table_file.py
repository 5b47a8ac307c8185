"""Tables as files, written in one rename.

``.parquet``, ``.csv``, ``.jsonl``, and for papers ``.tex`` (booktabs) and ``.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from topicstream.base.errors import UsageError, json_line, one_line
from topicstream.base.files.outputs import check_output, written

SUFFIXES = (".parquet", ".csv", ".jsonl")
TEXT_SUFFIXES = (".tex", ".md")
MADE = "made by topicstream"
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "&%$#_{}"
}
_MARKDOWN = re.compile(r"[\\|*_`<>\[\]]")


def check_table_file(
    path: str | Path, option: str, *, force: bool = False, text: bool = False
) -> Path:
    """Check the name and folder of a table file before work begins.

    ``text`` also permits ``.tex`` and ``.md``.

    Raises
    ------
    UsageError
        If the suffix is another one or the folder is missing.
    TopicsError
        If the file exists.
    """
    place = Path(path)
    allowed = SUFFIXES + (TEXT_SUFFIXES if text else ())
    if place.suffix not in allowed:
        raise UsageError(f"{option} {path}: the name must end in {', '.join(allowed)}")
    check_output(place, option, force=force)
    return place


def write_table(
    table: pa.Table,
    path: str | Path,
    *,
    option: str = "--out",
    force: bool = False,
    caption: str = "",
) -> None:
    """Write a table in the format of the file's suffix.

    It raises the errors of ``check_table_file``.

    Parameters
    ----------
    table
        ``.tex`` and ``.md`` show its numbers with four significant digits.
    caption
        Caption of the table in ``.tex`` and ``.md``.
    """
    place = check_table_file(path, option, force=force, text=True)
    with written(place, force=force, option=option) as out:
        if place.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, out)
        elif place.suffix == ".csv":
            import pyarrow.csv as pc

            pc.write_csv(table, out)
        elif place.suffix == ".jsonl":
            for row in table.to_pylist():
                out.write(json_line(row).encode() + b"\n")
        else:
            rows = [[cell(value) for value in row.values()] for row in table.to_pylist()]
            numeric = [
                pa.types.is_floating(f.type) or pa.types.is_integer(f.type) for f in table.schema
            ]
            lines = (tex_lines if place.suffix == ".tex" else markdown_lines)(
                table.schema.names, rows, numeric, caption
            )
            out.write(("\n".join(lines) + "\n").encode())


def cell(value: object) -> str:
    """Format a value as text: four significant digits for numbers, nothing for null."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else one_line(value)


def tex_lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], caption: str
) -> list[str]:
    """Format a ``table`` with the rules of booktabs, with TeX's special characters escaped."""

    def line(values: Sequence[str]) -> str:
        return " & ".join("".join(_TEX.get(c, c) for c in value) for value in values) + r" \\"

    lines = [f"% {MADE}; needs \\usepackage{{booktabs}}", r"\begin{table}", r"\centering"]
    lines += [r"\caption{" + "".join(_TEX.get(c, c) for c in caption) + "}"] if caption else []
    lines += [
        r"\begin{tabular}{" + "".join("r" if right else "l" for right in numeric) + "}",
        r"\toprule",
    ]
    lines += [
        line(names),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return lines


def markdown_lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], caption: str
) -> list[str]:
    """Format a pipe table, with Markdown's special characters escaped."""

    def line(values: Sequence[str]) -> str:
        return (
            "| "
            + " | ".join(_MARKDOWN.sub(lambda m: "\\" + m[0], value) for value in values)
            + " |"
        )

    head = [f"<!-- {MADE} -->", *([f"**{caption}**", ""] if caption else [])]
    return [
        *head,
        line(names),
        "|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|",
        *map(line, rows),
    ]
