"""topicstream as a backend of pycisTopic's topic modelling (the interface of its pull request 226).

``LDATopicstream.run_topic_modeling`` takes the arguments of pycisTopic's own backends and writes
the files that its other steps (``stats``, ``create_anndata``, binarisation) read. Memory stays
within ``mem_limit`` beside the matrix that the caller holds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from topicstream.addons.cells.exchange import (
    cell_topics,
    prior_mean,
    rows_by_name,
    write_bundle,
)
from topicstream.base.errors import InputError, UsageError
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.pipeline import ingest
from topicstream.model.exchange import Export, read_counts
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

TAKEN = ("algo", "iterations", "mem_limit", "n_threads", "random_seed")
LEARNED = ("alpha", "alpha_by_topic", "eta", "eta_by_topic", "optimize_interval")
"""Options of pycisTopic's backends that change nothing here: the engine learns its priors."""


class LDATopicstream:
    """pycisTopic's backend: a static method that trains and writes the files of one number of
    topics.
    """

    backend: ClassVar[str] = "topicstream"

    @staticmethod
    def run_topic_modeling(
        binary_accessibility_matrix: Any,
        cell_names: Sequence[str],
        region_names: Sequence[str],
        output_prefix: str,
        n_topics: int,
        **options: Any,
    ) -> None:
        """Train and write ``OUTPUT_PREFIX.N_topics.*``.

        Parameters
        ----------
        binary_accessibility_matrix
            Regions x cells, any SciPy sparse matrix.
        cell_names, region_names
            Of its columns and rows.
        output_prefix
            Folder and beginning of the files' names; files of ours that are there are replaced.
        n_topics
            Number of topics.
        **options
            ``n_threads``, ``iterations`` (passes at most), ``random_seed``, ``mem_limit``,
            ``algo``; others of pycisTopic's (``alpha``, ``eta`` and their like) are not needed: the
            engine learns its priors.

        Raises
        ------
        InputError
            Where names and matrix do not fit.
        UsageError
            For an option that there is not.

        Examples
        --------
        >>> from topicstream.addons.cells.pycistopic import LDATopicstream
        >>> matrix = sp.random(300, 80, 0.2, format="csr", random_state=0)
        >>> cells, regions = [f"c{i}" for i in range(80)], [f"r{i}" for i in range(300)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     LDATopicstream.run_topic_modeling(matrix, cells, regions, f"{folder}/tm", 4,
        iterations=5)
        ...     sorted(path.suffix for path in Path(folder).iterdir() if
        path.name.startswith("tm."))
        ['.json', '.json', '.parquet', '.parquet']
        """
        if unknown := sorted(options.keys() - {*TAKEN, *LEARNED}):
            raise UsageError(f"no option {unknown[0]!r}; there are {', '.join(TAKEN)}")
        matrix = _open_regions(binary_accessibility_matrix, cell_names, region_names)
        place = Path(output_prefix).absolute().parent
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="topicstream-", dir=place) as folder:
            store = Path(folder) / "corpus.zarr"
            model = Path(folder) / "model"
            limit = options.get("mem_limit")
            ingest(
                matrix,
                store,
                vocabulary=list(region_names),
                ids=list(cell_names),
                min_df=1,
                max_df=1.0,
                heldout=0,
                mem_limit=limit,
                progress=False,
            )
            train(
                store,
                model,
                algo=options.get("algo", "auto"),
                topics=n_topics,
                passes=options.get("iterations"),
                seed=options.get("random_seed", 0),
                threads=options.get("n_threads"),
                mem_limit=limit,
                progress=False,
            )
            opened = TopicModel.open(model)
            numbers = opened.column_ids.tolist()
            job = Export(opened, Corpus.open(store), store, force=True, numbers=numbers)
            cells = cell_topics(job)
            wanted = [
                pa.array(list(names), pa.large_string()) for names in (cell_names, region_names)
            ]
            shares, _ = rows_by_name(wanted[0], cells.names, cells.shares, prior_mean(opened))
            counts, _ = rows_by_name(
                wanted[1], job.model.vocabulary.words, read_counts(job.model), 0.0
            )
            write_bundle(output_prefix, shares, counts.T, job.model, job.corpus, force=True)


def _open_regions(
    accessibility: Any, cells: Sequence[str], regions: Sequence[str]
) -> sp.csr_matrix:
    """Cells x regions int32, 1 where a region is open; InputError where the names do not fit."""
    matrix = sp.csr_matrix(accessibility.T)
    if matrix.shape != (len(cells), len(regions)):
        raise InputError(
            f"the matrix has {matrix.shape[1]} regions x {matrix.shape[0]} cells, for "
            f"{len(regions)} and {len(cells)} names"
        )
    return (matrix != 0).astype(np.int32)  # stored zeros are no open regions
