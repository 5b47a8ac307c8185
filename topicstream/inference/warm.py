"""The tiny inference that leaves an inference's kernels in the cache: ``python -m topicstream.inference.warm WHAT FOLDER``.

WHAT is the method and then, with commas, what else the command does: ``csv``, ``txt`` or ``jsonl`` is read, ``to-csv`` written,
``lists``: some topics.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.errors import TopicsError
from topicstream.files.durable import write_bytes
from topicstream.inference.documents import Documents
from topicstream.inference.infer import infer, make
from topicstream.inference.keep import keep
from topicstream.inference.method import TopicRows
from topicstream.inference.text import csv_lines, json_lines
from topicstream.kernels.ahead import leave
from topicstream.model.topic_model import TopicModel
from topicstream.tokens.documents import Provenance, TextRun
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer

WORDS = [f"word{i}" for i in range(40)]
TEXT = " ".join(WORDS)
METHOD, *MORE = sys.argv[1].split(",")


def model() -> TopicModel:
    """A made one."""
    phi = np.random.default_rng(1).random((len(WORDS), 4))
    return TopicModel.from_arrays(phi, WORDS, 0.1, 0.01, tokenizer=Recipe().to_json())


def answering(folder: Path) -> None:
    """Ask it for the topics of a text."""
    docs = {"jsonl": f'{{"id": "1", "text": "{TEXT}"}}\n', "txt": f"{TEXT}\n", "csv": f"id,text\n1,{TEXT}\n"}
    paths = [folder / f"docs.{name}" for name in docs if name in MORE]
    for path in paths:
        write_bytes(path, docs[path.suffix[1:]].encode(), durable=False)
    infer(model(), paths, out=BytesIO(), method=METHOD, progress=False)


def tokenising(_: Path) -> None:
    """Count the words of a text."""
    data = TEXT.encode()
    about = Provenance(pa.array(["1"]), pa.array(["1"]))
    Tokenizer(Recipe()).count(TextRun(about, np.frombuffer(data, np.uint8), np.array([0, len(data)])))


def weighing(_: Path) -> None:
    """Find the topics of a document that is counted."""
    once, tokens = np.ones(len(WORDS), np.float32), np.array([float(len(WORDS))])
    docs = Documents(pa.array(["1"]), np.array([0, len(WORDS)]), np.arange(len(WORDS)), once, tokens, np.zeros(1))
    with suppress(TopicsError):  # a method that needs more of its documents or model
        make(METHOD, TopicRows(model())).shares(docs)


def writing(_: Path) -> None:
    """Put a made answer into words."""
    lists = keep(np.ones((1, 4), np.float32), 2 if "lists" in MORE else None)
    about = np.ones(1), np.ones(1), np.zeros(1, np.uint8)
    (csv_lines if "to-csv" in MORE else json_lines)(pa.array(["1"], pa.large_string()), lists, about)


if __name__ == "__main__":
    leave(answering, tokenising, weighing, writing, folder=sys.argv[2])
