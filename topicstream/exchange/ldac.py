"""The corpus as LDA-C reads it: a line a document, ``cells word:count ...``, words from 0; empty documents are ``0``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.exchange.common import as_text_array, fit_for_text, join_lists, text_lines, write_word_list
from topicstream.files.outputs import written


def write(model: Any, corpus: Corpus, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder for documents.ldac and vocab.txt; training and held-out documents in the order of the ingest."""
    fit_for_text(corpus.words, "", "--format ldac")
    docs = 0
    with written(path / "documents.ldac", force=force) as file:
        for batch in corpus.documents([]):
            words, counts = batch.column("words"), batch.column("counts")
            cells = pc.binary_join_element_wise(
                as_text_array(words.values), as_text_array(counts.values), pa.scalar(":", pa.large_string())
            )
            joined = join_lists(words.offsets, cells, " ")
            lengths = np.diff(words.offsets.to_numpy())
            file.write(text_lines(pa.array(lengths), joined, separator=" "))
            docs += len(batch)
    write_word_list(path / "vocab.txt", corpus.words, force=force)
    return {"documents": docs, "words": corpus.n_words}
