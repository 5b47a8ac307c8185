"""Short ways for the tests of the readers to write inputs and to look at what comes out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import DATA
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    TEXT,
    DocumentCells,
    content_kind,
    document_cells,
    metadata_of,
)
from topicstream.ingestion.parse.rejects import Reject
from topicstream.ingestion.parts.tasks import pieces

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not here")


class Read:
    """Everything read from some inputs: ids, source, texts or bags, meta columns, deleted, rejects,
    notes, words.
    """

    def __init__(self, paths: Any, **options: Any) -> None:
        self.ids: list[str] = []
        self.source: list[str] = []
        self.texts: list[str] = []
        self.bags: list[dict[int, float]] = []
        self.meta: dict[str, list[Any]] = {}
        self.deleted: list[str] = []
        self.rejects: list[Reject] = []
        self.notes: dict[str, int] = {}
        self.words: list[str] | None = None
        self.dtypes: set[str] = set()
        self.tasks = 0
        for task in pieces(paths, ReadOptions(**options)):
            self.tasks += 1
            batch, gone = task.run()
            self.rejects += task.rejects.records
            for name, n in task.rejects.notes.items():
                self.notes[name] = self.notes.get(name, 0) + n
            batch.validate(full=True)
            self.ids += map(str, batch.column(0).to_pylist())
            self.source += batch.column(1).to_pylist()
            for name, values in metadata_of(batch).items():
                self.meta.setdefault(name, []).extend(values.to_pylist())
            self.deleted += gone.to_pylist()
            if content_kind(batch) == "text":
                assert batch.column(2).type == TEXT
                self.texts += batch.column(2).to_pylist()
            else:
                self._add_bags(document_cells(batch), len(batch))
            if task.words is not None:
                self.words = task.words.to_pylist()
        assert len(self.ids) == len(self.source) == len(self.texts or self.bags)

    def _add_bags(self, run: DocumentCells, documents: int) -> None:
        assert (
            run.words.dtype == np.int32
            and run.indptr.dtype == np.int64
            and len(run.indptr) == documents + 1
        )
        self.dtypes.add(str(run.counts.dtype)) if len(run.counts) else None
        cuts = run.indptr.tolist()
        assert cuts[0] == 0 and cuts[-1] == len(run.words) == len(run.counts)
        for a, b in pairwise(cuts):
            words = run.words[a:b].tolist()
            assert words == sorted(set(words)), "words ascend and are unique within a document"
            assert (run.counts[a:b] > 0).all()
            self.bags.append(dict(zip(words, run.counts[a:b].tolist())))

    @property
    def cells(self) -> int:
        return sum(map(len, self.bags))

    @property
    def tokens(self) -> float:
        return sum(sum(bag.values()) for bag in self.bags)


def write(path: Path, content: str | bytes) -> Path:
    """Write a file, its folders too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
