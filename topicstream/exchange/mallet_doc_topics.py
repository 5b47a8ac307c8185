"""MALLET's doc-topics, a line a document.  Two layouts: dense, ``number name p0 p1 ...`` parted by tabs; pairs, with a head
line ``#doc name topic proportion ...`` and the topics from the largest on.

Documents' topics alone make no model: they are read into Parquet (id, topics, shares).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.exchange.common import as_text_array, join_lists, text_lines
from topicstream.files.outputs import written
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.output import AnswersFile, AnswerTable
from topicstream.machine import format_bytes
from topicstream.model.topic_model import TopicModel

HEAD = b"#doc name topic proportion ...\n"
READ = 8 << 20  # bytes of lines at a time
MOST_LINE = 8 << 20  # of one: some 300,000 topics with all digits


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
    from topicstream.errors import TopicsError
    from topicstream.inference.keep import Lists

    if out.exists() and not force:
        raise TopicsError(f"{out}: exists; --force replaces it")
    docs, width, number = 0, 0, 0
    stream: Any = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115
    with stream, AnswersFile(out, about=False, option="--model", force=force) as file:
        pairs = False
        try:
            for piece in _runs(path, stream):
                ids, offsets, topics, shares = [], [0], [], []
                for raw in piece:
                    number += 1
                    line = raw.strip()
                    if line.startswith(b"#"):
                        pairs = True
                        continue
                    if not line:
                        continue
                    fields = line.split(b"\t") if b"\t" in line else line.split()
                    values = b" ".join(fields[2:]).split()
                    try:
                        numbers = np.array(values, np.float64)
                        name = fields[1].decode("utf-8")
                        int(fields[0])
                    except (ValueError, IndexError, UnicodeDecodeError):
                        raise InputError(f"{path}:{number}: not 'number, name, proportions'") from None
                    if pairs:
                        if len(numbers) % 2 or (numbers[::2] != np.floor(numbers[::2])).any():
                            raise InputError(f"{path}:{number}: not pairs of topic and proportion")
                        which, what = numbers[::2].astype(np.int64), numbers[1::2]
                    else:
                        which, what = np.arange(len(numbers)), numbers
                        width = width or len(numbers)
                        if len(numbers) != width:
                            raise InputError(
                                f"{path}:{number}: {len(numbers)} topics where the lines before have {width}"
                            )
                    good = (
                        np.isfinite(what).all() and (what >= 0).all() and (which >= 0).all() and (which < 2**31).all()
                    )
                    if not good or not len(what) or what.sum() > 1.01 or (not pairs and what.sum() < 0.99):
                        raise InputError(
                            f"{path}:{number}: proportions that are negative, not finite or do not sum to 1"
                        )
                    ids.append(name)
                    topics.append(which)
                    shares.append(what)
                    offsets.append(offsets[-1] + len(what))
                if ids:
                    kept = Lists(
                        np.array(offsets, np.int64),
                        np.concatenate(topics).astype(np.int32),
                        np.concatenate(shares).astype(np.float32),
                    )
                    file.format.write(file.format.encode(pa.array(ids, pa.large_string()), kept, None))
                    docs += len(ids)
        except (OSError, EOFError, zlib.error) as e:
            raise InputError(f"{path}: cannot be read on ({e}); is it cut short?") from None
        if not docs:
            raise InputError(f"{path}: holds no document")
        file.commit()
    return {"documents": docs, "out": str(out), "layout": "pairs" if pairs else "dense"}


def _runs(path: Path, stream: Any) -> Iterator[list[bytes]]:
    """The lines, about ``READ`` bytes at a time, however long one would be."""
    found: list[bytes] = []
    size = number = 0
    while line := stream.readline(MOST_LINE):
        number += 1
        if len(line) == MOST_LINE and not line.endswith(b"\n"):
            raise InputError(f"{path}:{number}: a line of more than {format_bytes(MOST_LINE)}")
        found.append(line)
        size += len(line)
        if size >= READ:
            yield found
            found, size = [], 0
    if found:
        yield found
