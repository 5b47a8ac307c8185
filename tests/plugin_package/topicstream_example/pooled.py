"""Documents that share a value of a field (a day, a forum) are read together: their own topics,
drawn to those of the group.

    theta_d  =  (1 - pull) theta(words of d)  +  pull theta(words of all documents of its group)

The groups are known when all documents have been read, so that the answers come afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from topicstream.base.errors import UsageError
from topicstream.base.options import option, share
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.bp import BP


@dataclass(frozen=True)
class PooledOptions:
    """Options of ``topics infer --method pooled``."""

    group_by: str | None = option(None, "Field whose values make the groups.", metavar="FIELD")
    pull: float = option(
        0.5, "How much of a document's topics are the group's, 0.5 or 50%.", parse=share, show=True
    )
    group_words: str = option(
        "counts",
        "Of the group's words: counts, or presence.",
        choices=("counts", "presence"),
        show=True,
    )


class Pooled(Method):
    """The topics of a document and of its group, mixed."""

    name: ClassVar[str] = "pooled"
    cites: ClassVar[str] = "Mehrotra, Sanner, Buntine & Xie 2013"
    Options: ClassVar[type] = PooledOptions
    options: PooledOptions
    needs_all = True

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        if self.options.group_by is None:
            raise UsageError("--method pooled: say whose values make the groups, --group-by FIELD")
        self.columns = (self.options.group_by,)
        self.first = BP(rows)
        self.groups: dict[Any, np.ndarray] = {}

    def _values(self, docs: Documents) -> list[Any]:
        column = docs.columns[self.columns[0]]
        return (
            column.cast(pa.large_string()).to_pylist()
            if not pa.types.is_list(column.type)
            else list(map(str, column.to_pylist()))
        )

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        held = self.hold(
            blocks, lambda docs: docs.words.nbytes + docs.counts.nbytes + 100 * len(docs)
        )
        names = list(dict.fromkeys(value for docs in held for value in self._values(docs)))
        place = {name: i for i, name in enumerate(names)}
        words = self.rows.model.n_words
        total = csr_array((len(names), words), dtype=np.float32)
        for docs in held:
            owner = np.repeat([place[value] for value in self._values(docs)], np.diff(docs.indptr))
            counts = (
                docs.counts if self.options.group_words == "counts" else np.minimum(docs.counts, 1)
            )
            total = total + csr_array((counts, (owner, docs.words)), shape=total.shape)
        total.sort_indices()
        indptr = total.indptr.astype(np.int64)
        indices = total.indices.astype(np.int64)
        sums = total.sum(axis=1)
        pooled = Documents(
            pa.array(map(str, names), pa.large_string()),
            indptr,
            indices,
            total.data,
            sums,
            0 * sums,
        )
        self.groups = dict(zip(names, self.first.shares(pooled) if names else []))
        return held

    def shares(self, docs: Documents) -> np.ndarray:
        pull = np.float32(self.options.pull)
        own = self.first.shares(docs)
        group = [self.groups[value] for value in self._values(docs)]
        return (1 - pull) * own + pull * np.array(group, np.float32).reshape(own.shape)
