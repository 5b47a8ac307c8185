"""phi as Parquet, a row a word: word, count, df, then topic_0 ... topic_K-1, counts without the prior (float32); seed words'
pseudo-counts are among them, and ours takes them out again when it reads the file.

The priors and the tokenizer are in the file's metadata under ``topicstream``.  A file of another program needs the same
columns and ``alpha`` and ``beta`` from the caller.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.errors import InputError, one_line
from topicstream.exchange.common import Imported, check_size, checked_words, prior
from topicstream.files.outputs import written
from topicstream.files.word_file import read_words
from topicstream.model.topic_model import TopicModel

KEY = b"topicstream"
GROUP_BYTES = 8 << 20
KEPT = ("engine", "cites", "options", "seed", "passes", "tokenizer", "seed_words", "labels", "label_docs", "weighting")


def about(model: TopicModel) -> dict[str, Any]:
    """What a file says of a model beside its numbers."""
    return {
        "alpha": model.alpha.tolist(),
        "beta": model.beta,
        "totals": model.totals.tolist(),
        **{k: model.manifest[k] for k in KEPT if k in model.manifest},
    }


def origin(said: dict[str, Any]) -> dict[str, Any]:
    """The part of ``about`` that goes into the imported model's manifest."""
    kinds = {"tokenizer": dict, "seed_words": list, "labels": dict, "label_docs": list, "weighting": dict}
    kept = {k: said[k] for k, kind in kinds.items() if isinstance(said.get(k), kind)}
    return {**kept, "imported": {k: said[k] for k in ("engine", "seed", "passes") if k in said}}


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: one file."""
    names = [f"topic_{k}" for k in range(model.n_topics)]
    own = [("word", pa.large_string()), ("count", pa.int64()), ("df", pa.int64())]
    schema = pa.schema([*own, *((n, pa.float32()) for n in names)], {KEY: json.dumps(about(model)).encode()})
    step = max(1, GROUP_BYTES // (4 * model.n_topics))
    vocabulary = model.vocabulary
    with (
        written(path, force=force) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False, write_statistics=False) as writer,
    ):
        for start, rows in _joined(model, step):
            end = start + len(rows)
            words = [model.words.slice(start, len(rows))]
            numbers = [pa.array(v[start:end], pa.int64()) for v in (vocabulary.counts, vocabulary.df)]
            turned = np.ascontiguousarray(rows.T)
            writer.write_table(pa.table([*words, *numbers, *(pa.array(c) for c in turned)], schema=schema))
    return {"topics": model.n_topics, "words": model.n_words}


def _joined(model: TopicModel, step: int) -> Iterator[tuple[int, np.ndarray]]:
    """``spans`` in steps of so many rows."""
    held = np.empty((step, model.n_topics), np.float32)
    first = n = 0
    for _, rows in model.spans():
        at = 0
        while at < len(rows):
            more = min(step - n, len(rows) - at)
            held[n : n + more] = rows[at : at + more]
            n, at = n + more, at + more
            if n == step:
                yield first, held
                first, n = first + n, 0
    if n:
        yield first, held[:n]


def opened(path: Path) -> Any:
    """A Parquet file; InputError where it is none."""
    try:
        file = pq.ParquetFile(path, memory_map=False, pre_buffer=False)
        list(file.reader.column_paths)  # names that are no UTF-8
        return file
    except (OSError, UnicodeDecodeError, pa.ArrowException) as e:
        raise InputError(f"{path}: not a whole Parquet file ({one_line(e)[:200]})") from None


def said_by(file: Any, path: Path) -> dict[str, Any]:
    """Our metadata, checked; {} where the file has none."""
    raw = (file.schema_arrow.metadata or {}).get(KEY)
    if raw is None:
        return {}
    try:
        said = json.loads(raw)
        prior(said["alpha"], len(said["alpha"]), str(path))
        if not (math.isfinite(said["beta"]) and said["beta"] >= 0):
            raise ValueError
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError(f"{path}: its metadata is damaged; export again") from None
    return dict(said)


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A file with a column ``word`` and columns ``topic_0`` ... ``topic_K-1``."""
    file = opened(path)
    names = file.schema_arrow.names
    topics = sum(n.startswith("topic_") for n in names)
    wanted = [f"topic_{k}" for k in range(topics)]
    missing = [n for n in ["word", *wanted] if n not in names]
    if missing or not topics:
        hint = "; --format parquet-long reads entries" if {"topic", "word"} <= set(names) else ""
        raise InputError(f"{path}: no column {(missing or ['topic_0'])[0]!r}{hint}")
    check_size(str(path), file.metadata.num_rows, topics)
    said = said_by(file, path)
    del file  # what it knows of a thousand columns takes tens of megabytes, and more while the words are read
    if said and len(said["alpha"]) != topics:
        raise InputError(f"{path}: {topics} columns of topics and {len(said['alpha'])} priors")
    try:
        own = read_words(path.resolve(), ["word", *(n for n in ("count", "df") if n in names)])
    except (OSError, ValueError, pa.ArrowException) as e:
        raise InputError(f"{path}: cannot be read ({one_line(e)[:200]})") from None
    listed = checked_words(own["word"], str(path))

    def rows() -> Iterator[np.ndarray]:
        step, file = max(1, GROUP_BYTES // (4 * topics)), opened(path)
        try:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(step, row_groups=[group], columns=wanted):
                    if any(c.null_count for c in batch.columns):
                        raise InputError(f"{path}: a value is missing (null)")
                    columns = [c.to_numpy().astype(np.float32, copy=False) for c in batch.columns]
                    yield np.ascontiguousarray(np.stack(columns, axis=1))
        except (OSError, ValueError, pa.ArrowException) as e:
            raise InputError(f"{path}: cannot be read ({one_line(e)[:200]})") from None

    given = said.get("alpha", 1.0 / topics) if alpha is None else alpha
    return Imported(
        words=listed,
        topics=topics,
        rows=rows(),
        alpha=prior(given, topics, "--alpha"),
        beta=float(said.get("beta", 0.01) if beta is None else beta),
        counts=own["count"].to_numpy() if "count" in names else None,
        df=own["df"].to_numpy() if "df" in names else None,
        about=origin(said),
        notes=() if said or alpha is not None else ("the file says no priors: alpha 1/K, beta 0.01 (--alpha, --beta)",),
    )
