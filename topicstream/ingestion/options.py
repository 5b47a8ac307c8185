"""Options on raw input, which ``ingest`` and ``infer`` share."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from topicstream.base.errors import InputError, UsageError
from topicstream.base.machine import parse_bytes
from topicstream.base.memory import Room
from topicstream.base.options import field_types, fits, names_tagged, option
from topicstream.base.records import Json
from topicstream.base.text import compose_text
from topicstream.corpus.format import LINKS, LIST_COLUMNS, NAMED

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
"""Other names of formats: those of ``export``, and suffixes of files."""
FIELDS: Final = "fields"
LAYOUT: Final = "layout"
META: Final = "meta"
CUT: Final = "cut"
OF_FILES: Final = "files"
"""Groups of options that a store remembers (``recalled``)."""
RAW = "Format of raw input (default: detected from name and content)."


def columns(columns_given: Mapping[str, str] | str | Sequence[str]) -> Mapping[str, str]:
    """Read ``--meta``: texts such as ``column=field,field``, as fields by column.

    Raises
    ------
    InputError
        If a part has no name.
    """
    if isinstance(columns_given, Mapping):
        return {compose_text(column): name for column, name in columns_given.items()}
    meta: dict[str, str] = {}
    if not len(columns_given):
        return meta
    for part in joined(columns_given).split(","):
        pair = part.strip()
        column, _, name = pair.partition("=")
        if not column:
            raise InputError(f"--meta {pair}: write column=field (or just field)")
        meta[compose_text(column)] = name or column
    return meta


def values_listed(texts: str | Sequence[str]) -> tuple[str, ...]:
    """List the values between commas, of one string or several."""
    values = (value.strip() for value in joined(texts).split(","))
    return tuple(filter(None, values))


def join_element_names(texts: str | Sequence[str]) -> str:
    """Join the elements that ``--tei-elements`` names: ``+stage``, ``-quote``, ``l,p``, ``all``.

    Raises
    ------
    UsageError
        If one is no name of an element.
    """
    names = values_listed(texts)
    for name in names:
        if not re.fullmatch(r"[+-]?[^\W\d][\w.-]*", name):
            raise UsageError(
                f"{name} is no name of a TEI element; +stage counts its words, too, -quote leaves "
                f"them out, l,p counts only these, all counts every word"
            )
    return ",".join(names)


def joined(names: str | Collection[str]) -> str:
    """Join names with commas, unless they are joined already."""
    return names if isinstance(names, str) else ",".join(names)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options on raw input, for ingest and infer.

    An option that has its default value counts as not given.
    """

    format: str | None = option(
        None,
        "Input format, or each: every file of a folder by its own (default: detected from name "
        "and content, one a folder).",
        help_infer=RAW,
        decides="reading",
        recalled="files",
    )
    text_field: str | None = option(
        None,
        "Field(s) with the text, separated by commas (default: text).",
        help_infer="Field(s) with the text, separated by commas "
        "(default: as in the model's corpus).",
        decides="reading",
        recalled="layout",
    )
    id_field: str | None = option(
        None,
        "Field with the document id (default: id if present, else file:line).",
        decides="reading",
        recalled="fields",
        group="Input",
    )
    recalled: Sequence[str] = option(
        (),
        "options that are those of an earlier input (a model's), which this one need not fit",
        cli=False,
        decides="nothing",
    )
    recalled_columns: Sequence[str] = option(
        (), "columns of meta that are those of an earlier input", cli=False, decides="nothing"
    )
    meta: Any = field(
        default_factory=dict,
        metadata={
            "help": f"Keep a field: {'=, '.join(LIST_COLUMNS)}=, date=, any (of JSON also a.b).",
            "cli": ("ingest",),
            "multiple": True,
            "metavar": "COLUMN=FIELD",
            "parse": columns,
            "decides": "reading",
            "recalled": "meta",
        },
    )
    na: str | Sequence[str] = option(
        (),
        "Values of fields that say that there is none, separated by commas, such as NA,NaN "
        "(default: only empty ones).",
        metavar="VALUES",
        multiple=True,
        parse=values_listed,
        cli=("ingest",),
        decides="reading",
        recalled="fields",
        group="Input",
    )
    date_format: str | None = option(
        None,
        "How the field date= writes dates, such as %m/%d/%Y or '%d %b %y %H:%M' (default: read "
        "year first, 31.05.1999, ...).",
        metavar="FORMAT",
        cli=("ingest",),
        decides="reading",
        recalled="fields",
        group="Input",
    )
    encoding: str | None = option(
        None,
        "Text encoding (default: UTF-8, or by byte order mark).",
        decides="reading",
        recalled="files",
        group="Input",
    )
    delimiter: str | None = option(
        None,
        "CSV delimiter.",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    quotechar: str | None = option(
        None,
        "CSV quote character (default: \"); '' if quotes are text.",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    escapechar: str | None = option(
        None,
        "CSV escape character, such as '\\' of Spark and MySQL; '' if backslashes are text "
        "(default: detected).",
        metavar="CHARACTER",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    comment: str | None = option(
        None,
        "CSV: what begins a line that is a comment, such as '#'.",
        metavar="TEXT",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    skip_lines: int | None = option(
        None,
        "CSV: lines before the header (default: those above the line that names the fields).",
        min=0,
        metavar="N",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    header: bool | None = option(
        None,
        "Whether CSV files start with column names; without them, columns are called 1, 2, 3, "
        "... (default: detected).",
        pair=True,
        cli=("ingest",),
        decides="reading",
        recalled="layout",
        group="Input",
    )
    tei_elements: str | None = option(
        None,
        "TEI elements that are text: +stage (speech and prose, the default, and stage "
        "directions), -quote (without quotations), l,p (only these), all; separated by commas.",
        metavar="NAME,...",
        multiple=True,
        parse=join_element_names,
        decides="reading",
        recalled="layout",
        group="Input",
    )
    list_separator: str = option(
        ";",
        f"Between the {', '.join(NAMED)} or {LINKS} of one field (default: ;).",
        cli=("ingest",),
        decides="reading",
        recalled="fields",
        group="Input",
    )
    weighted: bool = option(
        False,
        "Accept real-valued weights instead of counts (matrices, svmlight).",
        decides="reading",
        recalled="fields",
        group="Input",
    )
    binarize: bool = option(
        False,
        "Replace every count above 0 with 1 (presence or absence, as for open chromatin).",
        decides="reading",
        recalled="fields",
        group="Input",
    )
    transpose: bool = option(
        False,
        "Matrices (mtx, npz, h5ad): documents are columns, not rows.",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    layer: str | None = option(
        None,
        "Which matrix of the file: a layer or raw (h5ad), a modality (h5mu: rna, rna/raw), a "
        "genome (10x).",
        metavar="NAME",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    first_id: int | None = option(
        None,
        "Number of the first word (and document) in bag-of-words files (default: 0 for LDA-C, 1 "
        "for svmlight, UCI and Matrix Market).",
        decides="reading",
        recalled="layout",
        group="Input",
    )
    words: str | Path | None = option(
        None,
        "File with the words of a bag-of-words file, if it is not next to it.",
        help_infer="File with the words of a bag-of-words file, if it is not next to it.",
        path=True,
        instead="; the words of a matrix's columns are given as vocabulary=",
        decides="reading",
        group="Input",
    )
    vocab_file: str | None = option(
        None,
        "the file of --vocab: names words that have no other names",
        cli=False,
        decides="nothing",
    )
    vector_field: str | None = option(
        None,
        "Parquet: column with vectors as lists of numbers, or numeric columns separated by "
        "commas (`*`: all numeric columns).",
        metavar="COLUMN",
        multiple=True,
        parse=joined,
        decides="reading",
        recalled="cut",
        group="Input",
    )
    vectors: bool = option(
        False,
        "a NumPy array: its rows are vectors (known by itself of one below 0)",
        cli=False,
        decides="reading",
    )
    patches: int | None = option(
        None,
        "Images: cut into squares of N x N pixels and subtract the mean of each (needs the "
        "extra `images`).",
        min=2,
        max=64,
        metavar="N",
        decides="reading",
        recalled="cut",
        group="Input",
    )
    stride: int | None = option(
        None,
        "Images: pixels from one patch to the next (default: half a patch).",
        min=1,
        metavar="N",
        decides="reading",
        recalled="cut",
        group="Input",
    )
    on_error: Literal["fail", "skip"] = option(
        "fail",
        "What to do at a bad record (default: fail).",
        choices=("fail", "skip"),
        decides="documents",
        group="Advanced",
    )
    split: str | None = option(
        None,
        "Cut documents into parts (id#1, id#2, ...): at blank lines (paragraph), at headings "
        "(section), every '1000 words', or wherever a pattern matches; TEI also by speech or by "
        "speaker. Parts of one document are held out together.",
        metavar="paragraph|section|speech|speaker|'N words'|REGEX",
        cli=("ingest",),
        decides="reading",
        recalled="cut",
    )
    min_tokens: int = option(
        0,
        "Leave out documents with fewer words.",
        min=0,
        metavar="N",
        cli=("ingest",),
        decides="reading",
        recalled="cut",
        group="Input",
    )
    strip_gutenberg: bool = option(
        False,
        "Take the header and the licence of Project Gutenberg out of its texts.",
        decides="reading",
        recalled="cut",
        group="Input",
    )
    max_document: int | str = option(
        64 << 20,
        "The longest document or record that is read, such as 200M (default: 64M; a text file "
        "that --split cuts may have any length).",
        metavar="SIZE",
        parse=parse_bytes,
        decides="reading",
        recalled="files",
        group="Advanced",
    )
    piece_bytes: int = option(
        8 << 20,
        "The size of a piece before parsing.",
        cli=False,
        decides="nothing",
        machine=True,
    )
    room: Room | None = option(
        None,
        "",
        cli=False,
        decides="nothing",
        machine=True,
    )
    """Memory that one large piece may take; None: no limit."""
    scratch: Path | None = option(
        None,
        "",
        cli=False,
        decides="nothing",
        machine=True,
    )
    """Folder for scratch files of readers; None: the system's."""

    def __post_init__(self) -> None:
        # bring values to one form; a frozen dataclass has no other way to set its fields
        object.__setattr__(self, "meta", columns(self.meta))
        object.__setattr__(self, "na", values_listed(self.na))
        if self.tei_elements is not None:
            object.__setattr__(self, "tei_elements", join_element_names(self.tei_elements) or None)
        if not self.id_field:
            object.__setattr__(self, "id_field", None)
        if self.patches and self.format is None:
            object.__setattr__(self, "format", "images")
        object.__setattr__(self, "format", ALIASES.get(self.format or "", self.format))

    def non_defaults(self) -> dict[str, Any]:
        """Return the options that are not their defaults."""
        fresh = ReadOptions()
        values = {f.name: getattr(self, f.name) for f in fields(ReadOptions)}
        return {name: v for name, v in values.items() if v != getattr(fresh, name)}

    @property
    def record_bytes(self) -> int:
        """Return the bytes of the longest record that is accepted."""
        return parse_bytes(self.max_document)

    @property
    def strict(self) -> bool:
        """Return True under ``--on-error fail``."""
        return self.on_error == "fail"

    @property
    def id_wanted(self) -> bool:
        """Tell whether every record must have the id field."""
        return self.id_field is not None and "id_field" not in self.recalled

    @property
    def meta_wanted(self) -> list[str]:
        """Return the fields of metadata that the user named."""
        return [name for column, name in self.meta.items() if column not in self.recalled_columns]

    @property
    def transpose_requested(self) -> bool:
        """Tell whether ``--transpose`` was given for this input, not recalled from an earlier one.

        Formats that say which side the documents are on heed only the former.
        """
        return self.transpose and "transpose" not in self.recalled

    def id_column(self, names: Collection[str]) -> str | None:
        """Return the column of a table that holds the ids, or None.

        A field that the user named is returned even if it is missing, which the reader reports.
        """
        if self.id_field is not None and (self.id_wanted or self.id_field in names):
            return self.id_field
        return "id" if "id" in names else None

    def reading_values(self) -> dict[str, Any]:
        """Return the options that decide what is read, as plain values."""
        names = names_tagged(ReadOptions, "decides", "reading")
        values = {name: getattr(self, name) for name in names}
        return values | {
            "text_field": self.text_field or "text",
            "words": self.words and str(self.words),
            "meta": dict(self.meta),
            "na": list(self.na),
        }

    def remembered(self) -> dict[str, Json]:
        """Return the options that a store remembers, to read more of the same input alike."""
        names = names_tagged(ReadOptions, "recalled")
        return {name: v for name, v in self.non_defaults().items() if name in names}

    def recall(self, stored: object, *kinds: str) -> Self:
        """Fill in options of an earlier input that were not given for this one.

        Parameters
        ----------
        stored
            ``remembered`` of the earlier input, from a manifest. Values of another type are left
            out.
        kinds
            Groups of options: ``FIELDS``, ``LAYOUT``, ``META``, ``CUT``, ``OF_FILES``. Of ``META``
            the columns are filled in that were not given.
        """
        if not isinstance(stored, dict):
            return self
        names = names_tagged(ReadOptions, "recalled", *kinds) if kinds else ()
        own_values = self.non_defaults()
        types = field_types(ReadOptions)
        values: dict[str, Any] = {}
        for name in names:
            if name in stored and name not in own_values and fits(stored[name], types[name]):
                values[name] = stored[name]
        earlier = remembered_meta(stored) if META in kinds else {}
        columns_recalled = tuple(column for column in earlier if column not in self.meta)
        return replace(
            self,
            **values | {"meta": earlier | dict(self.meta)},
            recalled=tuple(values),
            recalled_columns=columns_recalled,
        )

    def fit(self, names: Collection[str]) -> Self:
        """Name the fields as an input does, without recalled columns that it does not have.

        Letters may be composed or not. A field that the user named stays, so that its absence is
        an error.
        """
        options = self.spelled_as(names)
        recalled = [column for column in options.recalled_columns if column in options.meta]
        absent = [column for column in recalled if options.meta[column] not in names]
        if not absent:
            return options
        meta = {c: name for c, name in options.meta.items() if c not in absent}
        return replace(options, meta=meta)

    def spelled_as(self, names: Collection[str]) -> Self:
        """Write the names of fields with composed or decomposed letters, as an input does."""
        fields_read = [*self.text_fields, *self.meta.values(), self.id_field or "id"]
        if all(name.isascii() or name in names for name in fields_read):
            return self
        spellings = {compose_text(name): name for name in map(str, names)}

        def spell(name: str) -> str:
            """Spell a name as the input does, if it has the field."""
            return name if name in names else spellings.get(compose_text(name), name)

        return replace(
            self,
            text_field=self.text_field and ",".join(map(spell, self.text_fields)),
            id_field=self.id_field and spell(self.id_field),
            meta={column: spell(name) for column, name in self.meta.items()},
        )

    @property
    def text_fields(self) -> list[str]:
        """Return the names of the text fields, in the order in which they are joined."""
        return [name.strip() for name in (self.text_field or "text").split(",")]


def remembered_meta(stored: object) -> dict[str, str]:
    """Return the fields by column in a result of ``ReadOptions.remembered``.

    They are {} for anything else, which a damaged manifest may contain.
    """
    meta = stored.get("meta") if isinstance(stored, dict) else None
    return meta if isinstance(meta, dict) and fits(meta, Mapping[str, str]) else {}
