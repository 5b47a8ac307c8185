"""Documents like one document: by their topics, streamed; and topics joined step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.keys import documents
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import View, seen, view_of
from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Told, listener
from topicstream.reporting import geometry
from topicstream.reporting.doc_topics import shares
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.labels import propose
from topicstream.reporting.metadata import check_columns, columns_of


def similar(
    model: str | Path | TopicModel,
    corpus: str | Path | Corpus,
    document: str,
    *,
    n: int = 10,
    with_columns: list[str] | None = None,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    progress: Told = None,
) -> dict[str, Any]:
    """The n documents, of both parts, whose topics are most like those of one (its id), streamed twice.

    Likeness is the Bhattacharyya coefficient of p(k|d), 1 for the same shares.  Returns ``document``, ``topics`` (its
    largest) and ``similar``: a list of id, part, likeness and the columns asked for (None: the title, where there is one).
    InputError for an id that is not there.
    """
    opened, workers = open_within(model, mem_limit, threads)
    view = view_of(opened)
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    strangers(opened, store)
    if with_columns is not None:
        check_columns(store, with_columns)
    kept = with_columns if with_columns is not None else [c for c in ("title",) if c in columns_of(store)]
    part, number = find_document(store, document, "--similar")
    own = _theta(opened, view, store, part, number, workers)
    root, tell = np.sqrt(own), listener(progress)
    found: list[tuple[float, bool, int]] = []
    for heldout in (False, True):
        if not store.part(heldout)["docs"]:
            continue
        best = Best(min(n + 1, store.part(heldout)["docs"]), 1)
        for first, theta in shares(opened, store, heldout=heldout, threads=workers):
            best.add(first, (np.sqrt(view.shares(theta)).astype(np.float64) @ root)[:, None])
            tell.step("topics of documents", first + len(theta), store.part(heldout)["docs"], "documents")
        good = np.isfinite(best.scores[:, 0])
        found += [(-float(s), heldout, int(d)) for s, d in zip(best.scores[good, 0], best.ids[good, 0], strict=True)]
    found = sorted(f for f in found if (f[1], f[2]) != (part, number))[:n]
    rows = {
        heldout: describe_documents(store, np.array([d for _, h, d in found if h == heldout], np.int64), kept, heldout)
        for heldout in (False, True)
    }
    order = np.argsort(-own, kind="stable")[:5]
    return {
        "document": document,
        "part": "heldout" if part else "train",
        "topics": [{"topic": view.ids[int(k)], "share": float(own[k])} for k in order],
        "similar": [
            {
                "id": rows[h][d]["id"],
                "part": "heldout" if h else "train",
                "likeness": min(1.0, -score),
                **{c: v for c in kept if (v := rows[h][d].get(c)) is not None},
            }
            for score, h, d in found
        ],
    }


def find_document(corpus: Corpus, document: str, option: str) -> tuple[bool, int]:
    """(whether it is set aside, number in its part) of the document of this id; InputError."""
    if not corpus.manifest.get("docs") and document.isdecimal() and int(document) < corpus.n_docs:
        return False, int(document)
    for heldout in (False, True):
        for numbers, batch in documents(corpus, heldout, ["id"]):
            hit = pc.index(batch.column("id"), pa.scalar(document, batch.column("id").type)).as_py()
            if hit >= 0:
                return heldout, int(numbers[hit])
    raise InputError(f"{option} {document}: the store has no document of this id")


def _theta(model: TopicModel, view: View, corpus: Corpus, heldout: bool, number: int, threads: int) -> np.ndarray:
    for first, theta in shares(model, corpus, heldout=heldout, threads=threads):
        if first <= number < first + len(theta):
            return np.asarray(view.shares(theta[number - first : number - first + 1])[0].astype(np.float64))
    raise InputError(f"{corpus.path}: document {number} lies past the blocks; ingest again")


def hierarchy(
    model: str | Path | TopicModel, *, reduce_to: int | None = None, mem_limit: str | int | None = None
) -> dict[str, Any]:
    """The topics' merge hierarchy (Ward's linkage of Hellinger distances) or, with ``reduce_to``, the clusters it leaves.

    Returns ``topics`` (ids as they lie under the tree), ``labels``, ``merges`` (left, right, height; numbers from the count
    of topics on are earlier merges), and ``clusters``: lists of ids, what ``topics edit --merge`` takes.
    """
    opened, _ = open_within(model, mem_limit, 1)
    view = view_of(opened)
    shown = seen(opened, view)
    if reduce_to is not None and not 1 <= reduce_to <= len(view):
        raise UsageError(f"--reduce-to {reduce_to}: give a number in 1..{len(view)}")
    grown = geometry.tree(geometry.gram(shown), shown.sizes)
    proposals = propose(shown)
    out: dict[str, Any] = {
        "topics": [view.ids[int(k)] for k in grown.order],
        "labels": {str(i): view.labels.get(i, proposals[j]) for j, i in enumerate(view.ids)},
        "merges": [
            {"left": int(a), "right": int(b), "height": float(h)}
            for a, b, h in zip(grown.left, grown.right, grown.height, strict=True)
        ],
        "ids": view.ids,
    }
    if reduce_to is not None:
        size = dict(zip(view.ids, shown.sizes.tolist(), strict=True))
        clusters = [sorted((view.ids[k] for k in c), key=lambda i: (-size[i], i)) for c in grown.cut(reduce_to)]
        out["clusters"] = sorted(clusters, key=lambda c: (-sum(size[i] for i in c), c[0]))
    return out


def tree_lines(result: dict[str, Any]) -> list[str]:
    """The tree for a terminal, the root on top, or the clusters with the edit that makes them."""
    if "clusters" in result:
        return [
            f"{','.join(map(str, c)):24} {'; '.join(result['labels'][str(i)] for i in c[:4])}"
            for c in result["clusters"]
        ]
    ids, merges, k = result["ids"], result["merges"], len(result["ids"])
    out: list[str] = []
    stack: list[tuple[int, str, str]] = [(k + len(merges) - 1 if merges else 0, "", "")]
    while stack:
        node, head, below = stack.pop()
        if node < k:
            out.append(f"{head}{ids[node]} {result['labels'][str(ids[node])]}")
            continue
        step = merges[node - k]
        out.append(f"{head}┐ {step['height']:.2f}")
        stack.append((step["right"], below + "└─", below + "  "))
        stack.append((step["left"], below + "├─", below + "│ "))
    return out
