"""Formats of inputs by their names and first bytes.

Also marks of Spark and Hadoop, files about a corpus, documents of office programs, addresses,
patterns and ``key=value`` folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from topicstream.base.errors import InputError
from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.reader import readers
from topicstream.ingestion.parse.rejects import BadFile

_MARKS = re.compile(
    r"_(SUCCESS|metadata|common_metadata|temporary|delta_log|spark_metadata)"
    r"|_(started|committed)(_.*)?|.*\.crc|dataset_(dict|infos?)\.json"
)
_ABOUT = {
    "readme",
    "license",
    "licence",
    "copying",
    "changelog",
    "citation",
    "contributing",
    "notice",
}
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
    ".odt": "a text document of an office program; "
    + _TEXT_OF.format("pandoc -t plain, or save as plain text"),
    ".rtf": "rich text; " + _TEXT_OF.format("pandoc -t plain, or save as plain text"),
    ".pptx": "a presentation; " + _TEXT_OF.format("save as plain text"),
    ".epub": "an e-book; " + _TEXT_OF.format("pandoc -t plain"),
    ".pdf": "a PDF; " + _TEXT_OF.format("pdftotext, one .txt a document"),
    ".zip": "a zip archive; unpack it and give the folder",
    ".7z": "a 7z archive; unpack it and give the folder",
    ".rar": "a rar archive; unpack it and give the folder",
    ".mbox": "a mailbox; write each message as JSON (Python's mailbox module reads it) and give "
    "the JSON lines",
    ".rds": "data of R; write it as CSV or Parquet (arrow::write_parquet) and give that",
    ".rdata": "data of R; write it as CSV or Parquet (arrow::write_parquet) and give that",
    ".dta": "data of Stata; export it as CSV and give that",
    ".sav": "data of SPSS; export it as CSV and give that",
    ".sqlite": "a database; write the table as CSV (sqlite3 -csv -header) and give that",
    ".db": "a database; write the table as CSV (sqlite3 -csv -header) and give that",
    ".pkl": "a pickle, which can run anything it likes and is not read; write the data as Parquet "
    "or JSON lines",
    ".pickle": "a pickle, which can run anything it likes and is not read; write the data as "
    "Parquet or JSON lines",
}
"""Description of files that no reader takes, by suffix, and how to convert them."""


def is_mark(name: str) -> bool:
    """Tell whether Spark, Hadoop, Delta or Hugging Face wrote a file beside the data.

    Such are ``_SUCCESS``, ``_metadata``, ``*.crc`` and the like.
    """
    return bool(_MARKS.fullmatch(name))


def is_about(name: str) -> bool:
    """Tell whether a file is about its folder: README, LICENSE, CHANGELOG and the like."""
    lower = name.lower()
    return re.split(r"[._-]", lower)[0] in _ABOUT and os.path.splitext(lower)[1] in _ABOUT_SUFFIXES


def conversion(name: str, head: bytes) -> str | None:
    """Say what a file that no reader takes is, and what to do with it.

    None for any other. Suffix and first bytes must agree where the suffix is used for text, too.
    """
    suffix = os.path.splitext(name.lower())[1]
    if "fragments.tsv" in os.path.basename(name.lower()):
        return (
            "fragments of single cells; count them by peaks or bins first (SnapATAC2, "
            "pycisTopic, ArchR) and give that matrix"
        )
    if head.startswith(b"%PDF-"):
        return CONVERT[".pdf"]
    if head.startswith(b"SQLite format 3\0"):
        return CONVERT[".sqlite"]
    binary = not head or b"\0" in head or head.startswith((b"PK", b"{\\rtf", b"\x80", b"From "))
    return CONVERT.get(suffix) if binary else None


IN_PATH = "files with {0}= in their path (--meta {0} keeps it)"
"""The note on a field that no option asks for."""


def partitions(key: str) -> dict[str, str | None]:
    """Read the fields of a path like ``date=2020-01/lang=en/part-0.parquet``.

    Hive and Spark write them: values in URL escapes, their word for a missing one is None here.
    Names have composed letters.
    """
    values: dict[str, str | None] = {}
    for part in key.split("/")[:-1]:
        name, mark, value = compose_text(part).partition("=")
        if mark and _KEY.fullmatch(name):
            values[name] = None if value == _NONE else unquote(value)
    return values


def input_path(text: str) -> Path:
    """Return the path of an input that a command line names.

    Raises
    ------
    InputError
        If it is the address of a key of which a path would be another one.
    """
    path = Path(text)
    if not places().on_this_machine(text) and "//" in text.partition("://")[2].rstrip("/"):
        raise InputError(
            f"{text}: the key has an empty part (//), which cannot be read; rename that object"
        )
    return path


def expanded(names: Sequence[str]) -> list[str]:
    """Replace patterns and folders of buckets among names by what they stand for, in order.

    Patterns such as ``data/*.txt`` come in quotes, which the shell leaves alone.

    Raises
    ------
    InputError
        Where nothing matches, and for addresses that nobody reads.
    """
    expanded_names: list[str] = []
    for name in names:
        expanded_names += places().expand(name) or _choose_objects(name)
    return (
        list(dict.fromkeys(expanded_names)) if len(expanded_names) != len(names) else expanded_names
    )


def _choose_objects(name: str) -> list[str]:
    """Choose the objects of a folder that are read.

    Hidden ones, marks, and files about the folder are left out, and of matrices of 10x the files
    beside them.
    """
    address = places().describe(name)
    folder = address.rstrip("/") + "/"
    objects = []
    for entry in places().list_objects(name):
        parts = entry.removeprefix(folder).split("/")
        if any(part.startswith(".") or is_mark(part) for part in parts) or (
            len(parts) == 1 and is_about(parts[0])
        ):
            continue
        objects.append(entry)
    if not objects:
        raise InputError(
            f"{address}: no such object, and no folder with objects to read; check bucket, key "
            f"and region"
        )
    matrices = [name for name in objects if f"/{name}".endswith((MATRIX[0], MATRIX[0] + ".gz"))]
    beside = {
        matrix_file(Path(name), part) for name in matrices for part in (MATRIX, CELLS, FEATURES)
    }
    return matrices if {Path(name) for name in objects} <= beside else objects


# -- matrices with files beside them
# ---------------------------------------------------------------------------------------
MATRIX = ("matrix.mtx",)
CELLS = ("barcodes.tsv",)
FEATURES = ("features.tsv", "genes.tsv", "peaks.bed")
"""The files of a matrix of 10x, by what they hold."""


def matrix_file(place: Path, names: tuple[str, ...]) -> Path | None:
    """Find the file of one of these names, gzipped or not.

    It lies in the folder, or beside a matrix and has its prefix (GEO's ``GSM1_matrix.mtx.gz``).
    """
    folder, prefix = (
        (place, "") if place.is_dir() else (place.parent, place.name.partition(MATRIX[0])[0])
    )
    candidates = (folder / (prefix + name + suffix) for name in names for suffix in ("", ".gz"))
    return next((path for path in candidates if places().is_file(path)), None)


def matrix_form(place: Path) -> str | None:
    """Return the reader of a matrix that is several files, None for any other place.

    It is ``tenx`` for the files of 10x, a folder or a matrix with the other files beside it, and
    ``h5ad`` for AnnData in Zarr.
    """
    named = place.is_dir() or MATRIX[0] in place.name
    if (
        named
        and matrix_file(place, MATRIX)
        and (matrix_file(place, CELLS) or matrix_file(place, FEATURES))
    ):
        return "tenx"
    return "h5ad" if all((place / name).is_dir() for name in ("obs", "var")) else None


VOCAB_NAME = re.compile(
    r"^((vocab|vocabulary|words|terms|features)([._-].*)?|.*[._-](vocab|vocabulary|words))"
    r"(\.(txt|tsv|dat))?$"
)
HEADER = re.compile(rb"[^\n]*\t|[^\s,;]+[,;]\S")
"""A first line on standard input that may be one of a table."""
TEXT_SUFFIXES = ("", ".txt", ".text", ".md", ".rst")


def is_vocab_name(name: str) -> bool:
    """Tell whether a file has a usual name of a vocabulary.

    Such are vocab.txt, vocab.kos.txt, ap.vocab and words.txt.
    """
    stem = re.sub(r"\.(gz|bz2|xz|zst)$", "", name.lower())
    return bool(VOCAB_NAME.match(stem))


def guess(name: str, head: bytes, *, in_folder: bool) -> str:
    """Guess a reader's name by signature, then suffix, then what the text resembles.

    Text without a format of its own is ``files`` (one document) in a folder, ``lines`` else.
    InputError that names ``--format`` when neither name nor content tell.
    """
    suffix = plain_suffix(name)
    formats = readers()
    text = head.lstrip()
    for form, reader in formats.items():
        if reader.signature is not None and reader.signature.match(head):
            return form
    advice = conversion(name, head)
    if advice is not None:
        raise BadFile(name, 0, advice)
    if re.match(rb"\[\s*\{", text):
        raise BadFile(
            name, 1, "a JSON array, not JSON lines; write one object a line (jq -c '.[]')"
        )
    for form, reader in formats.items():
        if suffix in reader.suffixes and (suffix not in TEXT_SUFFIXES):
            return form
    resembling = next((form for form, reader in formats.items() if reader.resembles(head)), None)
    if b"\0" in head and resembling is None:
        raise BadFile(
            name, 0, "not text (it holds zero bytes); give --format or --encoding if it is"
        )
    if resembling is not None:
        return resembling
    if suffix == ".xml" or text.startswith((b"<?xml", b"<!DOCTYPE")):
        raise BadFile(
            name,
            1,
            "XML that is neither PubmedArticleSet nor MedlineCitationSet nor TEI; convert it to "
            "JSON lines",
        )
    if in_folder:
        return "files"
    if suffix in (".txt", ".text", ".lines") or (name == "-" and not HEADER.match(head)):
        return "lines"
    raise InputError(
        f"{name}: cannot detect the format; give --format (lines for one document a line, csv, "
        f"jsonl …)"
    )


def guess_source(source: Source, options: ReadOptions, *, in_folder: bool, name: str) -> str:
    """Guess the format of an input, as the options want it read.

    The bytes looked at are read again later.
    """
    form = guess(name, source.head(), in_folder=in_folder)
    return "vectors" if form == "parquet" and options.vector_field else form
