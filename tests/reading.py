"""Short ways for the tests of the readers to write inputs and to look at what comes out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import DATA
from topicstream.ingestion.parsing.rejects import Reject
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.tasks import pieces
from topicstream.tokens.documents import CountRun, TextRun

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not here")


class Read:
    """Everything read from some inputs: ids, source, texts or bags, meta columns, deleted, rejects, notes, words."""

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
            assert task.number == self.tasks
            self.tasks += 1
            run, rejects = task.run()
            self.rejects += rejects.records
            for name, n in rejects.notes.items():
                self.notes[name] = self.notes.get(name, 0) + n
            self.ids += run.about.ids.to_pylist()
            self.source += run.about.source.to_pylist()
            for name, values in run.about.meta.items():
                assert len(values) == len(run)
                self.meta.setdefault(name, []).extend(values.to_pylist())
            if run.about.deleted is not None:
                self.deleted += run.about.deleted.to_pylist()
            if isinstance(run, TextRun):
                assert run.text.dtype == np.uint8 and run.offsets.dtype == np.int64
                assert run.offsets[0] == 0 and run.offsets[-1] == len(run.text)
                whole = run.text.tobytes()
                cuts = run.offsets.tolist()
                self.texts += [whole[a:b].decode() for a, b in pairwise(cuts)]
            else:
                self._add_bags(run)
            if task.words is not None:
                self.words = task.words.to_pylist()
        assert len(self.ids) == len(self.source) == len(self.texts or self.bags)

    def _add_bags(self, run: CountRun) -> None:
        assert run.words.dtype == np.int32 and run.indptr.dtype == np.int64 and len(run.indptr) == len(run) + 1
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
