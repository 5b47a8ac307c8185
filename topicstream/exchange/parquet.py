"""phi as Parquet, a row a word: word, count, df, then topic_0 ... topic_K-1, counts without the prior (float32); seed words'
pseudo-counts are among them, and ours takes them out again when it reads the file.

The priors and the tokenizer are in the file's metadata under ``topicstream``.  A file of another program needs the same
columns and ``alpha`` and ``beta`` from the caller.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.errors import InputError, one_line
from topicstream.exchange.common import Imported, check_size, checked_words, numbers_of, prior
from topicstream.files.outputs import written
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
        for start in range(0, model.n_words, step):
            rows = slice(start, min(start + step, model.n_words))
            numbers = [pa.array(v[rows], pa.int64()) for v in (vocabulary.counts, vocabulary.df)]
            turned = np.ascontiguousarray(model.rows(np.arange(rows.start, rows.stop)).T)
            writer.write_table(pa.table([model.words[rows], *numbers, *map(pa.array, turned)], schema=schema))
    return {"topics": model.n_topics, "words": model.n_words}


def read_columns(path: Path, columns: list[str] | None = None) -> pa.Table:
    """A Parquet file without missing values; InputError where it is none."""
    try:
        table = pq.read_table(path, columns=columns)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as e:
        raise InputError(f"{path}: not a whole Parquet file ({one_line(e)[:200]})") from None
    if any(column.null_count for column in table.columns):
        raise InputError(f"{path}: a value is missing (null)")
    return table


def said_by(schema: pa.Schema, path: Path) -> dict[str, Any]:
    """Our metadata, checked; {} where the file has none."""
    raw = (schema.metadata or {}).get(KEY)
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


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A file with a column ``word`` and columns ``topic_0`` ... ``topic_K-1``."""
    table = read_columns(path)
    topics = sum(n.startswith("topic_") for n in table.column_names)
    wanted = [f"topic_{k}" for k in range(topics)]
    missing = [n for n in ["word", *wanted] if n not in table.column_names]
    if missing or not topics:
        hint = "; --format parquet-long reads entries" if {"topic", "word"} <= set(table.column_names) else ""
        raise InputError(f"{path}: no column {(missing or ['topic_0'])[0]!r}{hint}")
    check_size(str(path), len(table), topics)
    said = said_by(table.schema, path)
    if said and len(said["alpha"]) != topics:
        raise InputError(f"{path}: {topics} columns of topics and {len(said['alpha'])} priors")
    phi = np.empty((len(table), topics), np.float32)
    for k, name in enumerate(wanted):
        phi[:, k] = numbers_of(column_of(table, name, path), str(path), name)
    counts = {n: column_of(table, n, path) for n in ("count", "df") if n in table.column_names}
    return Imported(
        words=checked_words(table["word"], str(path)),
        phi=phi,
        alpha=prior(said.get("alpha", 1.0 / topics) if alpha is None else alpha, topics, "--alpha"),
        beta=float(said.get("beta", 0.01) if beta is None else beta),
        counts=counts.get("count"),
        df=counts.get("df"),
        about=origin(said),
        notes=() if said or alpha is not None else ("the file says no priors: alpha 1/K, beta 0.01 (--alpha, --beta)",),
    )


def column_of(table: pa.Table, name: str, path: Path) -> np.ndarray:
    """A column of numbers."""
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"{path}: the column {name} holds {kind}, no numbers")
    return np.asarray(table[name].to_numpy())
