"""Matching of the topics of two models by the l1 distances of p(w|k).

An assignment of least total distance pairs topics. It also gives the topics of a new version the
ids of the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from topicstream.base.cluster import Cluster, connected_within
from topicstream.base.options import configured
from topicstream.base.progress import listener
from topicstream.base.records import Json
from topicstream.base.shown import Summary
from topicstream.evaluation.config import CompareConfig
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import apply_view, view_of
from topicstream.model.manifest import TopicIds, read_manifest
from topicstream.model.top import top_words
from topicstream.model.topic_kinds import BACKGROUND
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import Doubles, Floats
from topicstream.numeric.kernels.jit import kernel

PAIR_BYTES = 32
"""Bytes of a pair of topics: distance, the sums of a span, and the copies of the assignment."""


@kernel
def _add_distances(a: Floats, b: Floats, out: Doubles) -> None:
    """Add sum |a - b| over n words to ``out``, float64[KA, KB].

    a: float32[n, KA], b: float32[n, KB], probabilities.
    """
    part = np.zeros((a.shape[1], b.shape[1]), np.float32)
    for w in range(len(a)):
        for i in range(a.shape[1]):
            p = a[w, i]
            row = part[i]
            values = b[w]
            for j in range(len(values)):
                row[j] += abs(p - values[j])
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            out[i, j] += part[i, j]


QUANTUM = 2.0**-50
"""Sums of its multiples up to 4 are exact in float64, in any order."""
WORD_BY_WORD = "comparing every topic of A with every topic of B, word by word"


def l1_distances(
    a: TopicModel,
    b: TopicModel,
    progress: Callable[[int, int], None] | None = None,
    cluster: Cluster | None = None,
) -> np.ndarray:
    """Compute the l1 distances of topics, sum over words of |p(w|i) - p(w|j)|, float64[KA, KB].

    They range from 0 (same) to 2 (no word in common). Words are matched by text, and a word unknown
    to a model has probability 0 in it. Both tables are streamed. Each worker of a cluster takes
    a range of words.
    """
    words = max(a.n_words, b.n_words)
    if cluster is None:
        return _distances((0, words), a, b, progress)
    distances = np.zeros((a.n_topics, b.n_topics))
    ranges = list(pairwise(np.linspace(0, words, cluster.number + 1, dtype=np.int64).tolist()))
    parts = cluster.map(partial(_distances, a=a, b=b), ranges)
    for (_, last), part in zip(ranges, parts, strict=True):
        distances += part
        if progress is not None:
            progress(last, words)
    return distances


def _distances(
    words: tuple[int, int],
    a: TopicModel,
    b: TopicModel,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Sum the distances over a range of words, by spans of the tables that begin in it.

    The sum of a span is rounded, so that sums of spans are exact.
    """
    out = np.zeros((a.n_topics, b.n_topics))
    ids = b.vocabulary.find(a.vocabulary.words)
    for start, rows in a.spans():
        if words[0] <= start < words[1]:
            part = np.zeros_like(out)
            of_b = _probabilities_of_words(b, ids[start : start + len(rows)])
            _add_distances(_probabilities(rows, a), of_b, part)
            out += np.rint(part / QUANTUM) * QUANTUM
        if progress is not None:
            progress(start + len(rows), a.n_words)
    # a word that only b has is as far from every topic of a as it is probable
    only_b = np.ones(b.n_words, bool)
    only_b[ids[ids >= 0]] = False
    for start, rows in b.spans():
        if words[0] <= start < words[1]:
            extra = _probabilities(rows[only_b[start : start + len(rows)]], b)
            out += np.rint(extra.sum(axis=0, dtype=np.float64) / QUANTUM) * QUANTUM
    return out


def _probabilities(rows: np.ndarray, model: TopicModel) -> np.ndarray:
    """Compute p(w|k) from rows of the model's table."""
    return np.asarray(((rows + model.beta) / model.norms).astype(np.float32))


def _probabilities_of_words(model: TopicModel, ids: np.ndarray) -> np.ndarray:
    """Compute p(w|k) of words, float32[n, K], zero for those with id -1."""
    out = np.zeros((len(ids), model.n_topics), np.float32)
    is_known = ids >= 0
    out[is_known] = _probabilities(model.rows(ids[is_known]), model)
    return out


@configured(CompareConfig)
def compare(config: CompareConfig) -> Summary:
    """Match the topics of two models one to one and say what changed.

    Topics are those that `topics show` lists, under their numbers. The time grows with words x
    topics of a x topics of b.

    Returns
    -------
    dict
        ``matched``: a list of dicts with a, b, distance, share_a, share_b, kind_a, kind_b, words,
        gained and lost, the nearest pairs first; ``unmatched_a``, ``unmatched_b``: topic, share,
        kind, words; ``mean_distance`` over the matched without the background (None without
        any); ``vocabulary``: sizes and common words.

    Raises
    ------
    StoreError
        A model is missing or damaged.
    DoesNotFit
        The memory limit is too small.

    Examples
    --------
    >>> pairs = topicstream.compare("model", "model")["matched"]
    >>> [pair["distance"] for pair in pairs]
    [0.0, 0.0, 0.0, 0.0]
    """
    far = config.far
    models = [config.a, config.b]
    topics = [
        model.n_topics if isinstance(model, TopicModel) else read_manifest(model).topics
        for model in models
    ]
    with connected_within(config.scheduler, config.memory, models) as (cluster, limit):
        opened, _ = open_within(models, limit, 1, beside=PAIR_BYTES * topics[0] * topics[1])
        a, b = (apply_view(model, view_of(model)) for model in opened)
        tell = partial(listener(config.progress).step, WORD_BY_WORD, unit="words")
        distances = l1_distances(a, b, tell, cluster)
    # beyond ``far`` all distances count alike
    rows, columns = linear_sum_assignment(np.minimum(distances, far))
    value = distances[rows, columns]
    near = value <= far
    topics_a = _describe_topics(a, config.words)
    topics_b = _describe_topics(b, config.words)
    pairs = zip(value[near].tolist(), rows[near].tolist(), columns[near].tolist(), strict=True)
    matched: list[Json] = [
        _describe_pair(topics_a[i], topics_b[j], distance) for distance, i, j in sorted(pairs)
    ]
    counted = near & ~(_backgrounds(a)[rows] | _backgrounds(b)[columns])
    common = int((b.vocabulary.find(a.vocabulary.words) >= 0).sum())
    summary = {
        "a": a.name,
        "b": b.name,
        "matched": matched,
        "mean_distance": float(np.mean(value[counted])) if counted.any() else None,
        "unmatched_a": _leave_out(topics_a, rows[near]),
        "unmatched_b": _leave_out(topics_b, columns[near]),
        "far": far,
        "vocabulary": {"a": a.n_words, "b": b.n_words, "common": common},
    }
    return Summary(summary)


def _describe_topics(model: TopicModel, words: int) -> list[dict[str, Any]]:
    """Return number, share, kind and first words of each topic, by column."""
    ids, _ = top_words(model, words)
    shares = model.sizes / max(float(model.sizes.sum()), 1e-300)
    return [
        {
            "topic": number,
            "share": float(shares[k]),
            "kind": model.kinds[k],
            "words": model.vocabulary.texts(ids[:, k]),
        }
        for k, number in enumerate(model.column_ids.tolist())
    ]


def _describe_pair(a: dict[str, Any], b: dict[str, Any], distance: float) -> dict[str, Json]:
    """Return an entry of ``matched``, with the words that a topic has gained and lost."""
    before = a["words"]
    after = b["words"]
    return {
        "a": a["topic"],
        "b": b["topic"],
        "distance": distance,
        "share_a": a["share"],
        "share_b": b["share"],
        "kind_a": a["kind"],
        "kind_b": b["kind"],
        "words": after,
        "gained": [word for word in after if word not in before],
        "lost": [word for word in before if word not in after],
    }


def _leave_out(topics: list[dict[str, Any]], columns: np.ndarray) -> list[dict[str, Any]]:
    """Return the topics that are not among some columns."""
    left_out = set(columns.tolist())
    return [topic for k, topic in enumerate(topics) if k not in left_out]


def _backgrounds(model: TopicModel) -> np.ndarray:
    """Select the background topics, bool[K]."""
    return np.array([kind == BACKGROUND for kind in model.kinds], bool)


def align(old: TopicModel, new: TopicModel, before: TopicIds, far: float) -> TopicIds:
    """Assign ids to the new model's topics, so that an id stays with its topic.

    The assignment of least total l1 distance pairs topics; a distance beyond ``far`` counts as
    ``far`` in it. A topic of the new model inherits the id of its old topic if the two are nearer
    than ``far``. Otherwise it is *born* with a new id. An old topic whose id no topic inherits has
    *died*. A born topic has *split* from the old one nearest to it, and a dead topic has *merged*
    into the new one nearest to it, if these are nearer than ``far``.

    Parameters
    ----------
    before
        The ids of the old model's topics.
    far
        l1 distance (0..2) from which on a topic is another one.
    """
    distances = l1_distances(old, new)
    rows, columns = linear_sum_assignment(np.minimum(distances, far))
    near = distances[rows, columns] < far
    ids = np.full(new.n_topics, -1, np.int64)
    ids[columns[near]] = np.array(before.ids)[rows[near]]
    unmatched = np.flatnonzero(ids < 0)
    ids[unmatched] = before.next + np.arange(len(unmatched))
    parents = distances.argmin(axis=0)
    heirs = distances.argmin(axis=1)
    died = [row for row, topic in enumerate(before.ids) if topic not in ids]
    return TopicIds(
        ids=ids.tolist(),
        next=before.next + len(unmatched),
        kept=sorted(set(before.ids) & set(ids.tolist())),
        born=ids[unmatched].tolist(),
        died=[before.ids[row] for row in died],
        split=[
            (before.ids[parents[j]], int(ids[j]))
            for j in unmatched.tolist()
            if distances[parents[j], j] < far
        ],
        merged=[
            (before.ids[row], int(ids[heirs[row]]))
            for row in died
            if distances[row, heirs[row]] < far
        ],
        distance=float(distances[rows, columns][near].mean()) if near.any() else None,
    )
