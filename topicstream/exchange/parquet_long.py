"""phi as Parquet, a row an entry: topic int32, word, count float32 (without the prior), p double.

Only counts above zero are written (p of the others is beta / (total + W beta)); a word without any has one row of zero,
so that no word is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError, one_line
from topicstream.exchange.common import EntrySpool, Imported, check_size, numbers_of, prior
from topicstream.exchange.parquet import KEY, about, opened, origin, said_by
from topicstream.files.outputs import written
from topicstream.files.row_groups import batches
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


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """Columns topic, word and count (or p); rows in any order."""
    file = opened(path)
    names = file.schema_arrow.names
    value = next((n for n in ("count", "weight", "p") if n in names), None)
    if value is None or not {"topic", "word"} <= set(names):
        raise InputError(f"{path}: needs columns topic, word and count (or p)")
    said = said_by(file, path)
    spool, known = EntrySpool(folder), words if words is not None else pa.array([], pa.large_string())
    try:
        for batch in batches(path.resolve(), ["topic", "word", value], ROWS):
            if any(c.null_count for c in batch.columns):
                raise InputError(f"{path}: a value is missing (null)")
            topics = batch.column("topic").cast(pa.int64()).to_numpy()
            numbers_of(topics, str(path), "topic")
            values = numbers_of(batch.column(value).cast(pa.float64()).to_numpy(), str(path), value)
            listed = as_words(batch.column("word"))
            if words is None:
                new = pc.unique(listed)
                new = new.filter(pc.invert(pc.is_in(new, value_set=known)))
                known = pa.concat_arrays([known, new])
            ids = pc.fill_null(pc.index_in(listed, value_set=known), -1).to_numpy(zero_copy_only=False)
            if (ids < 0).any():
                raise InputError(f"{path}: the word {listed[int(np.argmax(ids < 0))].as_py()!r} is not in --words")
            check_size(str(path), max(len(known), 1), int(topics.max(initial=0)) + 1)
            spool.add(ids, topics, values)
    except (OSError, ValueError, KeyError, pa.ArrowException) as e:
        raise InputError(f"{path}: cannot be read ({one_line(e)[:200]})") from None
    topics_n = max(spool.topics, len(said.get("alpha", [])))
    if not spool.words:
        raise InputError(f"{path}: holds no entry")

    def rows() -> Iterator[np.ndarray]:
        yield from spool.rows(len(known), topics_n)

    given = said.get("alpha", 1.0 / topics_n) if alpha is None else alpha
    least = 0.0 if value == "p" else 0.01
    return Imported(
        words=known,
        topics=topics_n,
        rows=rows(),
        alpha=prior(given, topics_n, "--alpha"),
        beta=float((0.0 if value == "p" else said.get("beta", least)) if beta is None else beta),
        about=origin(said),
        notes=() if said or alpha is not None else ("the file says no priors: alpha 1/K (--alpha, --beta)",),
    )
