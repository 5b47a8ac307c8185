"""What the folder of ``topics retrain`` remembers: ``state.json`` between cycles, ``journal.json``
of the cycle at work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from topicstream.base.records import Count, Record, read_record
from topicstream.model.manifest import TopicIds

STATE = "state.json"
JOURNAL = "journal.json"
Decision = Literal["nothing", "update", "full"]


class RawFile(Record):
    """A raw file that was read."""

    size: int
    mtime_ns: int
    sha256: str


class Refused(Record):
    """The corpus (its fingerprint) whose model the gate refused, and why."""

    corpus: str | None = ""
    why: list[str] = []


class Failing(Record):
    """A raw file that could not be taken in.

    Attributes
    ----------
    size, mtime_ns
        As they were then; 0 of a file that could not even be opened.
    times
        How many runs it has failed.
    why
        The reason of the last.
    reading
        What it was read with: a digest of the options and the program.
    """

    size: int
    mtime_ns: int
    times: Count
    why: str
    reading: str = ""


class RetrainState(Record):
    """``state.json``: raw files by their path below ``raw``, the last version, ISO dates of the
    last model that was published (last_trained) and of the last full training that was begun
    (last_tried); the version that a rollback holds; files that failed; the format that files were
    read as, where the configuration names none.
    """

    schema: int = 1
    files: dict[str, RawFile] = {}
    version: Count = 0
    last_trained: str | None = None
    last_tried: str | None = None
    refused: Refused | None = None
    held: Count | None = None
    failing: dict[str, Failing] = {}
    format: str | None = None


class Group(Record):
    """A folder of ``incoming`` and the rule for documents whose ids are known.

    base, docs_before: fingerprint and documents of the corpus before the ingest, once that has
    begun; added: documents, once it is finished.
    """

    name: Annotated[str, Meta(pattern=r"^(new|changed)(\.[1-9][0-9]{0,3})?$")]
    rule: str
    base: str | None = None
    docs_before: Count | None = None
    added: Count | None = None

    def __post_init__(self) -> None:
        if self.docs_before is None and (self.base, self.added) != (None, None):
            raise ValueError("has no docs_before")


class CycleJournal(Record, kw_only=True):
    """``journal.json``: the step that a cycle is at, and what the steps need.

    base: the version that is published, None without one; version: the number of the next;
    settings: digest of those that the training began with; ids: of the new model's topics, once the
    gate has passed it; format: of the files, where they are of one.
    """

    schema: int = 1
    stage: Literal["append", "train", "gate", "publish", "end"]
    began: str
    decision: Decision
    files: dict[str, RawFile]
    groups: list[Group]
    base: Count | None
    version: Count
    summary: dict[str, Any]
    settings: str | None = None
    ids: TopicIds | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if self.stage == "publish" and self.ids is None:
            raise ValueError("has no ids")


def read_retrain_state(folder: Path) -> RetrainState:
    """What the last cycle left; StoreError where the file does not say what one needs."""
    path = folder / STATE
    return (
        read_record(path, RetrainState, "Restore it, or remove it to ingest all files again")
        if path.exists()
        else RetrainState()
    )


def read_journal(folder: Path) -> CycleJournal | None:
    """The cycle at work, None without one; StoreError where the file does not say what one
    needs.
    """
    path = folder / JOURNAL
    return (
        read_record(path, CycleJournal, "Remove it, and the next run looks at all files again")
        if path.exists()
        else None
    )
