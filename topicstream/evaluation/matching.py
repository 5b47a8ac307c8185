"""Matching the topics of two models by the l1 distances of p(w|k).

An assignment of least total distance pairs topics, and ids stay with topics from version to
version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

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
    some words.
    """
    every = max(a.n_words, b.n_words)
    if cluster is None:
        return _distances((0, every), a, b, progress)
    distances = np.zeros((a.n_topics, b.n_topics))
    words = list(pairwise(np.linspace(0, every, cluster.number + 1, dtype=np.int64).tolist()))
    for (_, last), some in zip(
        words, cluster.map(partial(_distances, a=a, b=b), words), strict=True
    ):
        distances += some
        if progress is not None:
            progress(last, every)
    return distances


def _distances(
    words: tuple[int, int],
    a: TopicModel,
    b: TopicModel,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Sum the distances over spans of words, rounded so that the sums are exact."""
    out = np.zeros((a.n_topics, b.n_topics))
    ids = b.vocabulary.find(a.vocabulary.words)
    for start, rows in a.spans():
        if words[0] <= start < words[1]:
            part = np.zeros_like(out)
            _add_distances(
                _probabilities(rows, a),
                _probabilities_of_words(b, ids[start : start + len(rows)]),
                part,
            )
            out += np.rint(part / QUANTUM) * QUANTUM
        if progress is not None:
            progress(start + len(rows), a.n_words)
    only_b = np.ones(b.n_words, bool)
    only_b[ids[ids >= 0]] = False
    for start, rows in b.spans():
        if words[0] <= start < words[1]:
            extra = rows[only_b[start : start + len(rows)]]
            out += (
                np.rint(_probabilities(extra, b).sum(axis=0, dtype=np.float64) / QUANTUM) * QUANTUM
            )
    return out


def _probabilities(rows: np.ndarray, model: TopicModel) -> np.ndarray:
    """Compute p(w|k) from rows of the model's table."""
    return np.asarray(((rows + model.beta) / model.norms).astype(np.float32))


def _probabilities_of_words(model: TopicModel, ids: np.ndarray) -> np.ndarray:
    """Compute p(w|k) of words, float32[n, K], zero for those with id -1."""
    out = np.zeros((len(ids), model.n_topics), np.float32)
    known = ids >= 0
    out[known] = _probabilities(model.rows(ids[known]), model)
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
        For a missing or damaged model.
    InputError
        Where the models have no word in common.

    Examples
    --------
    >>> pairs = topicstream.compare("model", "model")["matched"]
    >>> [pair["distance"] for pair in pairs]
    [0.0, 0.0, 0.0, 0.0]
    """
    a = config.a
    b = config.b
    far = config.far
    topics = [m.n_topics if isinstance(m, TopicModel) else read_manifest(m).topics for m in (a, b)]
    with connected_within(config.scheduler, config.memory, [a, b]) as (cluster, limit):
        opened, _ = open_within([a, b], limit, 1, beside=PAIR_BYTES * topics[0] * topics[1])
        one, two = (apply_view(model, view_of(model)) for model in opened)
        tell = partial(listener(config.progress).step, WORD_BY_WORD, unit="words")
        distances = l1_distances(one, two, tell, cluster)
    # how far beyond is all the same
    rows, columns = linear_sum_assignment(np.minimum(distances, far))
    value = distances[rows, columns]
    near = value <= far
    texts = [_texts(m, config.words) for m in (one, two)]
    sizes = [m.sizes / max(float(m.sizes.sum()), 1e-300) for m in (one, two)]
    numbers = [model.column_ids.tolist() for model in (one, two)]
    pairs_near = sorted(
        zip(rows[near].tolist(), columns[near].tolist(), value[near].tolist()),
        key=lambda t: (t[2], t[0]),
    )
    matched: list[Json] = [
        {
            "a": numbers[0][i],
            "b": numbers[1][j],
            "distance": d,
            "share_a": float(sizes[0][i]),
            "share_b": float(sizes[1][j]),
            "kind_a": one.kinds[i],
            "kind_b": two.kinds[j],
            **_changed(texts[0][i], texts[1][j]),
        }
        for i, j, d in pairs_near
    ]
    left: list[list[Json]] = [
        [
            {
                "topic": numbers[m][k],
                "share": float(sizes[m][k]),
                "kind": (one, two)[m].kinds[k],
                "words": texts[m][k],
            }
            for k in range(len(texts[m]))
            if k not in set(pairs[near].tolist())
        ]
        for m, pairs in ((0, rows), (1, columns))
    ]
    counted = near & ~(_backgrounds(one)[rows] | _backgrounds(two)[columns])
    common = int((two.vocabulary.find(one.vocabulary.words) >= 0).sum())
    summary = {
        "a": one.name,
        "b": two.name,
        "matched": matched,
        "mean_distance": float(np.mean(value[counted])) if counted.any() else None,
        "unmatched_a": left[0],
        "unmatched_b": left[1],
        "far": far,
        "vocabulary": {"a": one.n_words, "b": two.n_words, "common": common},
    }
    return Summary(summary)


def _backgrounds(model: TopicModel) -> np.ndarray:
    """Select the background topics, bool[K]."""
    return np.array([kind == BACKGROUND for kind in model.kinds], bool)


def _changed(before: list[str], after: list[str]) -> dict[str, Json]:
    """List the current words of a topic, and those gained and lost."""
    gained, lost = (
        [word for word in some if word not in others]
        for some, others in ((after, before), (before, after))
    )
    return {"words": after, "gained": gained, "lost": lost}


def _texts(model: TopicModel, n: int) -> list[list[str]]:
    ids, _ = top_words(model, n)
    return [model.vocabulary.texts(ids[:, k]) for k in range(model.n_topics)]


def align(old: TopicModel, new: TopicModel, before: TopicIds, far: float) -> TopicIds:
    """Assign ids to the new model's topics, so that an id stays with its topic.

    A topic of the new model inherits the id of the old topic that the assignment of least total l1
    distance gives it, where what is beyond ``far`` counts as ``far``, when the two are nearer than
    that; else it is *born* with a new id. An old topic that hands its id to none has *died*. A born
    topic has *split* from the old one nearest to it, and a dead topic has *merged* into the new one
    nearest to it, where those are nearer than ``far``.

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
