"""What the names of inputs say before anything is opened: marks of Spark and Hadoop, files about a corpus, documents of
office programs, addresses, patterns, and ``key=value`` folders."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from urllib.parse import unquote

from topicstream.errors import InputError

_MARKS = re.compile(
    r"_(SUCCESS|metadata|common_metadata|temporary|delta_log|spark_metadata|(started|committed)(_.*)?)|.*\.crc"
)
_ABOUT = {"readme", "license", "licence", "copying", "changelog", "citation", "contributing", "notice"}
_ABOUT_SUFFIXES = ("", ".txt", ".md", ".rst", ".html", ".cff", ".bib")
_NONE = "__HIVE_DEFAULT_PARTITION__"
_KEY = re.compile(r"[A-Za-z_][\w.-]*")

_TEXT_OF = "turn it into text first ({}) and give the .txt file or the folder of them"
CONVERT = {
    ".xlsx": "an Excel workbook; save the sheet as CSV (UTF-8) and give that",
    ".xls": "an Excel workbook; save the sheet as CSV (UTF-8) and give that",
    ".ods": "a spreadsheet; save the sheet as CSV and give that",
    ".docx": "a Word document; " + _TEXT_OF.format("pandoc -t plain, or save as plain text"),
    ".doc": "a Word document; " + _TEXT_OF.format("save as plain text, or antiword"),
    ".odt": "a text document of an office program; " + _TEXT_OF.format("pandoc -t plain, or save as plain text"),
    ".rtf": "rich text; " + _TEXT_OF.format("pandoc -t plain, or save as plain text"),
    ".pptx": "a presentation; " + _TEXT_OF.format("save as plain text"),
    ".epub": "an e-book; " + _TEXT_OF.format("pandoc -t plain"),
    ".pdf": "a PDF; " + _TEXT_OF.format("pdftotext, one .txt a document"),
    ".zip": "a zip archive; unpack it and give the folder",
    ".7z": "a 7z archive; unpack it and give the folder",
    ".rar": "a rar archive; unpack it and give the folder",
    ".rds": "data of R; write it as CSV or Parquet (arrow::write_parquet) and give that",
    ".rdata": "data of R; write it as CSV or Parquet (arrow::write_parquet) and give that",
    ".dta": "data of Stata; export it as CSV and give that",
    ".sav": "data of SPSS; export it as CSV and give that",
    ".sqlite": "a database; write the table as CSV (sqlite3 -csv -header) and give that",
    ".db": "a database; write the table as CSV (sqlite3 -csv -header) and give that",
    ".pkl": "a pickle, which can run anything it likes and is not read; write the data as Parquet or JSON lines",
    ".pickle": "a pickle, which can run anything it likes and is not read; write the data as Parquet or JSON lines",
}
"""What a file that no reader takes is, by its suffix, and what to do."""


def is_mark(name: str) -> bool:
    """True for what Spark, Hadoop and Delta write beside the data: ``_SUCCESS``, ``_metadata``, ``*.crc`` and the like."""
    return bool(_MARKS.fullmatch(name))


def is_about(name: str) -> bool:
    """True for the usual names of a file about a folder: README, LICENSE, CHANGELOG and the like."""
    lower = name.lower()
    return re.split(r"[._-]", lower)[0] in _ABOUT and os.path.splitext(lower)[1] in _ABOUT_SUFFIXES


def conversion(name: str, head: bytes) -> str | None:
    """What a file that no reader takes is, and what to do with it; None for any other.  Suffix and first bytes must agree
    where the suffix is used for text, too."""
    suffix = os.path.splitext(name.lower())[1]
    if head.startswith(b"%PDF-"):
        return CONVERT[".pdf"]
    if head.startswith(b"SQLite format 3\0"):
        return CONVERT[".sqlite"]
    binary = not head or b"\0" in head or head.startswith((b"PK", b"{\\rtf", b"\x80"))
    return CONVERT.get(suffix) if binary else None


def partitions(key: str) -> dict[str, str | None]:
    """The fields of a path like ``date=2020-01/lang=en/part-0.parquet``, as Hive and Spark write them (values in URL
    escapes; their word for none: None)."""
    found: dict[str, str | None] = {}
    for part in key.split("/")[:-1]:
        name, mark, value = part.partition("=")
        if mark and _KEY.fullmatch(name):
            found[name] = None if value == _NONE else unquote(value)
    return found


def expanded(names: Sequence[str]) -> list[str]:
    """The names, patterns such as ``data/*.txt`` (in quotes, the shell leaves them) replaced by what they match, in order.

    InputError where nothing matches, and for addresses on the net.
    """
    found: list[str] = []
    for name in names:
        if (scheme := re.match(r"([a-z][a-z0-9+]{1,9}):/{1,2}[^/]", name)) and not os.path.exists(name):
            how = "curl -O" if scheme[1].startswith("http") else f"a tool that speaks {scheme[1]}"
            address = re.sub(":/+", "://", name, count=1)  # a Path has one slash of them
            raise InputError(
                f"{address}: only files on this machine are read; fetch it first ({how}), or pipe it in as -"
            )
        if name == "-" or os.path.exists(name) or not glob.has_magic(name):
            found.append(name)
            continue
        matched = sorted(glob.glob(name, recursive=True), key=os.fsencode)
        if not matched:
            raise InputError(f"{name}: no file matches this pattern")
        found += matched
    return list(dict.fromkeys(found)) if len(found) != len(names) else found
