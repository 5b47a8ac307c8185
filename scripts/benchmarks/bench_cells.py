"""Clusters of labelled blood cells: topics beside scikit-learn's LDA, by the adjusted Rand index.

    pip download --no-deps scanpy
    unzip -j scanpy-*.whl scanpy/datasets/10x_pbmc68k_reduced.h5ad
    python scripts/benchmarks/bench_cells.py --cells 10x_pbmc68k_reduced.h5ad [--seeds 3]

The file has 700 cells, 765 genes and 10 types of cells. It holds logarithms of scaled counts and
each cell's sum, from which the counts follow. Everyone gets the same matrix, counts or counts
times log(1 + cells / cells with the gene), and 10 topics (--aim reading one more, its background).
k-means (10 clusters, 10 starts) on the shares of topics gives the clusters.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.metrics import adjusted_rand_score

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import table

import topicstream

TOPICS = 10
SCALED_TO = 10_000.0  # counts of a cell, before the logarithm
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "`--aim reading`, 11 topics": {"aim": "reading", "topics": TOPICS + 1},
    "`--weighting tfidf`": {"weighting": "tfidf"},
    "`--alpha 10 --beta 0.1`": {"options": {"alpha": 10.0, "beta": 0.1}},
}
PEERS: dict[str, dict[str, Any]] = {
    "scikit-learn, 10 passes": {"max_iter": 10},
    "scikit-learn, 100 passes": {"max_iter": 100},
}


def read_cells(path: Path) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Read counts and the type of each cell.

    Raises ValueError where the values are no counts scaled to 10,000 a cell.
    """
    with h5py.File(path) as data:
        rows = data["raw.X/indptr"][:]
        genes = data["raw.X/indices"][:]
        values = np.expm1(data["raw.X/data"][:].astype(np.float64))
        about = data["obs"][:]
    counts = values * np.repeat(about["n_counts"] / SCALED_TO, np.diff(rows))
    if np.abs(counts - np.rint(counts)).max() > 0.2:
        raise ValueError("these values are no scaled counts")
    return scipy.sparse.csr_matrix((np.rint(counts), genes, rows)), about["bulk_labels"]


def weigh(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Multiply counts by log(1 + cells / cells with the gene)."""
    cells = np.bincount(counts.indices, minlength=counts.shape[1])
    rarity = np.log1p(counts.shape[0] / np.maximum(cells, 1))
    return counts.multiply(rarity[None, :]).tocsr()


def compare_clusters(shares: np.ndarray, types: np.ndarray) -> float:
    """Compute the adjusted Rand index of clusters of shares and the types."""
    clusters = KMeans(TOPICS, n_init=10, random_state=0).fit_predict(shares)
    return float(adjusted_rand_score(types, clusters))


def find_shares(matrix: scipy.sparse.csr_matrix, options: dict[str, Any], seed: int) -> np.ndarray:
    """Train our model on all cells, and return their shares of topics."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "cells.zarr"
        source = Path(folder) / "cells.npz"
        model = Path(folder) / "model"
        scipy.sparse.save_npz(source, matrix)
        weighted = bool((matrix.data % 1).any())
        topicstream.ingest(source, store, heldout="0", weighted=weighted, progress=False)
        settings = {"topics": TOPICS, "seed": seed, **options}
        topicstream.train(store, model, progress=False, **settings)
        opened = topicstream.TopicModel.open(model)
        return np.asarray(opened.transform(topicstream.Corpus.open(store)))


def peer_shares(matrix: scipy.sparse.csr_matrix, options: dict[str, Any], seed: int) -> np.ndarray:
    """Train scikit-learn's model on all cells, and return their shares of topics."""
    return LatentDirichletAllocation(TOPICS, random_state=seed, **options).fit_transform(matrix)


def processor_seconds() -> float:
    """Return the processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the indices of all programs, on counts and on weighted counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    counts, types = read_cells(args.cells)
    rows = []
    programs = {**dict.fromkeys(OURS, find_shares), **dict.fromkeys(PEERS, peer_shares)}
    for kind, matrix in {"counts": counts, "weighted": weigh(counts)}.items():
        for name, find in programs.items():
            if kind == "weighted" and "weighting" in name:
                continue
            before = processor_seconds()
            options = {**OURS, **PEERS}[name]
            found = [
                compare_clusters(find(matrix, options, seed), types)
                for seed in range(1, args.seeds + 1)
            ]
            seconds = (processor_seconds() - before) / args.seeds
            error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
            each = ", ".join(f"{index:.2f}" for index in found)
            rows.append([name, kind, f"{np.mean(found):.3f} ± {error:.3f}", each, f"{seconds:.1f}"])
            print(*rows[-1], file=sys.stderr, flush=True)
    table(["program", "matrix", "adjusted Rand index", "seeds", "processor s"], rows)


if __name__ == "__main__":
    main()
