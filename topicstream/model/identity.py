"""Numbers that stay with a topic from one version of a model to the next (written by ``topics
retrain``).
"""

from __future__ import annotations

from pathlib import Path

from topicstream.errors import StoreError
from topicstream.records import Count, Record, read_record, write_record

IDS = "topics.json"


class TopicIds(Record):
    """The topics of a version beside those of the version before.

    ids: the stable id of each topic, by column; next: the first id that is free; kept, born, died:
    ids; split: pairs of a parent and the topic born from it; merged: pairs of a topic that died and
    the one that it went into; distance: mean l1 distance of the kept topics, None without any."""

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


def first_ids(topics: int) -> TopicIds:
    """Those of a model without a predecessor."""
    ids = list(range(topics))
    return TopicIds(ids=ids, next=topics, born=ids)


def read_ids(model: str | Path | None, topics: int) -> TopicIds:
    """The ids of a model's topics; StoreError where its file does not have one for each.

    Parameters
    ----------
    model
        Its folder; None for a model in memory.
    topics
        How many it has.
    """
    path = Path(model or "") / IDS
    if model is None or not path.exists():
        return first_ids(topics)
    ids = read_record(path, TopicIds)
    if len(ids.ids) != topics:
        raise StoreError(f"{path}: does not list {topics} different topics; restore the file")
    return ids


def write_ids(model: str | Path, ids: list[int]) -> None:
    """Record the ids of the topics of a model that was saved again.

    A model whose topics are numbered by column has no such file; one that is left of a model that
    was saved there before is overwritten.
    """
    path = Path(model) / IDS
    if ids == list(range(len(ids))) and not path.exists():
        return
    if path.exists() and read_record(path, TopicIds).ids == ids:
        return
    write_record(path, TopicIds(ids=ids, next=max(ids) + 1))
