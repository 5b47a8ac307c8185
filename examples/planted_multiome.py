"""Make a multiome of planted cell types, and its RNA alone: python planted_multiome.py [CELLS]

multiome.h5mu has the modalities rna (where 20 housekeeping genes are in every cell) and atac;
rna.h5ad is the first of them. It needs h5py alone.
"""

import sys

import h5py
import numpy as np
from planted_cells import draw_cells, region_names, write_cells

GENES, HOUSEKEEPING, REGIONS, TYPES = 500, 20, 3000, 6


def main(cells: int = 600) -> None:
    draw = np.random.default_rng(0)
    cell_types = draw.integers(TYPES, size=cells)
    own = draw_cells(draw, cell_types, GENES, 200, 80)
    every = draw.integers(GENES, GENES + HOUSEKEEPING, (cells, 150))
    genes = [f"Gene{i}" for i in range(GENES)] + [f"Rpl{i}" for i in range(HOUSEKEEPING)]
    rna = [np.concatenate(both) for both in zip(own, every)]
    atac = draw_cells(draw, cell_types, REGIONS, 300, 80)
    with h5py.File("multiome.h5mu", "w") as data:
        data.attrs["encoding-type"], data.attrs["encoding-version"] = "MuData", "0.1.0"
        write_cells(data.create_group("mod/rna"), rna, genes, cell_types)
        write_cells(data.create_group("mod/atac"), atac, region_names(REGIONS), cell_types)
    with h5py.File("rna.h5ad", "w") as data:
        write_cells(data, rna, genes, cell_types)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
