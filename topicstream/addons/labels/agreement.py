"""The agreement of a model's clusters with labels of the documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from topicstream.base.errors import InputError, UsageError
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel

AGREEMENT = """clusters and labels   NMI {nmi:.4f}, ARI {ari:.4f}, purity {purity:.4f}
  {measured}: {docs:document}, {clusters} clusters, {classes} labels
[  {left_out:document} without one label were left out]
"""


def measure_agreement(table: np.ndarray) -> tuple[float, float]:
    """Measure how two partitions agree, given their contingency table (classes x clusters).

    Returns
    -------
    tuple
        Normalised mutual information (over the mean of the two entropies) and the adjusted Rand
        index (Hubert & Arabie 1985).
    """
    from scipy.special import entr  # .03 s, which every evaluation would spend

    n = float(table.sum())
    rows = table.sum(1)
    columns = table.sum(0)

    def entropy(counts: np.ndarray) -> float:
        """Compute the entropy of counts, in nats."""
        return float(entr(counts[counts > 0] / n).sum())

    h = entropy(rows)
    g = entropy(columns)
    joint = entropy(table)

    def pairs(x: np.ndarray) -> float:
        """Count the pairs within groups of these sizes."""
        return float((x * (x - 1.0) / 2.0).sum())

    index = pairs(table)
    expected = pairs(rows) * pairs(columns) / max(n * (n - 1.0) / 2.0, 1.0)
    most = 0.5 * (pairs(rows) + pairs(columns))
    nmi = (h + g - joint) / (0.5 * (h + g)) if h + g > 0 else 1.0
    return nmi, (index - expected) / (most - expected) if most != expected else 1.0


@dataclass(frozen=True)
class Agreement:
    """Agreement of clusters with labels.

    Attributes
    ----------
    nmi, ari
        See ``measure_agreement``.
    purity
        Share of documents of the class that is largest in their cluster.
    clusters
        Clusters that any document is in.
    left_out
        Documents without one label.
    """

    nmi: float
    ari: float
    purity: float
    docs: int
    left_out: int
    classes: int
    clusters: int
    measured: str


def score_agreement(
    model: TopicModel, store: Corpus, parts: tuple[str, ...], field: str, threads: int
) -> Agreement:
    """Compute NMI and ARI of the likeliest clusters and a column of the documents.

    Documents without a value, or with several, are left out.
    """
    if field not in store.manifest.columns:
        raise UsageError(
            f"--label-field {field}: {store.path} has no such column; ingest with --meta "
            f"{field}=FIELD"
        )
    names: list[str] = []
    clusters: list[int] = []
    left_out = 0
    for part in parts:
        heldout = part == "heldout"
        likeliest = np.full(store.part(heldout).docs, -1, np.int64)
        for block in document_shares(model, store, heldout=heldout, threads=threads):
            place = slice(block.first, block.first + len(block.shares))
            likeliest[place] = np.where(block.counted, block.shares.argmax(1), -1)
        for numbers, batch in stream_documents(store, heldout, [field]):
            for k, value in zip(
                likeliest[numbers].tolist(), batch.column(field).to_pylist(), strict=True
            ):
                single = value[0] if isinstance(value, list) and len(value) == 1 else value
                if k < 0 or not isinstance(single, str | int) or single == "":
                    left_out += 1
                else:
                    names.append(str(single))
                    clusters.append(k)
    if not names:
        raise InputError(f"{store.path}: none of these documents has a single value in {field}")
    classes, label = np.unique(names, return_inverse=True)
    shape = (len(classes), model.n_topics)
    table = coo_array((np.ones(len(label)), (label, np.array(clusters))), shape=shape).toarray()
    nmi, ari = measure_agreement(table)
    purity = float(table.max(0).sum() / table.sum())
    n_clusters = int((table.sum(0) > 0).sum())
    measured = f"documents in their likeliest cluster, against {field}"
    return Agreement(nmi, ari, purity, len(names), left_out, len(classes), n_clusters, measured)
