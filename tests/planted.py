"""Corpora made for the tests: documents drawn from known topics, stored as `topics ingest` would
store them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.small_store import commit
from topicstream.base.files.ownership import claim
from topicstream.corpus.writer import BlockWriter


def draw(docs: int, words: int, topics: int, length: int, seed: int, alpha: float = 0.1):
    """phi [K, W], and documents as (indptr, words, counts) from LDA's own process; every word
    occurs in some topic.
    """
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.05), topics)
    indptr = [0]
    ids = []
    counts = []
    for _ in range(docs):
        theta = rng.dirichlet(np.full(topics, alpha))
        drawn = np.bincount(rng.choice(words, rng.poisson(length), p=theta @ phi), minlength=words)
        nonzero = np.flatnonzero(drawn)
        ids.append(nonzero)
        counts.append(drawn[nonzero])
        indptr.append(indptr[-1] + len(nonzero))
    return phi, np.array(indptr), np.concatenate(ids).astype(np.int32), np.concatenate(counts)


def sides(phi, indptr, words, counts, seed: int) -> dict[str, list[list[str]]]:
    """Authors, labels and links of such documents, a list of names each: an author writes on one
    topic, a label is a topic that has a fifth of the document or more, a link goes to a document
    of the same main topic. One document in twenty has no author, one in twenty no label, half have
    no link.
    """
    rng = np.random.default_rng(seed)
    topics = len(phi)
    docs = len(indptr) - 1
    found: dict[str, list[list[str]]] = {"authors": [], "labels": [], "links": []}
    mixed = np.zeros((docs, topics))
    for d in range(docs):
        cells = slice(indptr[d], indptr[d + 1])
        theta = np.full(topics, 1 / topics)
        for _ in range(30):
            share = theta[:, None] * phi[:, words[cells]] + 1e-12
            theta = (share / share.sum(0) * counts[cells]).sum(1)
            theta /= max(theta.sum(), 1e-12)
        mixed[d] = theta
    main = mixed.argmax(1)
    for d in range(docs):
        strong = np.flatnonzero(mixed[d] >= 0.2)
        wrote = [f"author {k}-{rng.integers(6)}" for k in strong] if rng.random() > 0.05 else []
        found["authors"].append(wrote)
        found["labels"].append([f"label {k}" for k in strong] if rng.random() > 0.05 else [])
        like = np.flatnonzero(main == main[d])
        found["links"].append(
            [f"d{n}" for n in rng.choice(like, rng.integers(1, 4))] if rng.random() > 0.5 else []
        )
    return found


def store(
    path: Path,
    indptr,
    words,
    counts,
    n_words: int,
    heldout: int = 0,
    weighted: bool = False,
    lists: dict[str, list[list[str]]] | None = None,
) -> Path:
    """Write a corpus store; the last ``heldout`` documents are set aside.  lists: of each document,
    by the name of an axis; document n is called ``dn``.
    """
    docs = len(indptr) - 1
    claim(path, "corpus")
    parts: dict[str, list] = {"train": [], "heldout": []}
    edge = docs - heldout
    for part, a, b in (("train", 0, edge), ("heldout", edge, docs)):
        writer = BlockWriter(path, part, 0, weighted)
        cells = slice(indptr[a], indptr[b])
        writer.add(np.asarray(indptr[a : b + 1], np.int64) - indptr[a], words[cells], counts[cells])
        writer.close()
        parts[part] = writer.entries
    train = slice(0, indptr[edge])
    n_w = np.bincount(words[train], weights=counts[train], minlength=n_words)
    df = np.bincount(words[train], minlength=n_words)
    names = [f"word{i}" for i in range(n_words)]
    table = {"word": pa.array(names, pa.large_string()), "count": n_w.astype(np.int64), "df": df}
    digest = hashlib.sha256(words.tobytes() + np.ascontiguousarray(counts).tobytes()).hexdigest()
    commit(
        path, parts, table, [f"d{n}" for n in range(docs)], digest, weighted=weighted, lists=lists
    )
    return path
