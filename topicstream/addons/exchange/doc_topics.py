"""Topics of documents, as Parquet and as MALLET writes them.

Parquet has id, topics, shares, tokens, oov_rate, flag, as ``topics infer --out x.parquet`` writes
them. MALLET's doc-topics have a line a document, in two layouts: dense, ``number name p0 p1 ...``
parted by tabs; pairs, with a head line ``#doc name topic proportion ...`` and the topics from the
largest on.

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
    open_answers,
)
from topicstream.model.exchange import Export, as_text_array, join_lists, open_input, text_lines

HEAD = b"#doc name topic proportion ...\n"
DOCUMENTS = 1 << 10
"""Documents that are read at a time."""


def write_parquet(job: Export) -> dict[str, float]:
    """Write one Parquet file, with the ``top`` largest topics of each document."""
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
    """Write one text file: the dense layout or, with ``top``, pairs of topic and share."""
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
                # as topic-word-weights.txt counts them
                places = as_text_array(pc.index_in(topics.values, numbers))
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
    """Convert doc-topics of either layout, gzipped or not, to a .parquet, .jsonl or .csv file."""
    if out.exists() and not force:
        raise TopicsError(f"{out}: exists; --force replaces it")
    schema = answer_schema(facts=False)
    n_documents = 0
    with open_answers(out, schema, option="--model", force=force) as file:
        read = DocTopics(path)
        rows = read.documents()
        try:
            while lines := list(islice(rows, DOCUMENTS)):
                names, topics, shares = zip(*lines, strict=True)
                offsets = np.cumsum([0, *map(len, topics)])
                lists = Lists(offsets, np.concatenate(topics), np.concatenate(shares))
                file.write(
                    file.encode(answer_batch(schema, pa.array(names, pa.large_string()), lists))
                )
                n_documents += len(lines)
        except (OSError, EOFError, zlib.error) as e:
            raise InputError(f"{path}: cannot be read further ({e}); is it truncated?") from None
        if not n_documents:
            raise InputError(f"{path}: contains no document")
    return {"documents": n_documents, "out": str(out), "layout": read.layout}


class DocTopics:
    """Lines of MALLET's doc-topics.

    Attributes
    ----------
    layout
        ``dense`` or ``pairs``, as the first line with proportions says: MALLET puts the same head
        line above both.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head = False
        self._width = 0
        self.layout = ""

    def documents(self) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield (name, topics int32, shares float32) of each line.

        Raises
        ------
        InputError
            With the number of a line that is none.
        """
        with open_input(self._path) as stream:
            for number, raw in enumerate(stream, 1):
                line = raw.strip()
                self._head |= line.startswith(b"#")
                if line and not line.startswith(b"#"):
                    yield self._parse_line(line, f"{self._path}:{number}")

    def _parse_line(self, line: bytes, location: str) -> tuple[str, np.ndarray, np.ndarray]:
        """Parse a line to name, topics and shares, or raise InputError."""
        fields = line.split(b"\t") if b"\t" in line else _split_at_blanks(line)
        try:
            texts = b" ".join(fields[2:]).split()
            values = np.array(texts, np.float64)
            name = fields[1].decode("utf-8")
            int(fields[0])
        except (ValueError, IndexError, UnicodeDecodeError):
            raise InputError(f"{location}: expected 'number, name, proportions'") from None
        self.layout = self.layout or self._detect_layout(texts, values)
        self._width = self._width or len(values)
        parse = self._parse_pairs if self.layout == "pairs" else self._parse_dense
        topics, shares = parse(values, location)
        return name, topics, shares

    def _detect_layout(self, texts: list[bytes], values: np.ndarray) -> str:
        """Tell the layout of a line, in which a topic is written without a point."""
        if not texts:
            return "pairs" if self._head else ""
        may_be_pairs = len(texts) % 2 == 0 and all(map(bytes.isdigit, texts[::2]))
        may_be_dense = abs(values.sum() - 1) < 0.01
        if may_be_pairs and (self._head or not may_be_dense):
            return "pairs"
        return "pairs" if self._head and not may_be_dense else "dense"

    def _parse_pairs(self, values: np.ndarray, location: str) -> tuple[np.ndarray, np.ndarray]:
        """Parse pairs of topic and share."""
        topics = values[::2]
        shares = values[1::2]
        if len(topics) != len(shares) or (topics != np.clip(np.floor(topics), 0, 2**31 - 1)).any():
            raise InputError(f"{location}: expected pairs of topic and proportion")
        _check_shares(shares, 0.0, location)
        return topics.astype(np.int32), shares.astype(np.float32)

    def _parse_dense(self, values: np.ndarray, location: str) -> tuple[np.ndarray, np.ndarray]:
        """Parse a share of each topic."""
        if len(values) != self._width:
            raise InputError(
                f"{location}: {len(values)} topics, but earlier lines have {self._width}"
            )
        _check_shares(values, 0.99, location)
        return np.arange(len(values), dtype=np.int32), values.astype(np.float32)


def _split_at_blanks(line: bytes) -> list[bytes]:
    """Split a line into number, name and proportions, where the name may have blanks."""
    fields = line.split()
    last = 1
    for place, field in enumerate(fields[2:], 2):
        try:
            float(field)
        except ValueError:
            last = place
    return [fields[0], b" ".join(fields[1 : last + 1]), *fields[last + 1 :]]


def _check_shares(shares: np.ndarray, least: float, location: str) -> None:
    """Raise InputError if these are no proportions, or their sum is not above ``least``."""
    total = shares.sum()
    empty = not len(shares) and not least
    if not (np.isfinite(total) and (shares >= 0).all() and (empty or least < total < 1.01)):
        raise InputError(f"{location}: proportions are negative, not finite or do not sum to 1")
