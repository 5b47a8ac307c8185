"""Files of cells that hold several matrices, or are none: which one is read, and what is said of
the others.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
import zarr

import topicstream
from tests.ingestion import test_matrices
from tests.ingestion.test_matrices import (
    BARCODES,
    CELLS,
    FEATURES,
    NAMES,
    counts_of,
    write_annotated,
)
from topicstream.base.errors import InputError
from topicstream.cli.main import run

place = test_matrices.place


def test_a_modality_of_mudata_is_read(place, tmp_path):
    _, matrix = place
    path = tmp_path / "both.h5mu"
    types = np.array(["type0"] * CELLS)
    with h5py.File(path, "w", userblock_size=512) as file:
        write_annotated(file.create_group("mod/atac"), matrix, types)
        for name in ("obs", "var", "mod/rna"):
            file.create_group(name)
    with path.open("r+b") as file:  # as MuData begins its files
        file.write(b"MuData (format-version=0.1.0;creator=muon;creator-version=0.2.0)")
    with pytest.raises(
        InputError,
        match=r"both.h5mu: has no X; choose one of its modalities with --layer: atac, rna",
    ):
        topicstream.ingest(path, tmp_path / "c.zarr", progress=False)
    for layer in ("atac", "atac/csc"):
        topicstream.ingest(
            path,
            tmp_path / "c.zarr",
            layer=layer,
            meta="depth",
            heldout=0,
            progress=False,
            force=True,
        )
        np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())


def test_zarr_whose_consolidated_metadata_are_not_all_known(place, tmp_path):
    folder, matrix = place
    shutil.copytree(folder / "cells.zarr", tmp_path / "cells.zarr")
    zarr.open_group(str(tmp_path / "cells.zarr")).create_array(
        "raw", data=np.array(False)
    )  # as AnnData writes none
    zarr.consolidate_metadata(str(tmp_path / "cells.zarr"))
    about = tmp_path / "cells.zarr" / "zarr.json"
    tree = json.loads(about.read_text())
    ranks = {
        **tree["consolidated_metadata"]["metadata"]["X/data"],
        "data_type": {"name": "struct", "configuration": {}},
    }
    tree["consolidated_metadata"]["metadata"]["uns/ranks"] = ranks
    about.write_text(json.dumps(tree))
    topicstream.ingest(tmp_path / "cells.zarr", tmp_path / "c.zarr", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    with pytest.raises(
        InputError, match="has no layer 'raw'; choose one of its layers with --layer: csc, logs"
    ):
        topicstream.ingest(
            tmp_path / "cells.zarr", tmp_path / "d.zarr", layer="raw", progress=False
        )
    about.write_text("{")
    with pytest.raises(InputError, match=r"cells\.zarr: not a Zarr group that can be read"):
        topicstream.ingest(tmp_path / "cells.zarr", tmp_path / "d.zarr", progress=False)


def test_hdf5_of_cell_ranger_2(place, tmp_path):
    _, matrix = place
    turned = sp.csc_array(matrix.T).astype(np.int64)
    path = tmp_path / "old.h5"
    with h5py.File(path, "w") as file:
        inner = file.create_group("hg19")
        for name in ("data", "indices", "indptr"):
            inner[name] = getattr(turned, name)
        inner["shape"] = np.array(turned.shape)
        inner["barcodes"] = np.array(BARCODES, "S")
        inner["genes"] = np.array([f"id{i}" for i in range(FEATURES)], "S")
        inner["gene_names"] = np.array(NAMES, "S")
    topicstream.ingest(path, tmp_path / "c.zarr", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    with h5py.File(path, "r+") as file:
        file.copy("hg19", "mm10")
    with pytest.raises(InputError, match="choose one of its matrices with --layer: hg19, mm10"):
        topicstream.ingest(path, tmp_path / "d.zarr", heldout=0, progress=False)
    topicstream.ingest(path, tmp_path / "d.zarr", layer="mm10", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "d.zarr", NAMES), matrix.toarray())


def test_peaks_are_named_by_their_places(place, tmp_path):
    folder, matrix = place
    for path in (folder / "tenx").iterdir():
        shutil.copy(path, tmp_path / f"GSM1_{path.name}")
    (tmp_path / "GSM1_features.tsv.gz").unlink()
    with gzip.open(tmp_path / "GSM1_peaks.bed.gz", "wt") as file:
        file.write("".join(f"chr1\t{100 * i}\t{100 * i + 99}\n" for i in range(FEATURES)))
    summary = topicstream.ingest(
        tmp_path / "GSM1_matrix.mtx.gz", tmp_path / "c.zarr", heldout=0, progress=False
    )
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    assert not any("kinds" in note for note in summary["notes"])  # the ends of peaks are no kinds


def test_a_model_of_a_transposed_matrix_reads_cells_of_other_formats(
    place, tmp_path, monkeypatch, capsys
):
    folder, _ = place
    monkeypatch.chdir(folder)
    store = str(tmp_path / "c.zarr")
    model = str(tmp_path / "m")
    assert (
        run(["ingest", "turned.npz", "--transpose", "--words", "names.txt", "--out", store, "-q"])
        == 0
    )
    assert (
        run(["train", "--corpus", store, "--model", model, "-K", "3", "--passes", "3", "-q"]) == 0
    )
    for name in ("cells.h5ad", "tenx", "tenx/matrix.mtx.gz", "tenx.h5"):
        capsys.readouterr()
        assert run(["infer", name, "--model", model, "--top", "1", "-q"]) == 0, name
        assert len(capsys.readouterr().out.splitlines()) == CELLS


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["csr.npz", "--layer", "counts"], 2, "csr.npz is read as npz, which has no layers"),
        (["tenx", "--layer", "counts"], 2, "tenx is read as tenx, which has no layers"),
        (["tenx.h5", "--layer", "counts"], 3, "choose one of its matrices with --layer: matrix"),
        (
            ["all.tar.gz"],
            3,
            "all.tar.gz: holds a matrix (hg19/barcodes.tsv.gz); unpack it and give the folder",
        ),
        (["fragments.tsv.gz"], 3, "fragments of single cells; count them by peaks or bins first"),
        (["dense.csv"], 3, "(--text-field; a table of counts is read as .npz, .mtx or .h5ad)"),
    ],
)
def test_what_is_no_such_matrix_is_one_line(place, line, code, said, tmp_path, monkeypatch, capsys):
    shutil.copytree(place[0] / "tenx", tmp_path / "tenx")
    for name in ("csr.npz", "tenx.h5"):
        shutil.copy(place[0] / name, tmp_path)
    (tmp_path / "dense.csv").write_text(
        ",".join(["cell", *NAMES]) + "\n" + ",".join(["cell0", *"0" * FEATURES]) + "\n"
    )
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "tenx" / "barcodes.tsv.gz", "hg19/barcodes.tsv.gz")
    with gzip.open(tmp_path / "fragments.tsv.gz", "wt") as file:
        file.write("chr1\t10\t160\tAAAC-1\t2\n" * 50)
    monkeypatch.chdir(tmp_path)
    assert run(["ingest", *line, "--out", "c.zarr", "-q"]) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
