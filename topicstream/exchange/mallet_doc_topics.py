"""MALLET's doc-topics, a line a document.  Two layouts: dense, ``number name p0 p1 ...`` parted by tabs; pairs, with a head
line ``#doc name topic proportion ...`` and the topics from the largest on.

Documents' topics alone make no model: they are read into Parquet (id, topics, shares).
"""

from __future__ import annotations

import gzip
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, TopicsError
from topicstream.exchange.common import as_text_array, join_lists, text_lines
from topicstream.files.outputs import written
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.keep import Lists
from topicstream.inference.output import AnswersFile, AnswerTable
from topicstream.model.topic_model import TopicModel

HEAD = b"#doc name topic proportion ...\n"
LINES = 1 << 10


def write(
    model: TopicModel, corpus: Corpus, path: Path, *, force: bool, edits: bool, top: int | None = None
) -> dict[str, Any]:
    """``path``: one file.  Without ``top`` the dense layout; with it the pairs of so many topics."""
    run, done = Answers(InferConfig(model, corpus, top=top, edits=edits)), 0
    format = AnswerTable(columns=run.columns)
    numbers = np.arange(model.n_topics) if run.view is None else run.view.numbers
    position = np.empty(int(numbers.max()) + 1, np.int32)
    position[numbers] = np.arange(len(numbers))  # by position, as topic-word-weights.txt counts them
    with written(path, force=force) as file:
        if top is not None:
            file.write(HEAD)
        for table in run.encoded(format.encode):
            (batch,) = table.combine_chunks().to_batches() or [None]
            if batch is None:
                continue
            topics, shares = batch.column("topics"), batch.column("shares")
            values = as_text_array(pc.cast(shares.values, pa.float64()))
            if top is not None:
                values = pc.binary_join_element_wise(
                    as_text_array(position[topics.values.to_numpy()]), values, pa.scalar("\t", pa.large_string())
                )
            joined = join_lists(shares.offsets, values, "\t")
            names = pc.replace_substring_regex(batch.column("id"), r"\s", "_")
            file.write(text_lines(pa.array(np.arange(done, done + len(batch))), names, joined))
            done += len(batch)
    return {"documents": done, "topics": len(numbers), "layout": "dense" if top is None else "pairs"}


def to_parquet(path: Path, out: Path, *, force: bool) -> dict[str, Any]:
    """Either layout, gzipped or not -> ``out`` (.parquet, .jsonl or .csv)."""
    if out.exists() and not force:
        raise TopicsError(f"{out}: exists; --force replaces it")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    docs, layout = 0, _Layout(path)
    with opener(path, "rb") as stream, AnswersFile(out, about=False, option="--model", force=force) as file:
        lines = enumerate(stream, 1)
        try:
            while some := list(islice(lines, LINES)):
                read = [document for number, line in some if (document := layout.document(number, line))]
                if read:
                    names, topics, shares = zip(*read, strict=True)
                    offsets = np.cumsum([0, *map(len, topics)])
                    lists = Lists(offsets, np.concatenate(topics), np.concatenate(shares))
                    file.format.write(file.format.encode(pa.array(names, pa.large_string()), lists, None))
                    docs += len(read)
        except (OSError, EOFError, zlib.error) as e:
            raise InputError(f"{path}: cannot be read on ({e}); is it cut short?") from None
        if not docs:
            raise InputError(f"{path}: holds no document")
        file.commit()
    return {"documents": docs, "out": str(out), "layout": "pairs" if layout.pairs else "dense"}


class _Layout:
    """Reads lines of one file; pairs: since the head line of that layout."""

    def __init__(self, path: Path) -> None:
        self.path, self.pairs, self._width = path, False, 0

    def document(self, number: int, raw: bytes) -> tuple[str, np.ndarray, np.ndarray] | None:
        """(name, topics int32, shares float32) of a line; None of a head or an empty line."""
        line = raw.strip()
        self.pairs |= line.startswith(b"#")
        if not line or line.startswith(b"#"):
            return None
        where = f"{self.path}:{number}"
        fields = line.split(b"\t") if b"\t" in line else line.split()
        try:
            values = np.array(b" ".join(fields[2:]).split(), np.float64)
            name = fields[1].decode("utf-8")
            int(fields[0])
        except (ValueError, IndexError, UnicodeDecodeError):
            raise InputError(f"{where}: not 'number, name, proportions'") from None
        if self.pairs:
            topics, shares = values[::2], values[1::2]
            if len(topics) != len(shares) or (topics != np.clip(np.floor(topics), 0, 2**31 - 1)).any():
                raise InputError(f"{where}: not pairs of topic and proportion")
        else:
            topics, shares = np.arange(float(len(values))), values
            self._width = self._width or len(values)
            if len(values) != self._width:
                raise InputError(f"{where}: {len(values)} topics where the lines before have {self._width}")
        total = shares.sum()
        if not (np.isfinite(total) and (shares >= 0).all() and (0 if self.pairs else 0.99) < total < 1.01):
            raise InputError(f"{where}: proportions that are negative, not finite or do not sum to 1")
        return name, topics.astype(np.int32), shares.astype(np.float32)
