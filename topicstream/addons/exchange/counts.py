"""Exports of the corpus as counts: a file of cells, and vocab.txt with a word a line.

Training and held-out documents stand in the order of the ingest.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.files.outputs import written
from topicstream.model.exchange import (
    Export,
    as_text_array,
    check_separators,
    join_lists,
    text_lines,
    write_word_list,
)


def write_uci(job: Export) -> dict[str, float]:
    """Write UCI's bag of words, docword.txt.

    Documents, words and cells, then ``document word count`` from 1.
    """
    return _write_triples(job, "docword.txt", "{documents}\n{words}\n{cells}\n")


def write_mtx(job: Export) -> dict[str, float]:
    """Write Matrix Market's documents.mtx: documents by words, coordinates from 1."""
    kind = "real" if job.corpus.weighted else "integer"
    head = f"%%MatrixMarket matrix coordinate {kind} general\n{{documents}} {{words}} {{cells}}\n"
    return _write_triples(job, "documents.mtx", head)


def _write_triples(job: Export, name: str, head: str) -> dict[str, float]:
    """Write the head, a line for each cell, and the words."""
    corpus = job.corpus
    documents = 0
    check_separators(corpus.words, "", "the export")
    cells = sum(part.cells for part in corpus.manifest.parts.values())
    summary: dict[str, float] = {"documents": len(corpus), "words": corpus.n_words, "cells": cells}
    with written(job.path / name, force=job.force) as file:
        file.write(head.format(**summary).encode())
        for batch in corpus.documents([]):
            words = batch.column("words")
            counts = batch.column("counts")
            numbers = np.repeat(
                np.arange(documents + 1, documents + 1 + len(batch)),
                np.diff(words.offsets.to_numpy()),
            )
            file.write(
                text_lines(
                    pa.array(numbers),
                    pa.array(words.values.to_numpy() + 1),
                    counts.values,
                    separator=" ",
                )
            )
            documents += len(batch)
    write_word_list(job.path / "vocab.txt", corpus.words, force=job.force)
    return summary


def write_ldac(job: Export) -> dict[str, float]:
    """Write LDA-C's documents.ldac.

    A line a document, ``cells word:count ...``, words from 0. An empty document is ``0``.
    """
    check_separators(job.corpus.words, "", "--format ldac")
    with written(job.path / "documents.ldac", force=job.force) as file:
        for batch in job.corpus.documents([]):
            words = batch.column("words")
            counts = batch.column("counts")
            colon = pa.scalar(":", pa.large_string())
            cells = pc.binary_join_element_wise(
                as_text_array(words.values), as_text_array(counts.values), colon
            )
            lengths = pa.array(np.diff(words.offsets.to_numpy()))
            file.write(text_lines(lengths, join_lists(words.offsets, cells, " "), separator=" "))
    write_word_list(job.path / "vocab.txt", job.corpus.words, force=job.force)
    return {"documents": len(job.corpus), "words": job.corpus.n_words}
