"""MALLET's state: three head lines (names, alpha, beta), then ``doc source pos typeindex type topic``, a line a token."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.exchange.common import Imported, check_size, fit_for_text, prior, read_table, summed, text_lines
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


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A state, gzipped or not; words are numbered as its ``typeindex`` says."""
    skip, said = _head(path)
    with pa.input_stream(str(path), compression="gzip" if _zipped(path) else None) as source:
        table = read_table(source, str(path), _COLUMNS, ["typeindex", "type", "topic"], delimiter=" ", skip=skip)
    if not len(table):
        raise InputError(f"{path}: holds no token")
    word, topic = table["typeindex"].to_numpy(), table["topic"].to_numpy()
    if min(word.min(), topic.min()) < 0:
        raise InputError(f"{path}: a negative number of a word or a topic")
    n_words, topics = int(word.max()) + 1, max(int(topic.max()) + 1, len(said.get("alpha", [])))
    check_size(str(path), n_words, topics)
    phi = summed(word, topic, None, n_words, topics)
    notes = () if "alpha" in said or alpha is not None else ("the file says no alpha: 5 over all topics, MALLET's default",)
    least = said.get("beta", [0.01])[0] if beta is None else beta
    return Imported(
        words=_named(path, table["type"], word, n_words),
        phi=phi,
        alpha=prior(said.get("alpha", 5.0 / topics) if alpha is None else alpha, topics, f"{path}: alpha"),
        beta=float(prior(least, 1, f"{path}: beta")[0]),
        notes=notes,
    )


def _named(path: Path, names: pa.ChunkedArray, word: np.ndarray, n_words: int) -> list[str]:
    """The name of each word's number; InputError where a number has two names, or a name two numbers."""
    coded = names.combine_chunks().dictionary_encode()
    code, texts = coded.indices.to_numpy(), coded.dictionary.to_pylist()
    pairs = np.unique(np.stack((word, code)), axis=1)
    for column, what in ((0, "a word number stands for two words"), (1, "a word has two numbers")):
        if len(np.unique(pairs[column])) != pairs.shape[1]:
            raise InputError(f"{path}: {what}")
    listed = [f"(no word {i})" for i in range(n_words)]
    for number, at in pairs.T.tolist():
        listed[number] = texts[at]
    return listed


def _zipped(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _head(path: Path) -> tuple[int, dict[str, list[float]]]:
    said: dict[str, list[float]] = {}
    opener: Any = gzip.open if _zipped(path) else open
    number = 0
    try:
        with opener(path, "rb") as file:
            while (line := file.readline()).startswith(b"#"):
                number += 1
                name, _, values = line[1:].partition(b":")
                if values:
                    said[name.strip().decode("ascii", "replace")] = [float(v) for v in values.split()]
    except ValueError:
        raise InputError(f"{path}:{number}: a prior that is no number") from None
    except (OSError, EOFError, zlib.error) as e:
        raise InputError(f"{path}: cannot be read ({e}); is it cut short?") from None
    return number, said
