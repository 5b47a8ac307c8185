"""What is said about raw input: the options that ``ingest`` and ``infer`` share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from topicstream.corpus.format import LINKS, LIST_COLUMNS, NAMED
from topicstream.errors import InputError
from topicstream.memory import Room
from topicstream.options import option
from topicstream.records import Json

ALIASES = {
    "uci": "docword",
    "html": "markup",
    "tei": "markup",
    "txt": "files",
    "json": "jsonl",
    "ndjson": "jsonl",
    "tsv": "csv",
    "10x": "tenx",
}
"""What else formats are called: by ``export``, or by the endings of their files."""
REMEMBERED = (
    "text_field",
    "id_field",
    "delimiter",
    "quotechar",
    "header",
    "list_separator",
    "date_format",
    "weighted",
    "binarize",
    "transpose",
    "layer",
)
"""Of ``ReadOptions``: how the fields of an input are called and parted."""
CUT = ("split", "min_tokens", "patches", "stride", "vector_field")
"""Of ``ReadOptions``: how an ingest makes documents of the records; what is inferred is inferred
whole.
"""
OF_FILES = ("format", "encoding")
"""Of ``ReadOptions``: how these files are read again; others of the same corpus may be unlike them.
"""
RAW = "Format of raw input (default: detected from name and content)."


def columns(columns_given: Mapping[str, str] | str | Sequence[str]) -> Mapping[str, str]:
    """``column=field`` or ``field``, some of them, between commas too -> {column: field}."""
    if isinstance(columns_given, Mapping):
        return columns_given
    meta = {}
    for pair in (part.strip() for part in joined(columns_given).split(",") if len(columns_given)):
        column, _, name = pair.partition("=")
        if not column:
            raise InputError(f"--meta {pair}: write column=field (or just field)")
        meta[column] = name or column
    return meta


def joined(names: str | Collection[str]) -> str:
    """Names that were given apart, between commas."""
    return names if isinstance(names, str) else ",".join(names)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What the user said about the input: options of ingest, and of infer on raw documents.

    A value that is its default counts as not given.
    """

    format: str | None = option(
        None,
        "Input format, or each: every file of a folder by its own (default: detected from name "
        "and content, one a folder).",
        help_infer=RAW,
    )
    text_field: str | None = option(
        None,
        "Field(s) with the text, separated by commas (default: text).",
        help_infer="Field(s) with the text, separated by commas (default: as in the model's corpus).",
    )
    id_field: str | None = option(
        None, "Field with the document id (default: id if present, else file:line)."
    )
    recalled: Sequence[str] = option(
        (),
        "options that are those of an earlier input (a model's), which this one need not fit",
        cli=False,
    )
    meta: Any = field(
        default_factory=dict,
        metadata={
            "help": f"Keep a field: {'=, '.join(LIST_COLUMNS)}=, date=, any (of JSON also a.b).",
            "cli": ("ingest",),
            "multiple": True,
            "metavar": "COLUMN=FIELD",
            "parse": columns,
        },
    )
    date_format: str | None = option(
        None,
        "How the field date= writes dates, such as %m/%d/%Y or '%d %b %y %H:%M' (default: read "
        "year first, 31.05.1999, ...).",
        metavar="FORMAT",
        cli=("ingest",),
    )
    encoding: str | None = option(None, "Text encoding (default: UTF-8, or by byte order mark).")
    delimiter: str | None = option(None, "CSV delimiter.")
    quotechar: str | None = option(
        None, "CSV quote character (default: \"); '' if quotes are text."
    )
    header: bool | None = option(
        None,
        "Whether CSV files start with column names; without them, columns are called 1, 2, 3, "
        "... (default: detected).",
        pair=True,
        cli=("ingest",),
    )
    list_separator: str = option(
        ";",
        f"Between the {', '.join(NAMED)} or {LINKS} of one field (default: ;).",
        cli=("ingest",),
    )
    weighted: bool = option(
        False, "Accept real-valued weights instead of counts (matrices, svmlight)."
    )
    binarize: bool = option(
        False, "Replace every count above 0 with 1 (presence or absence, as for open chromatin)."
    )
    transpose: bool = option(False, "Matrices (mtx, npz, h5ad): documents are columns, not rows.")
    layer: str | None = option(
        None,
        "Which matrix of the file: a layer or raw (h5ad), a modality (h5mu: rna, rna/raw), a "
        "genome (10x).",
        metavar="NAME",
    )
    first_id: int | None = option(None, "svmlight and LDA-C: number of the first word.")
    words: str | Path | None = option(
        None,
        "File with the words of a bag-of-words file, if it is not next to it.",
        help_infer="File with the words of a bag-of-words file, if it is not next to it.",
        path=True,
        instead="; the words of a matrix's columns are given as vocabulary=",
    )
    vocab_file: str | None = option(
        None, "the file of --vocab: names words that have no other names", cli=False
    )
    vector_field: str | None = option(
        None,
        "Parquet: column with vectors as lists of numbers, or numeric columns separated by "
        "commas (`*`: all numeric columns).",
        metavar="COLUMN",
        multiple=True,
        parse=joined,
    )
    vectors: bool = option(
        False, "a NumPy array: its rows are vectors (known by itself of one below 0)", cli=False
    )
    patches: int | None = option(
        None,
        "Images: cut into squares of N x N pixels and subtract the mean of each (needs the "
        "extra `images`).",
        min=2,
        max=64,
        metavar="N",
    )
    stride: int | None = option(
        None,
        "Images: pixels from one patch to the next (default: half a patch).",
        min=1,
        metavar="N",
    )
    on_error: Literal["fail", "skip"] = option(
        "fail", "What to do at a bad record (default: fail).", choices=("fail", "skip")
    )
    split: str | None = option(
        None,
        "Cut documents into parts (id#1, id#2, ...): at blank lines (paragraph), at headings "
        "(section), every "
        "'1000 words', or wherever a pattern matches. Parts of one document are held out together.",
        metavar="paragraph|section|'N words'|REGEX",
        cli=("ingest",),
    )
    min_tokens: int = option(
        0, "Leave out documents with fewer words.", min=0, metavar="N", cli=("ingest",)
    )
    record_bytes: int = option(64 << 20, "The longest record accepted.", cli=False)
    piece_bytes: int = option(8 << 20, "The size of a piece before parsing.", cli=False)
    room: Room | None = option(None, "", cli=False)
    """What one piece may take where it is larger; None: anything."""
    scratch: Path | None = option(None, "", cli=False)
    """Folder for scratch files of readers; None: the system's."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "meta", columns(self.meta))
        if not self.id_field:
            object.__setattr__(self, "id_field", None)
        if self.patches and self.format is None:
            object.__setattr__(self, "format", "images")
        object.__setattr__(self, "format", ALIASES.get(self.format or "", self.format))

    def given(self) -> dict[str, Any]:
        """The options that are not their defaults."""
        fresh = ReadOptions()
        return {
            f.name: v
            for f in fields(ReadOptions)
            if (v := getattr(self, f.name)) != getattr(fresh, f.name)
        }

    @property
    def strict(self) -> bool:
        """True under ``--on-error fail``."""
        return self.on_error == "fail"

    @property
    def id_wanted(self) -> bool:
        """Whether every record must have the id field."""
        return self.id_field is not None and "id_field" not in self.recalled

    @property
    def turned(self) -> bool:
        """Whether the user turns a matrix whose format says what its cells are: an earlier input's
        ``--transpose`` does not.
        """
        return self.transpose and "transpose" not in self.recalled

    def id_column(self, names: Collection[str]) -> str | None:
        """Which of a table's columns holds the ids; None: there is none.

        A field that must be there is not looked for.
        """
        if self.id_field is not None and (self.id_wanted or self.id_field in names):
            return self.id_field
        return "id" if "id" in names else None

    def spelt(self) -> dict[str, Any]:
        """All that decides what is read, as plain values."""
        aside = ("piece_bytes", "room", "scratch", "vocab_file", "on_error", "recalled")
        read = {f.name: getattr(self, f.name) for f in fields(ReadOptions) if f.name not in aside}
        words = read.pop("words")
        read |= {
            "text_field": self.text_field or "text",
            "vocab": words and str(words),
            "meta": dict(self.meta),
        }  # as it was called when the first were written
        return {k: v for k, v in read.items() if k not in CUT or v}

    def remembered(self) -> dict[str, Json]:
        """What a store and its models keep, so that more of the same input is read the same way:
        plain values.
        """
        return {k: v for k, v in self.given().items() if k in REMEMBERED + CUT + OF_FILES}

    def recall(self, stored: object, names: tuple[str, ...] = REMEMBERED) -> Self:
        """These options with those of ``remembered`` where nothing was given.

        stored: of a manifest, checked here.
        """
        if not isinstance(stored, dict):
            return self
        given = self.given()
        types = {
            "header": bool,
            "weighted": bool,
            "binarize": bool,
            "transpose": bool,
            "min_tokens": int,
            "patches": int,
            "stride": int,
        }
        values: dict[str, Any] = {
            k: v
            for k, v in stored.items()
            if k in names and k not in given and isinstance(v, types.get(k, str))
        }
        return replace(self, **values, recalled=tuple(values))

    @property
    def text_fields(self) -> list[str]:
        """The names of the text fields, in the order in which they are joined."""
        return [name.strip() for name in (self.text_field or "text").split(",")]
