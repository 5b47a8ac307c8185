"""Topics of documents, as Parquet and as MALLET writes them.

Parquet has id, topics, shares, tokens, oov_rate, flag, as ``topics infer --out x.parquet`` writes
them.  MALLET's doc-topics
have a line a document, in two layouts: dense, ``number name p0 p1 ...`` parted by tabs; pairs, with
a head line ``#doc name topic proportion ...`` and the topics from the largest on.

Documents' topics alone make no model: they are read into Parquet (id, topics, shares).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, TopicsError
from topicstream.base.files.outputs import written
from topicstream.base.records import Json
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.output import (
    Lists,
    ParquetAnswers,
    answer_batch,
    answer_schema,
    written_answers,
)
from topicstream.model.exchange import Export, as_text_array, join_lists, opened, text_lines

HEAD = b"#doc name topic proportion ...\n"
DOCUMENTS = 1 << 10
"""Read at a time."""


def write_parquet(job: Export) -> dict[str, float]:
    """One file; ``top``: only so many topics a document, the largest first."""
    run = Answers(InferConfig(job.model, job.corpus, top=job.top, edits=job.edits))
    with written(job.path, force=job.force) as file:
        answers = ParquetAnswers(file, run.schema)
        run.write(answers)
        answers.close()
    return {
        "documents": run.tally.documents,
        "topics": len(job.numbers),
        "without_known_word": run.tally.without_known_word,
    }


def write_mallet(job: Export) -> dict[str, float | str]:
    """One file.  Without ``top`` the dense layout; with it the pairs of so many topics."""
    run = Answers(InferConfig(job.model, job.corpus, top=job.top, edits=job.edits))
    documents = 0
    numbers = pa.array(job.numbers, pa.int32())
    with written(job.path, force=job.force) as file:
        if job.top is not None:
            file.write(HEAD)
        for batch in run.batches():
            topics = batch.column("topics")
            shares = batch.column("shares")
            values = as_text_array(pc.cast(shares.values, pa.float64()))
            if job.top is not None:
                places = as_text_array(
                    pc.index_in(topics.values, numbers)
                )  # as topic-word-weights.txt counts them
                values = pc.binary_join_element_wise(
                    places, values, pa.scalar("\t", pa.large_string())
                )
            names = pc.replace_substring_regex(batch.column("id"), r"\s", "_")
            counted = pa.array(np.arange(documents, documents + len(batch)))
            file.write(text_lines(counted, names, join_lists(shares.offsets, values, "\t")))
            documents += len(batch)
    return {
        "documents": documents,
        "topics": len(numbers),
        "without_known_word": run.tally.without_known_word,
        "layout": "dense" if job.top is None else "pairs",
    }


def to_parquet(path: Path, out: Path, *, force: bool) -> dict[str, Json]:
    """Either layout, gzipped or not -> ``out`` (.parquet, .jsonl or .csv)."""
    if out.exists() and not force:
        raise TopicsError(f"{out}: exists; --force replaces it")
    schema = answer_schema(facts=False)
    n_documents = 0
    with written_answers(out, schema, option="--model", force=force) as file:
        read = documents(path)
        try:
            while some := list(islice(read, DOCUMENTS)):
                names, topics, shares = zip(*some, strict=True)
                offsets = np.cumsum([0, *map(len, topics)])
                lists = Lists(offsets, np.concatenate(topics), np.concatenate(shares))
                file.write(
                    file.encode(answer_batch(schema, pa.array(names, pa.large_string()), lists))
                )
                n_documents += len(some)
        except (OSError, EOFError, zlib.error) as e:
            raise InputError(f"{path}: cannot be read further ({e}); is it truncated?") from None
        if not n_documents:
            raise InputError(f"{path}: contains no document")
    with opened(path) as stream:
        return {
            "documents": n_documents,
            "out": str(out),
            "layout": "pairs" if stream.read(1) == b"#" else "dense",
        }


def documents(path: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, topics int32, shares float32) of each line; InputError with the line's number for what
    is none.
    """
    pairs = False
    width = 0
    with opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            line = raw.strip()
            where = f"{path}:{number}"
            pairs |= line.startswith(b"#")
            if not line or line.startswith(b"#"):
                continue
            fields = line.split(b"\t") if b"\t" in line else line.split()
            try:
                values = np.array(b" ".join(fields[2:]).split(), np.float64)
                name = fields[1].decode("utf-8")
                int(fields[0])
            except (ValueError, IndexError, UnicodeDecodeError):
                raise InputError(f"{where}: expected 'number, name, proportions'") from None
            topics, shares = (
                (values[::2], values[1::2]) if pairs else (np.arange(float(len(values))), values)
            )
            width = width or len(values)
            if pairs and (
                len(topics) != len(shares)
                or (topics != np.clip(np.floor(topics), 0, 2**31 - 1)).any()
            ):
                raise InputError(f"{where}: expected pairs of topic and proportion")
            if not pairs and len(values) != width:
                raise InputError(f"{where}: {len(values)} topics, but earlier lines have {width}")
            total = shares.sum()
            if not (
                np.isfinite(total) and (shares >= 0).all() and (0 if pairs else 0.99) < total < 1.01
            ):
                raise InputError(
                    f"{where}: proportions are negative, not finite or do not sum to 1"
                )
            yield name, topics.astype(np.int32), shares.astype(np.float32)
