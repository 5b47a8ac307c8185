"""The manifest of a model, and the ids that stay with topics between versions.

``manifest.json`` is described in docs/internals/formats.md. ``topics retrain`` writes the ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from topicstream.base.errors import InputError, StoreError
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.records import (
    Amount,
    Count,
    Crc,
    Json,
    Record,
    Share,
    decode_record,
    plain,
    read_record,
    write_record,
)
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.model.covariate_entries import CovariatesEntry
from topicstream.model.seeds import SeedEntry, constants_of
from topicstream.model.weighting import Weighting
from topicstream.numeric.kernels.constants import Constants

IDS = "topics.json"
EDITS = "edits.jsonl"


class TopicIds(Record):
    """The topics of a version beside those of the version before.

    Attributes
    ----------
    ids
        Stable id of each topic, by column.
    next
        The first free id.
    kept, born, died
        Ids of topics of both versions, of the new one only, and of the old one only.
    split
        Pairs of a parent and the topic born from it.
    merged
        Pairs of a topic that died and the one that it went into.
    distance
        Mean l1 distance of the kept topics, None without any.
    """

    ids: list[Count]
    next: Count
    kept: list[Count] = []
    born: list[Count] = []
    died: list[Count] = []
    split: list[tuple[Count, Count]] = []
    merged: list[tuple[Count, Count]] = []
    distance: float | None = None

    def __post_init__(self) -> None:
        if len(set(self.ids)) < len(self.ids) or self.next <= max(self.ids, default=-1):
            raise ValueError("ids are not different numbers below next")


def number_topics(topics: int) -> TopicIds:
    """Assign numbers to the topics of a model without a predecessor."""
    ids = list(range(topics))
    return TopicIds(ids=ids, next=topics, born=ids)


def read_ids(model: str | Path | None, topics: int) -> TopicIds:
    """Read the ids of a model's topics.

    Parameters
    ----------
    model
        Folder of the model. None for a model in memory.
    topics
        Number of topics of the model.

    Raises
    ------
    StoreError
        The file does not have one id for each topic.
    """
    path = Path(model or "") / IDS
    if model is None or not path.exists():
        return number_topics(topics)
    ids = read_record(path, TopicIds)
    if len(ids.ids) != topics:
        raise StoreError(f"{path}: does not list {topics} different topics; restore the file")
    return ids


def write_ids(model: str | Path, ids: list[int]) -> None:
    """Record the ids of the topics of a model that was saved again.

    A model whose topics are numbered by column has no such file. A file of a model that was saved
    there before is overwritten.
    """
    path = Path(model) / IDS
    if ids == list(range(len(ids))) and not path.exists():
        return
    if path.exists() and read_record(path, TopicIds).ids == ids:
        return
    write_record(path, TopicIds(ids=ids, next=max(ids) + 1))


SCHEMA = 1
"""Version of the format."""
TOPICS = ("topics", "topics-2")
VOCABS = ("vocab.parquet", "vocab-2.parquet")
TableName = Annotated[str, msgspec.Meta(pattern="^[a-z]{1,20}$")]
Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Positive = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


def alternating_names(name: str, suffix: str = "") -> tuple[str, str]:
    """Return the two names that a file or folder of a model takes in turn.

    A save writes beside the one in use.
    """
    return f"{name}{suffix}", f"{name}-2{suffix}"


class FileEntry(Record):
    """A file, or an array by its ``zarr.json``, with its checksum."""

    name: str
    crc32c: Crc


class ModelFiles(Record):
    """The topics' array and the vocabulary."""

    topics: FileEntry
    vocab: FileEntry

    def __post_init__(self) -> None:
        if self.topics.name not in TOPICS or self.vocab.name not in VOCABS:
            raise ValueError(f"names {self.topics.name!r} and {self.vocab.name!r}")


class TableEntry(Record):
    """A table beside the topics: its array, the axis of its rows, and the file of their names."""

    name: str
    crc32c: Crc
    rows: Size
    columns: Size
    axis: str
    names: FileEntry | None


class TrainedOn(Record):
    """The corpus as it was when the model was trained."""

    fingerprint: str | None = None
    generation: Count | None = 1
    docs: Count | None = None
    cells: Count | None = None
    tokens: Amount | None = None


class Origin(Record, omit_defaults=True):
    """The origin of a model: everything that a model in memory knows beside its numbers.

    Attributes
    ----------
    topic_names
        ``labels`` in the file: name by topic (column, as text).
    label_docs
        Training documents of each label, for the last topics.
    sample
        Share of the training documents that it learned from.
    covariates
        What alpha of each document depends on; the table ``lambda`` holds the coefficients.
    """

    engine: str | None = None
    cites: str | None = None
    created: str | None = None
    options: dict[str, Any] = {}
    seed: int | str | None = None
    start: str | None = None
    layout: dict[str, Count] = {}
    versions: dict[str, str] = {}
    corpus: TrainedOn = TrainedOn()
    tokenizer: dict[str, Any] | None = None
    reading: dict[str, Any] | None = None
    passes: Count | None = None
    stopped: str | None = None
    vectors: Count | None = None
    patches: Count | None = None
    topic_names: dict[str, str] = msgspec.field(default_factory=dict, name="labels")
    label_docs: list[Count] | None = None
    weighting: Weighting | None = None
    seed_words: list[SeedEntry] | None = None
    sample: Share | None = None
    covariates: CovariatesEntry | None = None
    imported: dict[str, Any] | None = None
    tables: dict[TableName, TableEntry] = {}

    @property
    def width(self) -> int:
        """Return the numbers of a dense row (``vectors`` in the file), 0 for documents."""
        return self.vectors or 0

    def seed_counts(self, vocabulary: Vocabulary, columns: int) -> Constants | None:
        """Return the pseudo-counts of seed words over padded topics, None without seed words."""
        return constants_of(self.seed_words, vocabulary, columns)


class ModelManifest(Origin, kw_only=True):
    """The manifest of a stored model."""

    schema: Literal[1]
    kind: Literal["model"]
    words: Positive
    topics: Positive
    alpha: float | list[float]
    alpha_sum: float | None = None
    beta: float
    vocab_sha256: str
    files: ModelFiles

    def __post_init__(self) -> None:
        if isinstance(self.alpha, list) and len(self.alpha) != self.topics:
            raise ValueError(f"alpha has {len(self.alpha)} numbers for {self.topics} topics")
        for name, table in self.tables.items():
            is_named = table.name in alternating_names(f"table-{name}")
            if table.names is not None:
                names = alternating_names(f"names-{name}", ".parquet")
                is_named = is_named and table.names.name in names
            if not is_named:
                raise ValueError(f"table {name}: is not in a file of that name")
        numbers = [entry.topic for entry in self.seed_words or ()]
        if len(set(numbers)) < len(numbers) or max(numbers, default=0) >= self.topics:
            raise ValueError(f"seed_words: not of different topics below {self.topics}")


def read_manifest(folder: str | Path) -> ModelManifest:
    """Read the manifest of a model folder.

    Raises
    ------
    StoreError
        There is none, or it is of another kind or version.
    """
    path = Path(folder) / "manifest.json"
    if not path.exists():
        raise StoreError(
            unfinished_run(Path(folder))
            or f"{folder}: no model here (no manifest.json); create one with `topics train "
            f"--model {folder}`"
        )
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != "model":
        raise StoreError(
            f"{path}: not the manifest of a model; name a folder that `topics train` made"
        )
    if value.get("schema") != SCHEMA:
        raise StoreError(
            f"{folder}: model has schema {value.get('schema')}, this version reads {SCHEMA}; "
            f"train again"
        )
    return decode_record({k: v for k, v in value.items() if v is not None}, ModelManifest, path)


def unfinished_run(folder: Path) -> str:
    """Describe an unfinished training run in a folder and how to continue it, else ""."""
    if not (folder / "training.json").is_file():
        return ""
    checkpoints = sorted(path.name for path in folder.glob("checkpoints/[0-9]*-[0-9]*"))
    state = "it has no checkpoint yet"
    effect = "starts it again"
    if checkpoints:
        state = f"its last checkpoint holds {int(checkpoints[-1].split('-')[0])} passes"
        effect = "continues it"
    return (
        f"{folder}: no model yet, but a training run that is not finished ({state}); the same "
        f"`topics train` command {effect}, with --force another one replaces it"
    )


def write_manifest(folder: Path, manifest: ModelManifest) -> None:
    """Replace the manifest of a model folder in one rename."""
    write_json(folder / "manifest.json", manifest_json(manifest))


def manifest_json(manifest: ModelManifest) -> dict[str, Json]:
    """Convert a manifest to plain values.

    Empty members are left out, except options and tokenizer.
    """
    return {"options": {}, "tokenizer": None, **plain(manifest)}


def as_origin(values: Mapping[str, Any]) -> Origin:
    """Build a model's origin from plain values or records.

    Unknown values and those that are None are left out.

    Raises
    ------
    InputError
        If a value is invalid.
    """
    present = {k: plain(v) for k, v in values.items() if v is not None}
    return decode_record(present, Origin, "manifest", "Leave it out or correct it", InputError)


def origin_of(manifest: Origin, **changes: Any) -> Origin:
    """Copy the origin from a manifest, with changes."""
    fields = {name: getattr(manifest, name) for name in Origin.__struct_fields__}
    return Origin(**(fields | changes))
