"""Numbers that stay with a topic from one version of a model to the next (written by ``topics retrain``)."""

from __future__ import annotations

from pathlib import Path

from topicstream.errors import StoreError
from topicstream.files.durable import read_json
from topicstream.model.arrays import UNFIT

IDS = "topics.json"


def topic_ids(model: str | Path | None, topics: int) -> list[int]:
    """The stable id of each of a model's topics, by column; 0..K-1 for a model without predecessors or in memory."""
    path = Path(model) / IDS if model is not None else None
    if path is None or not path.exists():
        return list(range(topics))
    value = read_json(path)
    try:
        ids = [int(i) for i in value["ids"]]
    except UNFIT:
        ids = []
    if len(ids) != topics or len(set(ids)) != topics or min(ids) < 0:
        raise StoreError(f"{path}: does not list {topics} different topics; restore the file")
    return ids
