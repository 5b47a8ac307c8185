"""The tiny inference that leaves an inference's kernels in the cache: ``python -m topicstream.inference.warm METHOD FOLDER``."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.inference.infer import infer
from topicstream.inference.keep import Lists
from topicstream.inference.text import json_lines
from topicstream.kernels.ahead import leave
from topicstream.model.topic_model import TopicModel
from topicstream.tokens.recipe import Recipe


def answering(folder: Path) -> None:
    """Ask a made model for the topics of a text."""
    words = [f"word{i}" for i in range(40)]
    phi = np.random.default_rng(1).random((len(words), 4))
    model = TopicModel.from_arrays(phi, words, 0.1, 0.01, tokenizer=Recipe().to_json())
    with (folder / "docs.jsonl").open("w") as out:
        out.write('{"id": "1", "text": "' + " ".join(words) + '"}\n')
    infer(model, [folder / "docs.jsonl"], out=BytesIO(), method=sys.argv[1], progress=False)


def writing(_: Path) -> None:
    """Put a made answer into words."""
    lists = Lists(np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32))
    about = np.ones(1), np.ones(1), np.zeros(1, np.uint8)
    json_lines(pa.array(["1"], pa.large_string()), lists, about)


if __name__ == "__main__":
    leave(answering, writing, folder=sys.argv[2])
