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
"""Comment at the head of a text."""
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
        The name has another suffix, or the folder is missing.
    TopicsError
        The file exists.
    """
    file = Path(path)
    allowed = SUFFIXES + (TEXT_SUFFIXES if text else ())
    if file.suffix not in allowed:
        raise UsageError(f"{option} {path}: the name must end in {', '.join(allowed)}")
    check_output(file, option, force=force)
    return file


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
    file = check_table_file(path, option, force=force, text=True)
    with written(file, force=force, option=option) as out:
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, out)
        elif file.suffix == ".csv":
            import pyarrow.csv as pc

            pc.write_csv(table, out)
        elif file.suffix == ".jsonl":
            for row in table.to_pylist():
                out.write(json_line(row).encode() + b"\n")
        else:
            rows = [list(map(format_cell, row.values())) for row in table.to_pylist()]
            numeric = [
                pa.types.is_floating(f.type) or pa.types.is_integer(f.type) for f in table.schema
            ]
            format_lines = tex_lines if file.suffix == ".tex" else markdown_lines
            lines = format_lines(table.schema.names, rows, numeric, caption)
            out.write(("\n".join(lines) + "\n").encode())


def format_cell(value: object) -> str:
    """Format a value as text: four significant digits for numbers, nothing for null."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else one_line(value)


def tex_lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], caption: str
) -> list[str]:
    """Format a ``table`` with the rules of booktabs, with TeX's special characters escaped.

    Parameters
    ----------
    names
        Names of the columns.
    numeric
        Whether each column holds numbers, which are aligned to the right.
    """

    def line(values: Sequence[str]) -> str:
        return " & ".join(map(_escape_tex, values)) + r" \\"

    alignment = "".join("r" if right else "l" for right in numeric)
    lines = [f"% {MADE}; needs \\usepackage{{booktabs}}", r"\begin{table}", r"\centering"]
    if caption:
        lines.append(r"\caption{" + _escape_tex(caption) + "}")
    return [
        *lines,
        r"\begin{tabular}{" + alignment + "}",
        r"\toprule",
        line(names),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _escape_tex(text: str) -> str:
    """Escape the characters that are special in TeX."""
    return "".join(_TEX.get(c, c) for c in text)


def markdown_lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], caption: str
) -> list[str]:
    """Format a pipe table, with Markdown's special characters escaped.

    Parameters: those of ``tex_lines``.
    """

    def line(values: Sequence[str]) -> str:
        escaped = [_MARKDOWN.sub(r"\\\g<0>", value) for value in values]
        return "| " + " | ".join(escaped) + " |"

    lines = [f"<!-- {MADE} -->"]
    if caption:
        lines += [f"**{caption}**", ""]
    return [
        *lines,
        line(names),
        "|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|",
        *map(line, rows),
    ]
