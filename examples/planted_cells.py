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
    shares = draw.dirichlet(np.full(regions, 0.02), types)
    everywhere = shares.mean(axis=0)
    rows = []
    for kind in cell_types:
        own = draw.choice(
            regions, 1000, p=percent / 100 * shares[kind] + (1 - percent / 100) * everywhere
        )
        rows.append(np.unique(own))
    with h5py.File(out, "w") as data:
        matrix = data.create_group("X")
        matrix.attrs["encoding-type"], matrix.attrs["encoding-version"] = "csr_matrix", "0.1.0"
        matrix.attrs["shape"] = (cells, regions)
        matrix.create_dataset("indices", data=np.concatenate(rows).astype(np.int32))
        matrix.create_dataset("indptr", data=np.cumsum([0, *map(len, rows)]))
        matrix.create_dataset("data", data=np.ones(sum(map(len, rows)), np.float32))
        for axis, names in (
            ("obs", [f"cell{i}" for i in range(cells)]),
            ("var", [f"chr{1 + i % 22}:{1000 * i}-{1000 * i + 500}" for i in range(regions)]),
        ):
            frame = data.create_group(axis)
            frame.attrs["encoding-type"], frame.attrs["encoding-version"] = "dataframe", "0.2.0"
            frame.attrs["_index"], frame.attrs["column-order"] = (
                "_index",
                ["cell_type"] if axis == "obs" else np.zeros(0),
            )
            frame.create_dataset("_index", data=names)
        data["obs"].create_dataset("cell_type", data=[f"type{t}" for t in cell_types])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
