"""Types of a store's ``manifest.json`` (docs/internals/formats.md).

It lists all blocks, files and sizes that our readers go by. Stock zarr reads its own metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from topicstream.base.errors import StoreError
from topicstream.base.files.durable import file_problem, read_json, size_and_crc, write_json
from topicstream.base.files.openings import explain_damage
from topicstream.base.records import Amount, Count, Crc, Record, decode_record, plain
from topicstream.base.text import compose_text, payload_of
from topicstream.corpus.format import CELLS, DOCS, KINDS, LIST_COLUMNS, PARTS

SCHEMA = 1
Chunk = tuple[Annotated[int, msgspec.Meta(ge=20, le=1 << 30)], Crc]
"""Size and crc32c of a chunk file."""
Tokens = Count | Amount
"""A number of tokens: whole for counts, real for weights."""
Ids = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Kind = Annotated[str, msgspec.Meta(pattern="^[a-z]{1,20}$")]


class StoreFile(Record):
    """A file of a store, by its place in it."""

    file: Annotated[
        str, msgspec.Meta(pattern=r"^(docs/|axes/|texts/)?[a-z]+(-[0-9]{4,12})?\.[a-z]+$")
    ]
    size: Count
    crc32c: Crc

    def problem(self, store: Path) -> str | None:
        """Describe the damage of the file in a sentence, or return None."""
        return file_problem(store / self.file, self.size, self.crc32c)

    def verified(self, store: Path) -> Path:
        """Return the path of the file after checking it.

        Raises
        ------
        StoreError
            If it is missing or damaged.
        """
        problem = self.problem(store)
        if problem is not None:
            raise explain_damage(problem)
        return store / self.file


class TextFile(StoreFile):
    """A file of texts, of so many rows."""

    rows: Count


def store_file(folder: Path, name: str) -> StoreFile:
    """Make the manifest's entry of an existing file."""
    size, crc = size_and_crc(folder / name)
    return StoreFile(file=name, size=size, crc32c=crc)


class Totals(Record):
    """Totals of some documents of a block, such as the removed ones, which keep their rows."""

    docs: Count = 0
    cells: Count = 0
    tokens: Tokens = 0


class CutEntry(Record):
    """A storage block cut into engine blocks.

    Attributes
    ----------
    cells, docs
        Cells and documents of an engine block, at most.
    blocks
        Documents, cells and tokens of each engine block.
    words
        Distinct words of the engine block that has most.
    """

    cells: Count
    docs: Count
    blocks: list[tuple[Count, Count, Tokens]]
    words: Count


class BlockEntry(Record, omit_defaults=True):
    """A storage block: its rows of the arrays, contents and chunk files.

    Attributes
    ----------
    rows
        First row, and the row past the last.
    docs, cells, tokens
        Contents of the block as it was written.
    files
        Size and checksum of its chunk files, by array.
    removed
        Contents of the documents that were removed since.
    changed
        The generation that last removed documents.
    cuts, longest
        The engine blocks of ``format.CUTS``, and the cells of the longest document, both of the
        block as it was written. Blocks of dense rows have none, and are read for them.
    """

    rows: tuple[Count, Count]
    docs: Count
    cells: Count
    tokens: Tokens
    files: dict[Kind, list[Chunk]]
    removed: Totals = Totals()
    changed: Count | None = None
    cuts: list[CutEntry] = []
    longest: Count = 0

    def __post_init__(self) -> None:
        rows = self.rows[1] - self.rows[0]
        if rows < 1 or any(len(self.files.get(kind, ())) != rows for kind in KINDS):
            raise ValueError(f"block of rows {list(self.rows)}: not as many chunks")
        if self.docs > rows * DOCS or self.cells > rows * CELLS:
            raise ValueError(
                f"block of rows {list(self.rows)}: more documents or cells than it has room for"
            )
        for cut in self.cuts:
            docs = sum(of_block[0] for of_block in cut.blocks)
            cells = sum(of_block[1] for of_block in cut.blocks)
            if (docs, cells) != (self.docs, self.cells):
                raise ValueError(f"block of rows {list(self.rows)}: its cuts are not whole")

    @property
    def remaining(self) -> Totals:
        """Documents, cells and tokens without those of removed documents."""
        return Totals(
            docs=self.docs - self.removed.docs,
            cells=self.cells - self.removed.cells,
            tokens=self.tokens - self.removed.tokens,
        )

    @property
    def lengths_crc(self) -> int:
        """Checksum of the documents' lengths, by which an axis names the block."""
        return self.files["lengths"][0][1]


class PartEntry(Record, omit_defaults=True):
    """The training or the held-out part.

    Attributes
    ----------
    blocks
        Its storage blocks.
    docs
        Rows of documents, those of removed ones included.
    cells, tokens
        Contents without removed documents.
    rows
        Rows of its arrays.
    bytes
        Bytes of its chunk files.
    folder
        Its folder, if another than its name.
    """

    blocks: list[BlockEntry]
    docs: Count
    cells: Count
    tokens: Tokens
    rows: Count
    bytes: Count
    folder: Annotated[str, msgspec.Meta(pattern=r"^(train|heldout)(-[1-9]\d{0,8})?$")] | None = None

    def __post_init__(self) -> None:
        firsts = [0, *(b.rows[1] for b in self.blocks)]
        if [b.rows[0] for b in self.blocks] != firsts[:-1] or firsts[-1] != self.rows:
            raise ValueError("the blocks do not follow one another")
        docs = sum(b.docs for b in self.blocks)
        cells = sum(b.remaining.cells for b in self.blocks)
        if (docs, cells) != (self.docs, self.cells):
            raise ValueError("documents or cells are not those of the blocks")


def block_edges(blocks: Sequence[BlockEntry]) -> np.ndarray:
    """Return the first document of each block, and the number of all, int64[blocks + 1]."""
    return np.cumsum([0, *(block.docs for block in blocks)], dtype=np.int64)


def part_of(blocks: Sequence[BlockEntry], folder: str | None = None) -> PartEntry:
    """Make the entry of a part from its blocks."""
    size = 0
    for block in blocks:
        for kind in KINDS:
            size += sum(bytes_of_chunk for bytes_of_chunk, _ in block.files[kind])
    return PartEntry(
        blocks=list(blocks),
        docs=sum(b.docs for b in blocks),
        cells=sum(b.remaining.cells for b in blocks),
        tokens=sum(b.remaining.tokens for b in blocks),
        rows=blocks[-1].rows[1] if blocks else 0,
        bytes=size,
        folder=folder,
    )


class AxisBlock(Record):
    """The lists of an axis for one storage block.

    Attributes
    ----------
    rows
        First row of the axis' arrays, and the row past the last.
    entries, longest
        Ids of all documents, and of the one that has most.
    block_crc
        ``lengths_crc`` of the storage block; in the file the member ``of``.
    files
        Size and checksum of the chunk files, by array.
    """

    rows: tuple[Count, Count]
    entries: Count
    longest: Count
    block_crc: Crc = msgspec.field(name="of")
    files: dict[Kind, list[Chunk]]

    def __post_init__(self) -> None:
        rows = self.rows[1] - self.rows[0]
        has_chunks = all(len(self.files.get(kind, ())) == rows for kind in ("lengths", "ids"))
        if not has_chunks or self.entries > rows * CELLS:
            raise ValueError(f"block of rows {list(self.rows)}: not as many chunks")


class AxisPart(Record):
    """The blocks of an axis in one part."""

    blocks: list[AxisBlock]
    rows: Count
    entries: Count


class AxisEntry(Record, omit_defaults=True):
    """An axis.

    Attributes
    ----------
    folder
        Folder of its arrays.
    size
        Number of ids, which are 0 to size - 1.
    parts
        Its blocks by part.
    removed_docs
        Length of the list of removed documents when the axis was built, which has none of them; in
        the file the member ``gone``.
    names
        The file of the names, of ``NAMED`` columns.
    figures
        Counts of the input's links (``Axis.figures``).
    fingerprint
        Fingerprint of the store in which links were looked up.
    """

    folder: Annotated[
        str, msgspec.Meta(pattern=rf"^axes/({'|'.join(LIST_COLUMNS)})(-[0-9]{{4,10}})?$")
    ]
    size: Ids
    parts: dict[str, AxisPart]
    removed_docs: Count = msgspec.field(name="gone")
    names: StoreFile | None = None
    figures: dict[str, Count] = {}
    fingerprint: str | None = None


class HeldoutRule(Record, omit_defaults=True):
    """The rule by which documents are set aside.

    Attributes
    ----------
    text
        The user's option; in the file the member ``asked``.
    threshold
        Documents with a hash below it are set aside.
    where
        Field and value that decide instead of the hash.
    by
        Field whose hash decides instead of the id's.
    """

    text: str = msgspec.field(name="asked")
    threshold: Annotated[str, msgspec.Meta(pattern="^0x[0-9a-f]{16}$")]
    where: tuple[str, str] | None = None
    by: str | None = None


class Sources(Record):
    """The inputs: how many, and the names of the first."""

    count: Count
    first: list[str]


class StoreManifest(Record, omit_defaults=True, kw_only=True):
    """The manifest of a store.

    Attributes
    ----------
    generation
        1 after the ingest, one more after each change.
    n_words
        Words of the vocabulary.
    width
        Numbers of a dense row, or 0 in a store of documents; in the file the member ``vectors``.
    vocabulary
        Hash of the words, and how they were chosen.
    docs, texts
        Files of the table of documents; those of their texts, a row for each document (None: the
        store keeps no texts).
    columns
        Kind of each column of metadata, ``list`` or ``string``, by name.
    summary
        Figures of the ingest.
    reading
        Options of reading that appends repeat. ``has_parts`` among them: an append cut its
        documents into parts.
    ids
        ``integer`` if all ids of the input were whole numbers.
    compacted
        Generation of the last compaction.
    same_as
        Fingerprints of the stores that were compacted to this one.
    """

    schema: Literal[1]
    kind: Literal["corpus"]
    created_with: dict[str, str]
    generation: Count
    weighted: bool
    n_words: Ids
    fingerprint: str
    parts: dict[str, PartEntry]
    axes: dict[str, AxisEntry] = {}
    heldout: HeldoutRule
    tokenizer: dict[str, Any] | None
    tokenizer_hash: str | None
    vocabulary: dict[str, Any]
    files: dict[Kind, StoreFile]
    docs: list[StoreFile]
    texts: list[TextFile] | None = None
    columns: dict[str, Literal["list", "string"]]
    sources: Sources
    summary: dict[str, Any]
    reading: dict[str, Any] | None = None
    ids: str | None = None
    width: Ids = msgspec.field(default=0, name="vectors")
    patches: Count | None = None
    compacted: Count = 0
    same_as: list[str] | None = None

    def __post_init__(self) -> None:
        if set(self.parts) != set(PARTS):
            raise ValueError(f"parts: {', '.join(self.parts)}")
        if self.width not in (0, self.n_words):
            raise ValueError(f"{payload_of(self.width)}, {self.n_words} words")
        if "vocab" not in self.files or not isinstance(self.vocabulary.get("hash"), str):
            raise ValueError("has no vocabulary")
        composed = {compose_text(name): kind for name, kind in self.columns.items()}
        force_setattr(self, "columns", composed)

    @property
    def single_files(self) -> list[StoreFile]:
        """List the files of the store that belong to no block or axis."""
        return [*self.files.values(), *self.docs, *(self.texts or [])]

    @property
    def has_parts(self) -> bool:
        """Tell if some of the documents are parts of longer ones (``--split``)."""
        reading = self.reading or {}
        return bool(reading.get("split") or reading.get("has_parts"))

    @classmethod
    def read(cls, folder: Path) -> StoreManifest:
        """Read the manifest of a store.

        Raises
        ------
        StoreError
            If there is none, or if it is of another kind or version.
        """
        path = folder / "manifest.json"
        if not path.exists():
            raise StoreError(
                f"{folder}: no corpus store here (no manifest.json); create one with "
                f"`topics ingest {'' if folder.exists() else 'PATH --out '}{folder}`"
            )
        value = read_json(path)
        if not isinstance(value, dict) or value.get("kind") != "corpus":
            raise StoreError(
                f"{path}: not a corpus manifest; name a store that `topics ingest` made"
            )
        if value.get("schema") != SCHEMA:
            raise StoreError(
                f"{folder}: store has schema {value.get('schema')}, this version reads "
                f"{SCHEMA}; ingest again"
            )
        manifest = decode_record(value, cls, path)
        rows = sum(entry.docs for entry in manifest.parts.values())
        texts = None if manifest.texts is None else sum(entry.rows for entry in manifest.texts)
        if texts not in (None, rows):
            raise StoreError(f"{path}: {rows} documents, but {texts} texts; restore the file")
        return manifest

    def write(self, folder: Path) -> None:
        """Replace the manifest of a store in one rename."""
        write_json(folder / "manifest.json", {"axes": {}, **plain(self)})


def part_folder(entry: PartEntry, part: str) -> str:
    """Return the folder of a part: ``train``, or ``train-2`` after a compaction."""
    return entry.folder or part
