"""The tiny ingest that leaves an ingest's kernels in the cache: ``python -m topicstream.ingestion.warm FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from topicstream.ingestion.pipeline import ingest
from topicstream.kernels.ahead import leave
from topicstream.tokens.builder import VocabularyBuilder


def job(folder: Path) -> None:
    """Ingest a few made documents, and merge a vocabulary that outgrew its memory."""
    few, many = folder / "few.jsonl", folder / "authors.tsv"
    with few.open("w") as docs, many.open("w") as authors:
        for i in range(64):
            words = " ".join(f"word{j}" for j in range(100 * i, 100 * i + 100))
            docs.write(f'{{"id": "{i}", "text": "caf\\u00e9 na\u00efve don\'t {words}", "year": {i}}}\n')
            authors.write(f"{i + 1}\tone {i}\ttwo {i % 7}\n")
    ingest(few, folder / "few.zarr", meta_files=f"{many}:row,authors", key="row", min_df=1, workers=1, mem_limit="1G")
    builder = VocabularyBuilder(folder / "runs", 2048)
    for i in range(4):
        data = np.frombuffer("".join(f"word{j:04}" for j in range(100 * i, 100 * i + 200)).encode(), np.uint8)
        once = np.ones(200, np.int64)
        builder.add(data, np.arange(0, data.size + 1, 8, dtype=np.int64), once, once)
    builder.finish(documents=4)


if __name__ == "__main__":
    leave(job, sys.argv[1])
