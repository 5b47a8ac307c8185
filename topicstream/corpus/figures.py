"""What a store holds, in figures: ``topics info``'s library twin."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.files.parquet import read_words

BARS = " ▁▂▃▄▅▆▇█"


def length_histogram(corpus: Corpus) -> dict[str, Any]:
    """Documents of the training part by number of distinct words: edges (powers of two from 1), documents, and of none."""
    counts = np.zeros(34, np.int64)
    longest = 0
    for b in range(len(corpus.part()["blocks"])):
        lengths = corpus.lengths(b).astype(np.int64)
        bits = np.where(lengths > 0, np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) + 1, 0)
        counts += np.bincount(bits, minlength=len(counts))
        longest = max(longest, int(lengths.max(initial=0)))
    last = int(np.flatnonzero(counts).max(initial=0))
    return {
        "empty": int(counts[0]),
        "from": [1 << k for k in range(last)],
        "documents": counts[1 : last + 1].tolist(),
        "longest": longest,
    }


def vocabulary_curve(counts: np.ndarray) -> list[dict[str, Any]]:
    """Share of the tokens that the most frequent 10, 100, 1000 ... words take; counts: int64[W]."""
    ordered = np.sort(counts)[::-1]
    sums = np.cumsum(ordered, dtype=np.float64)
    total = max(float(sums[-1]), 1.0) if len(sums) else 1.0
    sizes = [10**k for k in range(1, 10) if 10**k < len(counts)] + [len(counts)]
    return [{"words": n, "share": round(float(sums[n - 1]) / total, 4)} for n in sizes if n]


def figures(corpus: Corpus, top: int = 20) -> dict[str, Any]:
    """Summary, most frequent words, lengths of the documents, share of the tokens by vocabulary size."""
    table = read_words(corpus.file("vocab"), ["word", "count", "df"])
    counts = table["count"].to_numpy()
    first = np.argsort(-counts, kind="stable")[:top]
    words = [{name: table[name][int(i)].as_py() for name in table.column_names} for i in first]
    parts = {
        name: {k: entry[k] for k in ("docs", "cells", "tokens", "bytes")} | {"blocks": len(entry["blocks"])}
        for name, entry in corpus.manifest["parts"].items()
    }
    manifest = corpus.manifest
    return {
        "path": str(corpus.path),
        "kind": "corpus",
        "fingerprint": corpus.fingerprint,
        "generation": manifest.get("generation", 1),
        "weighted": corpus.weighted,
        "words": corpus.n_words,
        "axes": [
            {"name": a.name, "size": a.size, "entries": a.entries, "longest": a.longest, **a.figures}
            for a in corpus.axes.values()
        ],
        "parts": parts,
        "heldout": manifest.get("heldout"),
        "vocabulary": manifest.get("vocabulary"),
        "sources": manifest.get("sources"),
        "summary": manifest.get("summary", {}),
        "top_words": words,
        "lengths": length_histogram(corpus),
        "vocabulary_curve": vocabulary_curve(counts),
    }


def histogram_line(values: list[int]) -> str:
    """One character a value, its height the value's share of the largest."""
    top = max(values, default=0)
    return "".join(BARS[0 if v == 0 else 1 + round(7 * v / top)] for v in values)
