"""Records of ``topics retrain``: ``state.json`` between cycles, ``journal.json`` of a cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from topicstream.base.records import Count, Record, read_record, write_record
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
    """The fingerprint of the corpus whose model the gate refused, and the reasons."""

    corpus: str | None = ""
    why: list[str] = []


class Failing(Record):
    """A raw file that failed.

    Attributes
    ----------
    size, mtime_ns
        Its size and mtime then; 0 if it could not even be opened.
    times
        Number of failed runs.
    why
        Reason of the last failure.
    reading
        Hash of the options and the program that read it.
    """

    size: int
    mtime_ns: int
    times: Count
    why: str
    reading: str = ""


class RetrainState(Record):
    """``state.json``, the state between cycles.

    Attributes
    ----------
    files
        Known raw files by their path below ``raw``.
    version
        Number of the last version.
    last_trained, last_tried
        ISO dates of the last published model, and of the last full training that was begun.
    refused
        The last refusal of the gate, until a model is published.
    held
        The version that a rollback holds.
    failing
        Raw files that failed.
    format
        The format that files were read as, if the configuration names none.
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
    """A folder of ``incoming``.

    Attributes
    ----------
    name
        Its name.
    rule
        ``--on-duplicate`` of its ingest.
    base, docs_before
        Fingerprint and documents of the corpus before the ingest, once that has begun.
    added
        Documents that it added, once it is finished.
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
    """``journal.json``: the step of a cycle, and the data of the steps.

    Attributes
    ----------
    stage
        The step.
    began
        Date of the cycle's begin.
    decision
        The decision.
    files
        Raw files of the cycle by their path below ``raw``.
    groups
        Folders of copies.
    base, version
        Numbers of the published version, if there is one, and of the next.
    summary
        The summary so far.
    settings
        Hash of the settings that the training began with.
    ids
        Ids of the new model's topics, once the gate has passed it.
    format
        Format of the files, if they all have the same.
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
    """Read the state after the last cycle, or raise StoreError if its file is damaged."""
    path = folder / STATE
    if not path.exists():
        return RetrainState()
    return read_record(path, RetrainState, "Restore it, or remove it to ingest all files again")


class StateFile:
    """``state.json`` of a folder of ``topics retrain``, written anew at every change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.state = RetrainState()

    def read(self) -> None:
        """Read the file, or raise StoreError if it is damaged."""
        self.state = read_retrain_state(self._folder)

    def change(self, **facts: Any) -> None:
        """Change facts of the state, in the file too."""
        self.state = structs.replace(self.state, **facts)
        write_record(self._folder / STATE, self.state)


def read_journal(folder: Path) -> CycleJournal | None:
    """Read the journal of the cycle at work, if there is one.

    Raises
    ------
    StoreError
        If the file is damaged.
    """
    path = folder / JOURNAL
    if not path.exists():
        return None
    return read_record(path, CycleJournal, "Remove it, and the next run looks at all files again")
