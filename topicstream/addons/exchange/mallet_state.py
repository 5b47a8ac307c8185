"""MALLET's state of a sampler: three head lines, then a line a token.

The head has names, alpha and beta. A line is ``doc source pos typeindex type topic``.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.base.files.outputs import written
from topicstream.inference.token_topics import token_topics
from topicstream.model.exchange import (
    Export,
    Given,
    Imported,
    check_separators,
    open_input,
    stream_lines,
    sum_cells,
    text_lines,
)

TEXT = pa.large_string()
NUMBER = pa.int64()
COLUMNS = {
    "doc": NUMBER,
    "source": TEXT,
    "pos": NUMBER,
    "typeindex": NUMBER,
    "type": TEXT,
    "topic": NUMBER,
}
READ = {"typeindex": NUMBER, "type": TEXT, "topic": NUMBER}
TOKEN = (
    r"^-?\d{1,18} .* -?\d{1,18} (?P<typeindex>-?\d{1,18}) (?P<type>[^ ]+) "
    r"(?P<topic>-?\d{1,18})[ \r]*$"
)
"""A line: between the number and the last four fields is the source, perhaps with blanks."""
TOKENS = 1 << 18
"""Lines that are written at a time."""


def write(job: Export) -> dict[str, float]:
    """Write one gzipped file of the state.

    Only engines that give every token a topic of its own have a state, and the training folder must
    still be there. Topics are counted from 0 in the order of their numbers. A corpus keeps no order
    of words: ``pos`` counts the tokens of a document by word.
    """
    model = job.model
    words = job.corpus.words
    tokens = 0
    blocks = token_topics(model.path, job.corpus, model.n_topics, "--format mallet-state")
    check_separators(words, " \\t", "--format mallet-state")
    order = np.argsort(model.column_ids)
    place = np.argsort(order)
    alpha = " ".join(repr(float(a)) for a in model.alpha[order])
    with (
        written(job.path, force=job.force) as raw,
        gzip.GzipFile("", "wb", 3, raw, mtime=0) as file,
    ):
        file.write(f"#{' '.join(COLUMNS)}\n#alpha : {alpha} \n#beta : {model.beta!r}\n".encode())
        for block, topics in blocks:
            lengths = np.diff(np.concatenate([[0], np.cumsum(block.counts)])[block.indptr]).astype(
                np.int64
            )
            ids = np.repeat(block.vocab[block.words], block.counts)
            docs = np.repeat(np.arange(block.first_doc, block.first_doc + block.n_docs), lengths)
            pos = np.arange(len(topics)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            for start in range(0, len(topics), TOKENS):
                s = slice(start, start + TOKENS)
                numbers = (pa.array(docs[s]), pa.scalar("NA"), pa.array(pos[s]), pa.array(ids[s]))
                file.write(
                    text_lines(
                        *numbers,
                        words.take(pa.array(ids[s])),
                        pa.array(place[topics[s]]),
                        separator=" ",
                    )
                )
            tokens += len(topics)
    return {"tokens": tokens, "topics": model.n_topics}


def read(path: Path, given: Given) -> Imported:
    """Read a state, gzipped or not, with words numbered by its ``typeindex``."""
    skip, priors = _read_head(path)
    table = _read_tokens(path, skip)
    word = table["typeindex"].to_numpy()
    topic = table["topic"].to_numpy()
    topics = max(int(topic.max(initial=-1)) + 1, len(priors.get("alpha", [])))
    phi = sum_cells(path, word, topic, None, (int(word.max(initial=-1)) + 1, topics))
    alpha_known = "alpha" in priors or given.alpha is not None
    return Imported(
        words=_name_words(path, table["type"], word, len(phi)),
        phi=phi,
        alpha=priors.get("alpha", 5.0 / max(topics, 1)),
        beta=priors.get("beta", [0.01])[0],
        notes=()
        if alpha_known
        else ("the file says no alpha: 5 over all topics, MALLET's default",),
    )


def _read_tokens(path: Path, skip: int) -> pa.Table:
    """Read the columns typeindex, type and topic.

    The name of a source may hold blanks.

    Parameters
    ----------
    skip
        Lines of the head.

    Raises
    ------
    InputError
        At the first line that is no token.
    """
    parts = [pa.table({name: pa.array([], kind) for name, kind in READ.items()})]
    number = skip + 1
    for batch in stream_lines(path, skip):
        lines = batch.column(0)
        tokens = pc.extract_regex(lines, TOKEN)
        wrong = pc.index(tokens.is_null(), True).as_py()
        if wrong >= 0:
            raise InputError(
                f"{path}:{number + wrong}: expected '{' '.join(COLUMNS)}', not "
                f"{lines[wrong].as_py()[:80]!r}"
            )
        columns = {name: tokens.field(name).cast(kind) for name, kind in READ.items()}
        parts.append(pa.table(columns))
        number += len(lines)
    return pa.concat_tables(parts)


def _name_words(path: Path, names: pa.ChunkedArray, word: np.ndarray, n_words: int) -> list[str]:
    """Map each word's number to its name.

    Raises
    ------
    InputError
        If a number has two names, or a name two numbers.
    """
    coded = names.combine_chunks().dictionary_encode()
    pairs = np.unique(np.stack((word, coded.indices.to_numpy())), axis=1)
    for column, problem in (
        (0, "a word number stands for two words"),
        (1, "a word has two numbers"),
    ):
        if len(np.unique(pairs[column])) != pairs.shape[1]:
            raise InputError(f"{path}: {problem}")
    texts = dict(
        zip(pairs[0].tolist(), coded.dictionary.take(pa.array(pairs[1])).to_pylist(), strict=True)
    )
    return [texts.get(i, f"(no word {i})") for i in range(n_words)]


def _read_head(path: Path) -> tuple[int, dict[str, list[float]]]:
    """Read the number of lines of the head, and its priors by name."""
    priors: dict[str, list[float]] = {}
    number = 0
    try:
        with open_input(path) as file:
            while (line := file.readline()).startswith(b"#"):
                number += 1
                name, _, values = line[1:].partition(b":")
                if values:
                    priors[name.strip().decode("ascii", "replace")] = [
                        float(v) for v in values.split()
                    ]
    except ValueError:
        raise InputError(f"{path}:{number}: a prior is not a number") from None
    except (OSError, EOFError, zlib.error) as e:
        raise InputError(f"{path}: cannot be read ({e}); is it truncated?") from None
    return number, priors
