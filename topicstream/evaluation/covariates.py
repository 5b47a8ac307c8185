"""Covariates of a store's documents: the survey of their values, and a file of their rows.

The rows of the design (model/design.py) are made once from the metadata of the store, block by
block of a grid, and lie in a file that is read with the blocks. Nothing of the size of the
documents is in memory.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.cluster import Cluster
from topicstream.base.errors import InputError, StoreError
from topicstream.corpus.block import CovariateRows
from topicstream.corpus.columns import check_columns, columns_of, flatten_lists, mark_missing
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.metadata import Metadata
from topicstream.model.design import (
    MOST_CATEGORIES,
    PriorDesign,
    SparseRows,
    Unseen,
    decode_design,
    group_rows,
)
from topicstream.model.formula import Covariate, factors_of
from topicstream.model.regimes import Regimes
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import checksum

MOST_VALUES = 1 << 18
"""Most distinct values of a column that are counted."""
_PARTS = (
    ("pattern", np.int32),
    ("indptr", np.int64),
    ("columns", np.int32),
    ("values", np.float32),
)


def survey_covariates(corpus: Corpus, formula: str) -> PriorDesign:
    """Read the design of a formula from the values of the training documents.

    Raises
    ------
    UsageError
        The formula cannot be read.
    InputError
        The store lacks a column, or a column cannot be coded.
    """
    factors = factors_of(formula)
    columns = list(dict.fromkeys(factor.column for factor in factors))
    check_columns(corpus, columns, "--covariates: column")
    kinds = columns_of(corpus)
    counts: dict[str, Counter[str]] = {column: Counter() for column in columns}
    absent = Counter[str]()
    longest = Counter[str]()
    for _, batch in stream_documents(corpus, False, columns):
        for column in columns:
            most = _count_values(counts[column], absent, column, batch.column(column))
            longest[column] = max(longest[column], most)
    covariates = {}
    for factor in factors:
        column = factor.column
        listed = kinds.get(column) == "list"
        if listed and factor.df:
            raise InputError(
                f"s({column}): a document may have several values of {column}, which make no "
                f"curve; leave out s()"
            )
        if listed and factor.regimes:
            raise InputError(
                f"{factor}: a document may have several values of {column}, which have no order; "
                f"regimes are of dates or whole numbers"
            )
        coding: Callable[..., Covariate] = Covariate
        if factor.regimes:
            coding = partial(Regimes, regimes=factor.regimes, period=factor.period)
        covariate = coding(
            column,
            factor.df,
            counts=counts[column].copy(),
            most=MOST_CATEGORIES,
            listed=max(1, longest[column]) if listed else 0,
            keeps_absent=True,
            absent=absent[column],
        )
        covariate.choose_coding()
        covariates[factor] = covariate
    return PriorDesign.from_formula(formula, covariates)


def _count_values(counts: Counter[str], absent: Counter[str], column: str, values: Any) -> int:
    """Count the values of a column in some documents, and the documents without one.

    Returns
    -------
    int
        The most values of a document.
    """
    most = 1
    if pa.types.is_nested(values.type):
        flat, docs = flatten_lists(values)
        present = flat.is_valid().to_numpy(zero_copy_only=False)
        most = int(np.bincount(docs).max(initial=0))
        absent[column] += len(values) - len(np.unique(docs[present]))
    else:
        flat = mark_missing(values)
        absent[column] += flat.null_count
    pairs = pc.value_counts(flat.drop_null())
    distinct = pairs.field("values").to_pylist()
    counts.update(dict(zip(distinct, pairs.field("counts").to_pylist(), strict=True)))
    if len(counts) > MOST_VALUES:
        raise InputError(
            f"--covariates: column {column} has more than {MOST_VALUES:,} different values; round "
            f"numbers and cut dates to days before they are ingested"
        )
    return most


@dataclass
class CovariateFile:
    """The rows of the documents of a grid, block by block, in a file.

    Attributes
    ----------
    path
        The file.
    sizes
        int64[blocks, 4], entries of the arrays pattern, indptr, columns and values.
    offsets
        int64[blocks], where the arrays of a block begin.
    checks
        int64[blocks, 4], checksums of the arrays.
    """

    path: Path
    sizes: np.ndarray
    offsets: np.ndarray
    checks: np.ndarray

    def read(self, number: int) -> CovariateRows:
        """Read the rows of a block.

        Raises
        ------
        StoreError
            The file is damaged.
        """
        arrays: list[np.ndarray] = []
        with open(self.path, "rb") as file:
            file.seek(int(self.offsets[number]))
            for i, (_, dtype) in enumerate(_PARTS):
                size = int(self.sizes[number, i]) * np.dtype(dtype).itemsize
                data = np.frombuffer(file.read(size), np.uint8)
                if len(data) != size or int(checksum(data)) != self.checks[number, i]:
                    raise StoreError(
                        f"{self.path}: the covariates of block {number} are damaged; run the same "
                        f"command again"
                    )
                arrays.append(data.view(dtype))
        return CovariateRows(*arrays)


def write_covariates(
    corpus: Corpus, grid: Grid, design: PriorDesign, path: Path, unseen: Unseen | None = None
) -> CovariateFile:
    """Code the documents of a grid into a file.

    Parameters
    ----------
    corpus, grid
        The documents, of the part that the grid cuts.
    unseen
        Receives the values that the design does not know.
    """
    blocks = len(grid)
    sizes = np.zeros((blocks, len(_PARTS)), np.int64)
    checks = np.zeros((blocks, len(_PARTS)), np.int64)
    offsets = np.zeros(blocks, np.int64)
    metadata = Metadata(corpus, design.columns, grid.heldout)
    with open(path, "wb") as file:
        for number in range(blocks):
            offsets[number] = file.tell()
            rows = read_rows(metadata, grid, number, design, unseen)
            for i, array in enumerate(group_rows(rows)):
                data = np.ascontiguousarray(array).view(np.uint8)
                sizes[number, i] = len(array)
                checks[number, i] = int(checksum(data))
                file.write(data.tobytes())
    return CovariateFile(path.absolute(), sizes, offsets, checks)


def read_rows(
    metadata: Metadata, grid: Grid, number: int, design: PriorDesign, unseen: Unseen | None
) -> SparseRows:
    """Code the documents of a block from their metadata."""
    first = int(grid.first_doc[number])
    table, _ = metadata.read_rows(first, int(grid.docs[number]))
    columns = {}
    for name in design.columns:
        values = table[name]
        columns[name] = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return design.rows(columns, unseen)


def explain_mean_prior(model: TopicModel, corpus: Corpus, visitors: int | Cluster = 1) -> str:
    """Explain why documents of a corpus have the mean prior, "" if each has its own."""
    entry = model.manifest.covariates
    if entry is None or model.coefficients is None:
        return "the model has no covariates"
    if not isinstance(visitors, int):
        return "workers of a cluster do not read covariates"
    columns = columns_of(corpus)
    missing = [name for name in decode_design(entry).columns if name not in columns]
    return f"the corpus has no column {', '.join(missing)}" if missing else ""


@contextmanager
def covariate_views(
    model: TopicModel, corpus: Corpus, grids: Sequence[Grid]
) -> Iterator[tuple[Corpus, ...]]:
    """Yield the corpus for each grid, with blocks that have the covariates of a model's prior.

    The covariates lie in temporary files.
    """
    entry = model.manifest.covariates
    assert entry is not None
    design = decode_design(entry)
    with tempfile.TemporaryDirectory(prefix="topics-covariates-") as folder:
        views = []
        for number, grid in enumerate(grids):
            path = Path(folder) / f"{number}.bin"
            views.append(corpus.with_covariates(write_covariates(corpus, grid, design, path)))
        yield tuple(views)
