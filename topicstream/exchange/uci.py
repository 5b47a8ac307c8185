"""The corpus as UCI's bag of words: documents, words and cells, then ``document word count`` from 1; and vocab.txt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.exchange.common import fit_for_text, text_lines, write_word_list
from topicstream.files.outputs import written


def write(model: Any, corpus: Corpus, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder for docword.txt and vocab.txt; training and held-out documents in the order of the ingest."""
    cells = sum(p["cells"] for p in corpus.manifest["parts"].values())
    head = f"{len(corpus)}\n{corpus.n_words}\n{cells}\n"
    return triples(corpus, path, "docword.txt", head, force)


def triples(corpus: Corpus, path: Path, name: str, head: str, force: bool) -> dict[str, Any]:
    """Head, a line a cell, and the words."""
    fit_for_text(corpus.words, "", "the export")
    docs = cells = 0
    with written(path / name, force=force) as file:
        file.write(head.encode())
        for batch in corpus.documents([]):
            words, counts = batch.column("words"), batch.column("counts")
            lengths = np.diff(words.offsets.to_numpy())
            numbers = np.repeat(np.arange(docs + 1, docs + 1 + len(batch)), lengths)
            if len(numbers):
                ids = pa.array(words.values.to_numpy() + 1)
                file.write(text_lines(pa.array(numbers), ids, counts.values, separator=" "))
            docs, cells = docs + len(batch), cells + len(numbers)
    write_word_list(path / "vocab.txt", corpus.words, force=force)
    return {"documents": docs, "words": corpus.n_words, "cells": cells}
