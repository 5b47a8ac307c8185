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
    """Describe a file that no reader takes, and how to convert it, or return None.

    A suffix counts only if the first bytes are not text, because texts have such names, too.
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
    marks = (b"PK", b"{\\rtf", b"\x80", b"From ")
    may_be_binary = not head or b"\0" in head or head.startswith(marks)
    return CONVERT.get(suffix) if may_be_binary else None


IN_PATH = "files with {0}= in their path (--meta {0} keeps it)"
"""The note on a field that no option asks for."""


def partitions(key: str) -> dict[str, str | None]:
    """Read the fields of a path such as ``date=2020-01/lang=en/part-0.parquet``.

    Hive and Spark write such paths, with URL escapes and a word for a missing value, which is None
    here. The letters of names are composed.
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
        If it is the address of a key that a ``Path`` cannot hold, with an empty part.
    """
    path = Path(text)
    if not places().on_this_machine(text) and "//" in text.partition("://")[2].rstrip("/"):
        raise InputError(
            f"{text}: the key has an empty part (//), which cannot be read; rename that object"
        )
    return path


def expand_names(names: Sequence[str]) -> list[str]:
    """Replace patterns and folders of buckets by the files and objects that they stand for.

    A pattern such as ``data/*.txt`` gets here if it was quoted, so that the shell did not expand
    it.

    Raises
    ------
    InputError
        If nothing matches, or no provider reads such addresses.
    """
    expanded: list[str] = []
    for name in names:
        expanded += places().expand(name) or _choose_objects(name)
    if len(expanded) == len(names):  # a name that is given twice is refused later
        return expanded
    return list(dict.fromkeys(expanded))


def _choose_objects(name: str) -> list[str]:
    """Choose the objects of a folder that are read.

    Hidden objects, marks and files about the folder are left out. If all others are files of 10x
    matrices, only the matrices are chosen, whose reader finds the files beside them.
    """
    address = places().describe(name)
    folder = address.rstrip("/") + "/"
    objects = []
    for entry in places().list_objects(name):
        parts = entry.removeprefix(folder).split("/")
        is_aside = any(part.startswith(".") or is_mark(part) for part in parts)
        if not is_aside and not (len(parts) == 1 and is_about(parts[0])):
            objects.append(entry)
    if not objects:
        raise InputError(
            f"{address}: no such object, and no folder with objects to read; check bucket, key "
            f"and region"
        )
    matrices = [name for name in objects if f"/{name}".endswith((MATRIX[0], MATRIX[0] + ".gz"))]
    matrix_files: set[Path | None] = set()
    for name in matrices:
        for part in (MATRIX, CELLS, FEATURES):
            matrix_files.add(matrix_file(Path(name), part))
    return matrices if {Path(name) for name in objects} <= matrix_files else objects


# -- matrices with files beside them
# --------------------------------------------------------------------------------------------------
MATRIX = ("matrix.mtx",)
CELLS = ("barcodes.tsv",)
FEATURES = ("features.tsv", "genes.tsv", "peaks.bed")
"""The files of a matrix of 10x, by what they hold."""


def matrix_file(place: Path, names: tuple[str, ...]) -> Path | None:
    """Find the file of one of these names, gzipped or not.

    Parameters
    ----------
    place
        A folder, or a matrix: the file lies beside it and has its prefix (GEO's
        ``GSM1_matrix.mtx.gz``).
    names
        Names that the file may have.
    """
    folder = place
    prefix = ""
    if not place.is_dir():
        folder = place.parent
        prefix = place.name.partition(MATRIX[0])[0]
    for name in names:
        for suffix in ("", ".gz"):
            path = folder / (prefix + name + suffix)
            if places().is_file(path):
                return path
    return None


def matrix_form(place: Path) -> str | None:
    """Return the reader of a matrix of several files, or None for any other place.

    It is ``tenx`` for a folder with the files of 10x, or a matrix with the others beside it, and
    ``h5ad`` for AnnData in Zarr.
    """
    may_be_matrix = place.is_dir() or MATRIX[0] in place.name
    is_matrix = may_be_matrix and matrix_file(place, MATRIX) is not None
    if is_matrix and (matrix_file(place, CELLS) or matrix_file(place, FEATURES)):
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
    """Guess a reader's name by signature, then suffix, then the look of the text.

    Parameters
    ----------
    name
        Name of the file.
    head
        Its first bytes.
    in_folder
        True for a file of a folder. Text without a format is one document there (``files``), and
        otherwise a document a line (``lines``), if its name says that it is text.

    Raises
    ------
    InputError
        If neither name nor content tell the format, or no reader takes it.
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
    """Guess the format of an input, with the options on raw input.

    The source still returns the bytes that were looked at.
    """
    form = guess(name, source.head(), in_folder=in_folder)
    return "vectors" if form == "parquet" and options.vector_field else form
