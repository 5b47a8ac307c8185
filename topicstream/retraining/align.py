"""Topics keep their identity from version to version: ids that stay with a topic however it moves about.

A topic of the new model inherits the id of the old topic that the assignment of least total l1 distance gives it, when
the two are nearer than ``far``; else it is *born* with a new id.  An old topic that hands its id to none has *died*.
A born topic has *split* from the old one nearest to it, and a dead topic has *merged* into the new one nearest to it,
where those are nearer than ``far``.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from topicstream.evaluation.matching import l1_distances
from topicstream.model.identity import TopicIds
from topicstream.model.topic_model import TopicModel


def align(old: TopicModel, new: TopicModel, before: TopicIds, far: float) -> TopicIds:
    """The ids of the new model's topics.

    Parameters
    ----------
    before
        The ids of the old model's topics.
    far
        l1 distance (0..2) from which on a topic is another one.
    """
    distances = l1_distances(old, new)
    rows, columns = linear_sum_assignment(distances)
    near = distances[rows, columns] < far
    ids = np.full(new.n_topics, -1, np.int64)
    ids[columns[near]] = np.array(before.ids)[rows[near]]
    unmatched = np.flatnonzero(ids < 0)
    ids[unmatched] = before.next + np.arange(len(unmatched))
    parents, heirs = distances.argmin(axis=0), distances.argmin(axis=1)
    died = [row for row, topic in enumerate(before.ids) if topic not in ids]
    return TopicIds(
        ids=ids.tolist(),
        next=before.next + len(unmatched),
        kept=sorted(set(before.ids) & set(ids.tolist())),
        born=ids[unmatched].tolist(),
        died=[before.ids[row] for row in died],
        split=[(before.ids[parents[j]], int(ids[j])) for j in unmatched.tolist() if distances[parents[j], j] < far],
        merged=[(before.ids[row], int(ids[heirs[row]])) for row in died if distances[row, heirs[row]] < far],
        distance=float(distances[rows, columns][near].mean()) if near.any() else None,
    )
