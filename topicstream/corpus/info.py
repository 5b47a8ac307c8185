"""Figures and checks of a store for ``topics info``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np

from topicstream.base.errors import StoreError
from topicstream.base.records import Json, plain
from topicstream.base.text import render
from topicstream.corpus.format import PARTS, metadata_problems
from topicstream.corpus.manifest import part_folder
from topicstream.corpus.reader import Corpus

LINKED = """{given:,} given: {training:,} pairs of training documents, {heldout:,} with \
held-out ones[; left out {left_out}]"""
LEFT_OUT = {
    "dangling": "to no document",
    "self": "to the document itself",
    "repeats": "repeated",
    "between_heldout": "between held-out documents",
}
BARS = " ▁▂▃▄▅▆▇█"


def length_histogram(corpus: Corpus) -> dict[str, Json]:
    """Count the training documents by number of distinct words.

    Returns
    -------
    dict
        ``from``: lower bounds of the classes, powers of two from 1; ``documents`` in each class;
        ``empty``: documents without words; ``longest``: words of the longest document.
    """
    counts = np.zeros(34, np.int64)
    longest = 0
    for b in range(len(corpus.part().blocks)):
        lengths = corpus.lengths(b).astype(np.int64)
        exponents = np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64)
        classes = np.where(lengths > 0, exponents + 1, 0)
        counts += np.bincount(classes, minlength=len(counts))
        longest = max(longest, int(lengths.max(initial=0)))
    last = int(np.flatnonzero(counts).max(initial=0))
    return {
        "empty": int(counts[0]),
        "from": [1 << k for k in range(last)],
        "documents": counts[1 : last + 1].tolist(),
        "longest": longest,
    }


def vocabulary_curve(counts: np.ndarray) -> list[dict[str, Json]]:
    """Compute the share of tokens of the 10, 100, 1000 ... most frequent words.

    Parameters
    ----------
    counts
        int64[W], tokens of each word.
    """
    ordered = np.sort(counts)[::-1]
    sums = np.cumsum(ordered, dtype=np.float64)
    total = max(float(sums[-1]), 1.0) if len(sums) else 1.0
    sizes = [10**k for k in range(1, 10) if 10**k < len(counts)] + [len(counts)]
    return [{"words": n, "share": round(float(sums[n - 1]) / total, 4)} for n in sizes if n]


def describe_store(corpus: Corpus, top: int = 20) -> dict[str, Json]:
    """Describe a store by its summary, frequent words, lengths and vocabulary curve."""
    table = corpus.word_table("word", "count", "df")
    counts = table["count"].to_numpy()
    first = np.argsort(-counts, kind="stable")[:top]
    words = table.take(first).to_pylist()
    manifest = corpus.manifest
    parts = {}
    for name, entry in manifest.parts.items():
        figures = {k: getattr(entry, k) for k in ("docs", "cells", "tokens", "bytes")}
        parts[name] = figures | {"blocks": len(entry.blocks)}
    return {
        "path": str(corpus.path),
        "kind": "corpus",
        "fingerprint": corpus.fingerprint,
        "generation": manifest.generation,
        "weighted": corpus.weighted,
        "words": corpus.n_words,
        "axes": [
            {
                "name": a.name,
                "size": a.size,
                "entries": a.entries,
                "longest": a.longest,
                **a.figures,
            }
            for a in corpus.axes.values()
        ],
        "columns": manifest.columns,
        "parts": parts,
        "heldout": plain(manifest.heldout),
        "vocabulary": manifest.vocabulary,
        "sources": plain(manifest.sources),
        "summary": manifest.summary,
        "top_words": words,
        "lengths": length_histogram(corpus),
        "vocabulary_curve": vocabulary_curve(counts),
    }


def histogram_line(values: list[int]) -> str:
    """Draw values as one character each, scaled to the largest."""
    top = max(values, default=0)
    return "".join(BARS[0 if v == 0 else 1 + round(7 * v / top)] for v in values)


def verify(corpus: Corpus, report: Callable[[int, int], None] | None = None) -> Iterator[str]:
    """Read all chunks and files of a store, and describe each problem in a line.

    Parameters
    ----------
    corpus
        The store.
    report
        Called after each block with the number of blocks read and that of all.
    """
    reported: set[str] = set()
    for problem in _find_problems(corpus, report):
        if problem not in reported:  # a damaged list of removed documents is met at every block
            reported.add(problem)
            yield problem


def _find_problems(corpus: Corpus, report: Callable[[int, int], None] | None) -> Iterator[str]:
    """Describe each problem of a store, some of them several times."""
    manifest = corpus.manifest
    path = corpus.path
    names = [entry.names for entry in manifest.axes.values() if entry.names is not None]
    for entry in (*manifest.single_files, *names):
        yield from filter(None, [entry.problem(path)])
    for kind in ("vocab", "pruned"):  # under their plain names too, for stock readers
        latest = manifest.files.get(kind)
        plain = f"{kind}.parquet"
        if latest is not None and latest.file != plain and (path / plain).exists():
            yield from filter(None, [msgspec.structs.replace(latest, file=plain).problem(path)])
    try:
        corpus.file("vocab")
    except StoreError as e:
        yield str(e)
    rows = {part_folder(entry, part): entry.rows for part, entry in manifest.parts.items()}
    yield from metadata_problems(path, corpus.weighted, rows)
    blocks = []
    for heldout in (False, True):
        blocks += [(block, heldout) for block in range(len(corpus.part(heldout).blocks))]
    for blocks_read, (block, heldout) in enumerate(blocks, 1):
        # the axes of the manifest: ``corpus.axes`` raises an error for one that is out of date
        for axis in (None, *manifest.axes):
            try:
                if axis is None:
                    corpus.decode(block, heldout)
                elif block < len(manifest.axes[axis].parts[PARTS[heldout]].blocks):
                    corpus.lists(axis, block, heldout)
            except StoreError as e:
                yield str(e)
        if report is not None:
            report(blocks_read, len(blocks))


def linked_text(figures: Mapping[str, int]) -> str:
    """Describe in words how many linked documents the input has.

    Parameters
    ----------
    figures
        As in ``Axis.figures``.
    """
    left_out = [f"{figures[name]:,} {reason}" for name, reason in LEFT_OUT.items() if figures[name]]
    return render(LINKED, {**figures, "left_out": left_out})[0]
