"""Topics as Parquet or CSV.

    parquet        a row a word: word, count, df, then topic_0, topic_1, ...
    csv            p(word | topic), a row a word, a column a topic; not read again

Parquet holds phi: counts without the prior (float32). Seed words' pseudo-counts are among them, and
are taken out again when one of our files is read. Topics have the numbers that ``topics show``
prints, which after edits have gaps. The priors and the tokenizer are in the file's metadata under
``topicstream``. A file of another program needs the same columns, and ``alpha`` and ``beta`` from
the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from topicstream.base.errors import InputError, one_line
from topicstream.base.files.outputs import written
from topicstream.base.records import Amount, decode_record
from topicstream.model.exchange import Export, Given, Imported, check_words
from topicstream.model.manifest import Origin
from topicstream.model.topic_kinds import mark_kind
from topicstream.model.topic_model import TopicModel

KEY = b"topicstream"
GROUP_BYTES = 8 << 20
KEPT = ("engine", "cites", "options", "seed", "passes")
"""Fields of a manifest that only the file keeps."""
CARRIED = ("tokenizer", "seed_words", "topic_names", "label_docs", "weighting")
"""Fields of a manifest that an imported model takes over."""


class ExportedFacts(Origin, kw_only=True, omit_defaults=True):
    """The facts about a model that a file holds beside its table.

    Attributes
    ----------
    alpha
        Empty in a file of another program.
    numbers
        Numbers of the topics, in the order of the table. Empty: 0, 1, ...
    """

    numbers: list[int] = []
    alpha: list[Amount] = []
    beta: Amount = 0.01
    totals: list[Amount] = []


def collect_facts(model: TopicModel, numbers: Sequence[int] = ()) -> ExportedFacts:
    """Collect the facts about a model whose topics have these numbers."""
    carried = {name: getattr(model.manifest, name) for name in KEPT + CARRIED}
    return ExportedFacts(
        alpha=model.alpha.tolist(),
        beta=model.beta,
        totals=model.totals.tolist(),
        numbers=list(numbers),
        **carried,
    )


def describe_origin(facts: ExportedFacts) -> Origin:
    """Describe the origin of an imported model by the exported one."""
    values = {name: getattr(facts, name) for name in ("engine", "seed", "passes")}
    imported = {name: value for name, value in values.items() if value is not None}
    return Origin(imported=imported, **{name: getattr(facts, name) for name in CARRIED})


def read_facts(text: bytes, path: Path) -> ExportedFacts:
    """Read the facts of a file.

    Raises
    ------
    InputError
        If they are damaged.
    """
    try:
        return decode_record(orjson.loads(text), ExportedFacts, path, "Export again", InputError)
    except ValueError:
        raise InputError(f"{path}: its metadata is damaged; export again") from None


def write(job: Export) -> dict[str, float]:
    """Write one Parquet file."""
    model = job.model
    vocabulary = job.model.vocabulary
    names = [f"topic_{k}" for k in job.numbers]
    word_fields = [("word", pa.large_string()), ("count", pa.int64()), ("df", pa.int64())]
    facts = msgspec.json.encode(collect_facts(model, job.numbers))
    schema = pa.schema([*word_fields, *((n, pa.float32()) for n in names)], {KEY: facts})
    step = max(1, GROUP_BYTES // (4 * model.n_topics))
    with (
        written(job.path, force=job.force) as file,
        pq.ParquetWriter(
            file, schema, compression="zstd", use_dictionary=False, write_statistics=False
        ) as writer,
    ):
        for start in range(0, model.n_words, step):
            rows = slice(start, min(start + step, model.n_words))
            numbers = [pa.array(v[rows], pa.int64()) for v in (vocabulary.counts, vocabulary.df)]
            by_topic = np.ascontiguousarray(model.rows(np.arange(rows.start, rows.stop)).T)
            writer.write_table(
                pa.table(
                    [model.vocabulary.words[rows], *numbers, *map(pa.array, by_topic)],
                    schema=schema,
                )
            )
    return {"topics": model.n_topics, "words": model.n_words}


def write_csv(job: Export) -> dict[str, float]:
    """Write the probability of every word in each topic, for spreadsheets.

    Heads of columns name the kind of a topic that is no ordinary one.
    """
    model = job.model
    names = []
    for number, kind in zip(job.numbers, model.kinds, strict=True):
        mark = mark_kind(kind)
        names.append(f"topic_{number}_{mark}" if mark else f"topic_{number}")
    schema = pa.schema([("word", pa.large_string()), *((name, pa.float32()) for name in names)])
    with written(job.path, force=job.force) as file, pacsv.CSVWriter(file, schema) as writer:
        for start, rows in model.spans():
            p = np.ascontiguousarray(((rows + model.beta) / model.norms).T, np.float32)
            words = model.vocabulary.words.slice(start, len(rows))
            writer.write_table(pa.table([words, *map(pa.array, p)], schema=schema))
    return {"topics": model.n_topics, "words": model.n_words}


def read_columns(path: Path) -> tuple[pa.Table, ExportedFacts]:
    """Read a Parquet file without missing values, and our metadata.

    Raises
    ------
    InputError
        If it is no such file.
    """
    try:
        table = pq.read_table(path)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as e:
        raise InputError(f"{path}: not a whole Parquet file ({one_line(e)[:200]})") from None
    if any(column.null_count for column in table.columns):
        raise InputError(f"{path}: a value is missing (null)")
    return table, read_facts((table.schema.metadata or {}).get(KEY, b"{}"), path)


def read(path: Path, given: Given) -> Imported:
    """Read a file with columns ``word`` and ``topic_0`` ... ``topic_K-1``.

    The numbers of the topics may be others, which the file names.
    """
    table, facts = read_columns(path)
    columns = [
        f"topic_{k}"
        for k in facts.numbers or range(sum(n.startswith("topic_") for n in table.column_names))
    ]
    missing = [n for n in ["word", *(columns or ["topic_0"])] if n not in table.column_names]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}")
    if facts.alpha and len(facts.alpha) != len(columns):
        raise InputError(f"{path}: {len(columns)} columns of topics and {len(facts.alpha)} priors")
    phi = np.empty((len(table), len(columns)), np.float32)
    for k, name in enumerate(columns):
        phi[:, k] = read_numbers(table, name, path)
    counts = {n: read_numbers(table, n, path) for n in ("count", "df") if n in table.column_names}
    has_priors = facts.alpha or given.alpha is not None
    return Imported(
        words=check_words(table["word"], path),
        phi=phi,
        alpha=facts.alpha or None,
        beta=facts.beta,
        counts=counts.get("count"),
        df=counts.get("df"),
        about=describe_origin(facts),
        notes=()
        if has_priors
        else ("the file says no priors: alpha 1/K, beta 0.01 (--alpha, --beta)",),
    )


def read_numbers(table: pa.Table, name: str, path: Path) -> np.ndarray:
    """Read a column of numbers."""
    kind = table.schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"{path}: the column {name} contains {kind}, not numbers")
    return np.asarray(table[name].to_numpy())
