"""MALLET's state: three head lines (names, alpha, beta), then ``doc source pos typeindex type topic``, a line a token."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.exchange.common import EntrySpool, Imported, check_size, fit_for_text, prior, read_table, text_lines
from topicstream.files.outputs import written
from topicstream.model.topic_model import TopicModel
from topicstream.training.state.token_topics import token_topics

_COLUMNS = {
    "doc": pa.int64(),
    "source": pa.large_string(),
    "pos": pa.int64(),
    "typeindex": pa.int64(),
    "type": pa.large_string(),
    "topic": pa.int64(),
}
MOST_HEAD = 64 << 20
HEAD = b"#doc source pos typeindex type topic\n"


def write(model: TopicModel, corpus: Corpus, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: one gzipped file.  Only engines that give every token a topic of its own have a state; its training
    folder must still be there.  A corpus keeps no order of words: ``pos`` counts the tokens of a document by word."""
    blocks = token_topics(model.path, corpus, model.n_topics, "--format mallet-state")
    fit_for_text(corpus.words, " \\t", "--format mallet-state")
    tokens, topics = 0, model.n_topics
    with written(path, force=force) as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0) as file:
        file.write(HEAD)
        file.write(f"#alpha : {' '.join(repr(float(a)) for a in model.alpha)} \n#beta : {model.beta!r}\n".encode())
        for block, z in blocks:
            each = np.add.reduceat(np.append(block.counts, 0), block.indptr[:-1])[: block.n_docs]
            each = np.where(np.diff(block.indptr) > 0, each, 0)
            words = np.repeat(block.vocab[block.words], block.counts)
            docs = np.repeat(np.arange(block.first_doc, block.first_doc + block.n_docs), each)
            pos = np.arange(len(z)) - np.repeat(np.cumsum(each) - each, each)
            for at in range(0, len(z), 1 << 18):
                s = slice(at, at + (1 << 18))
                names = corpus.words.take(pa.array(words[s]))
                columns = (pa.array(docs[s]), pa.scalar("NA"), pa.array(pos[s]), pa.array(words[s]), names)
                file.write(text_lines(*columns, pa.array(z[s]), separator=" "))
            tokens += len(z)
    return {"tokens": tokens, "topics": topics}


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A state, gzipped or not; words are numbered as its ``typeindex`` says."""
    skip, said = _head(path)
    spool = EntrySpool(folder)
    known = np.empty(0, object)
    source: Any = pa.input_stream(str(path), compression="gzip" if _zipped(path) else None)
    with source:
        for batch in read_table(source, str(path), _COLUMNS, delimiter=" ", skip=skip):
            ids, topics = batch.column("typeindex").to_numpy(), batch.column("topic").to_numpy()
            if min(ids.min(initial=0), topics.min(initial=0)) < 0:
                raise InputError(f"{path}: a negative number of a word or a topic")
            check_size(str(path), int(ids.max(initial=0)) + 1, int(topics.max(initial=0)) + 1)
            if ids.max(initial=0) > 50_000_000:
                raise InputError(f"{path}: a word number of {int(ids.max())}; is it a state?")
            if len(known) <= ids.max(initial=-1):
                known = np.concatenate([known, np.full(int(ids.max()) + 1 - len(known), None, object)])
            unique, first = np.unique(ids, return_index=True)
            names = batch.column("type").take(pa.array(first)).to_pylist()
            for number, name in zip(unique.tolist(), names):
                if known[number] is None:
                    known[number] = name
                elif known[number] != name:
                    raise InputError(f"{path}: word {number} is {known[number]!r} and {name!r}")
            own = pc.index_in(batch.column("type"), value_set=pa.array([known[i] for i in unique], pa.large_string()))
            if own.null_count or (unique[own.to_numpy()] != ids).any():
                raise InputError(f"{path}: a word number stands for two words")
            spool.add(ids, topics, np.ones(len(ids), np.float32))
    if not spool.words:
        raise InputError(f"{path}: holds no token")
    topics = max(spool.topics, len(said.get("alpha", [])))
    listed = [f"(no word {i})" if w is None else w for i, w in enumerate(known)]
    given = said.get("alpha", 5.0 / topics) if alpha is None else alpha
    least = float(said.get("beta", [0.01])[0]) if beta is None else float(beta)
    notes = (
        [] if "alpha" in said or alpha is not None else ["the file says no alpha: 5 over all topics, MALLET's default"]
    )
    return Imported(
        words=pa.array(listed, pa.large_string()),
        topics=topics,
        rows=spool.rows(len(listed), topics),
        alpha=prior(given, topics, f"{path}: alpha"),
        beta=float(prior(least, 1, f"{path}: beta")[0]),
        notes=tuple(notes),
    )


def _zipped(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _head(path: Path) -> tuple[int, dict[str, list[float]]]:
    said: dict[str, list[float]] = {}
    opener: Any = gzip.open if _zipped(path) else open
    number = 0
    try:
        with opener(path, "rb") as file:
            while (line := file.readline(MOST_HEAD)).startswith(b"#"):
                number += 1
                name, _, values = line[1:].partition(b":")
                if values:
                    said[name.strip().decode("ascii", "replace")] = [float(v) for v in values.split()]
    except ValueError:
        raise InputError(f"{path}:{number}: a prior that is no number") from None
    except (OSError, EOFError, zlib.error) as e:
        raise InputError(f"{path}: cannot be read ({e}); is it cut short?") from None
    return number, said
