"""Topics keep their identity from version to version: ids that stay with a topic however it moves about.

A topic of the new model inherits the id of the old topic that the assignment of least total l1 distance gives it, when
the two are nearer than ``far``; else it is *born* with a new id.  An old topic that hands its id to none has *died*.
A born topic has *split* from the old one nearest to it, and a dead topic has *merged* into the new one nearest to it,
where those are nearer than ``far``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from topicstream.errors import StoreError
from topicstream.evaluation.matching import l1_distances
from topicstream.files.durable import read_json, write_json
from topicstream.model.identity import IDS, topic_ids
from topicstream.model.topic_model import TopicModel


def read_ids(model: str | Path, topics: int) -> tuple[list[int], int]:
    """Stable ids of a model's topics and the next free one; 0..K-1 for a model without any."""
    path = Path(model) / IDS
    if not path.exists():
        return list(range(topics)), topics
    ids, value = topic_ids(model, topics), read_json(path)
    if not isinstance(value.get("next"), int) or value["next"] <= max(ids):
        raise StoreError(f"{path}: does not say which number is the next topic's; restore the file")
    return ids, int(value["next"])


def first_ids(topics: int) -> dict[str, Any]:
    """The record of a model that has no predecessor."""
    ids = list(range(topics))
    return {
        "ids": ids,
        "next": topics,
        "kept": [],
        "born": ids,
        "died": [],
        "split": [],
        "merged": [],
        "distance": None,
    }


def align(old: TopicModel, new: TopicModel, ids: list[int], following: int, far: float) -> dict[str, Any]:
    """The record of the new model: ``ids`` (one a topic), ``next`` free one, ``kept``, ``born``, ``died`` (ids), ``split``
    ([parent, born] ids), ``merged`` ([died, survivor] ids) and the mean l1 ``distance`` of the kept ones."""
    distances = l1_distances(old, new)
    rows, columns = linear_sum_assignment(distances)
    near = distances[rows, columns] < far
    given = [-1] * new.n_topics
    for i, j in zip(rows[near].tolist(), columns[near].tolist(), strict=True):
        given[j] = ids[i]
    born, split = [], []
    for j in range(new.n_topics):
        if given[j] < 0:
            given[j] = following
            born.append(following)
            parent = int(np.argmin(distances[:, j]))
            if distances[parent, j] < far:
                split.append([ids[parent], following])
            following += 1
    kept = sorted(set(ids) & set(given))
    merged = []
    died = [i for i in range(old.n_topics) if ids[i] not in set(kept)]
    for i in died:
        survivor = int(np.argmin(distances[i]))
        if distances[i, survivor] < far:
            merged.append([ids[i], given[survivor]])
    mean = float(distances[rows, columns][near].mean()) if near.any() else None
    return {
        "ids": given, "next": following, "kept": kept, "born": born, "died": [ids[i] for i in died],
        "split": split, "merged": merged, "distance": mean,
    }  # fmt: skip


def write_ids(folder: Path, record: dict[str, Any]) -> None:
    """Into a model's folder."""
    write_json(folder / IDS, record)
