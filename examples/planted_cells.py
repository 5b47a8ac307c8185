"""Make an AnnData file of planted cell types, with h5py alone: python planted_cells.py OUT.h5ad
[CELLS REGIONS TYPES PERCENT]
"""

import sys

import h5py
import numpy as np


def main(
    out: str, cells: int = 20_000, regions: int = 100_000, types: int = 12, percent: int = 70
) -> None:
    """Each type opens regions of its own; a cell takes so many percent of its regions from its
    type, the rest from all.
    """
    draw = np.random.default_rng(0)
    cell_types = draw.integers(types, size=cells)
    rows = draw_cells(draw, cell_types, regions, 1000, percent)
    with h5py.File(out, "w") as data:
        write_cells(data, [np.unique(row) for row in rows], region_names(regions), cell_types)


def draw_cells(
    draw: np.random.Generator, cell_types: np.ndarray, features: int, size: int, percent: int
) -> list[np.ndarray]:
    """Draw the features of each cell, with repeats."""
    shares = draw.dirichlet(np.full(features, 0.02), cell_types.max() + 1)
    everywhere = shares.mean(axis=0)
    return [
        draw.choice(features, size, p=percent / 100 * shares[t] + (1 - percent / 100) * everywhere)
        for t in cell_types
    ]


def region_names(regions: int) -> list[str]:
    return [f"chr{1 + i % 22}:{1000 * i}-{1000 * i + 500}" for i in range(regions)]


def write_cells(
    group: h5py.Group, rows: list[np.ndarray], features: list[str], cell_types: np.ndarray
) -> None:
    """Write AnnData: the counts of the features that each row lists, and the types of cells."""
    cells = [np.unique(row, return_counts=True) for row in rows]
    matrix = group.create_group("X")
    matrix.attrs["encoding-type"], matrix.attrs["encoding-version"] = "csr_matrix", "0.1.0"
    matrix.attrs["shape"] = (len(rows), len(features))
    matrix.create_dataset("indices", data=np.concatenate([c[0] for c in cells]).astype(np.int32))
    matrix.create_dataset("indptr", data=np.cumsum([0, *(len(c[0]) for c in cells)]))
    matrix.create_dataset("data", data=np.concatenate([c[1] for c in cells]).astype(np.float32))
    for axis, names in (("obs", [f"cell{i}" for i in range(len(rows))]), ("var", features)):
        frame = group.create_group(axis)
        frame.attrs["encoding-type"], frame.attrs["encoding-version"] = "dataframe", "0.2.0"
        frame.attrs["_index"], frame.attrs["column-order"] = (
            "_index",
            ["cell_type"] if axis == "obs" else np.zeros(0),
        )
        frame.create_dataset("_index", data=names)
    group["obs"].create_dataset("cell_type", data=[f"type{t}" for t in cell_types])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
