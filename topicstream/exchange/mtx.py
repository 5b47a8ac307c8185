"""The corpus as Matrix Market: documents by words, coordinates from 1; and vocab.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.exchange.uci import triples


def write(model: Any, corpus: Corpus, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder for documents.mtx and vocab.txt; training and held-out documents in the order of the ingest."""
    cells = sum(p["cells"] for p in corpus.manifest["parts"].values())
    kind = "real" if corpus.weighted else "integer"
    head = f"%%MatrixMarket matrix coordinate {kind} general\n{len(corpus)} {corpus.n_words} {cells}\n"
    return triples(corpus, path, "documents.mtx", head, force)
