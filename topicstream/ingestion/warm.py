"""The tiny ingest that leaves an ingest's kernels in the cache: ``python -m topicstream.ingestion.warm WHAT FOLDER``.

WHAT is the format, ``jsonl``, ``csv`` or ``lines``, and with a comma ``side``, where there are files beside the documents.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.ingestion.pipeline import ingest
from topicstream.kernels.ahead import leave
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.documents import Provenance, TextRun
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer

LINES = {"jsonl": '{{"id": "{i}", "text": "{escaped}", "year": {i}}}\n', "csv": '{i},"{text}"\n', "lines": "{text}\n"}


def reading(folder: Path, format: str = "jsonl", side: bool = True) -> None:
    """Ingest a few made documents."""
    few, many = folder / "few", folder / "authors.tsv"
    with few.open("w") as docs, many.open("w") as authors:
        docs.write("id,text\n" if format == "csv" else "")
        for i in range(64):
            words = " ".join(f"word{j}" for j in range(100 * i, 100 * i + 100))
            text, escaped = f"café naïve don't {words}", f"caf\\u00e9 na\\u00efve don't {words}"
            docs.write(LINES[format].format(i=i, text=text, escaped=escaped))
            authors.write(f"{i + 1}\tone {i}\ttwo {i % 7}\n")
    beside: dict[str, Any] = {"meta_files": f"{many}:row,authors", "key": "row"} if side else {}
    ingest(few, folder / "few.zarr", format=format, min_df=1, workers=1, mem_limit="1G", **beside)


def splitting(folder: Path) -> None:
    """Part a text into more words than the first table holds."""
    text = " ".join(f"word{i}" for i in range(1 << 15)).encode()
    offsets = np.array([0, len(text)])
    about = Provenance(pa.array(["1"]), pa.array(["1"]))
    Tokenizer(Recipe()).count(TextRun(about, np.frombuffer(text, np.uint8), offsets))


def counting(folder: Path) -> None:
    """Merge a vocabulary that outgrew its memory."""
    builder = VocabularyBuilder(folder / "runs", 2048)
    for i in range(4):
        data = np.frombuffer("".join(f"word{j:04}" for j in range(100 * i, 100 * i + 200)).encode(), np.uint8)
        once = np.ones(200, np.int64)
        builder.add(data, np.arange(0, data.size + 1, 8, dtype=np.int64), once, once)
    builder.finish(documents=4)


if __name__ == "__main__":
    format, *more = sys.argv[1].split(",")
    leave(counting, lambda folder: reading(folder, format, "side" in more), splitting, folder=sys.argv[2])
