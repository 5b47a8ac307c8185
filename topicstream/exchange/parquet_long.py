"""phi as Parquet, a row an entry: topic int32, word, count float32 (without the prior), p double.

Only counts above zero are written (p of the others is beta / (total + W beta)); a word without any has one row of zero,
so that no word is lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError
from topicstream.exchange.common import Imported, check_size, numbers_of, prior, summed
from topicstream.exchange.parquet import KEY, about, column_of, origin, read_columns, said_by
from topicstream.files.outputs import written
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import as_words

ROWS = 1 << 17


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: one file."""
    schema = pa.schema(
        [("topic", pa.int32()), ("word", pa.large_string()), ("count", pa.float32()), ("p", pa.float64())],
        {KEY: json.dumps(about(model)).encode()},
    )
    entries, norms = 0, model.norms
    with (
        written(path, force=force) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=["word"]) as writer,
    ):
        for start, rows in model.spans():
            there = rows > 0
            there[~there.any(axis=1), 0] = True
            w, k = np.nonzero(there)
            counts = rows[w, k]
            p = (counts.astype(np.float64) + model.beta) / norms[k]
            words = model.words.slice(start, len(rows)).take(pa.array(w))
            table = pa.table([pa.array(k.astype(np.int32)), words, pa.array(counts), pa.array(p)], schema=schema)
            writer.write_table(table, row_group_size=ROWS)
            entries += len(table)
    return {"topics": model.n_topics, "words": model.n_words, "entries": entries}


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """Columns topic, word and count (or p); rows in any order."""
    table = read_columns(path)
    value = next((n for n in ("count", "weight", "p") if n in table.column_names), None)
    if value is None or not {"topic", "word"} <= set(table.column_names):
        raise InputError(f"{path}: needs columns topic, word and count (or p)")
    said = said_by(table.schema, path)
    topic = numbers_of(column_of(table, "topic", path), str(path), "topic").astype(np.int64)
    values = numbers_of(column_of(table, value, path), str(path), value)
    named = as_words(table["word"])
    listed = words if words is not None else pc.unique(named)
    ids = pc.index_in(named, value_set=listed)
    if ids.null_count:
        raise InputError(f"{path}: the word {named.filter(ids.is_null())[0].as_py()!r} is not in --words")
    topics = max(int(topic.max(initial=-1)) + 1, len(said.get("alpha", [])))
    check_size(str(path), len(listed), topics)
    least = 0.0 if value == "p" else said.get("beta", 0.01)
    return Imported(
        words=listed,
        phi=summed(ids.to_numpy(), topic, values, len(listed), topics),
        alpha=prior(said.get("alpha", 1.0 / topics) if alpha is None else alpha, topics, "--alpha"),
        beta=float(least if beta is None else beta),
        about=origin(said),
        notes=() if said or alpha is not None else ("the file says no priors: alpha 1/K (--alpha, --beta)",),
    )
