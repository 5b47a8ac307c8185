"""Matrices of counts and single cells: every form of the same matrix gives the same documents."""

from __future__ import annotations

import gzip
import json
import shutil

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import zarr

import topicstream
from tests.ingest_tools import digest
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.ingestion.open.source import Input
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse import sparse
from topicstream.ingestion.parse.documents import document_cells
from topicstream.ingestion.parse.sparse import Side, ordered_batches
from topicstream.ingestion.parts.tasks import pieces

CELLS = 300
FEATURES = 400
NAMES = [f"chr1:{100 * i}-{100 * i + 99}" for i in range(FEATURES)]
BARCODES = [f"cell{i}" for i in range(CELLS)]


def write_group(group, kind, matrix):
    """A sparse matrix as AnnData writes it into HDF5 or Zarr."""
    group.attrs["encoding-type"] = f"{kind}_matrix"
    group.attrs["shape"] = matrix.shape
    for name in ("data", "indices", "indptr"):
        array = getattr(matrix, name)
        if isinstance(group, h5py.Group):
            group.create_dataset(name, data=array)
        else:
            group.create_array(name, data=array)


def write_annotated(group, matrix, types):
    """AnnData: X, two layers, names, a column of categories and one of numbers."""
    write_group(group.create_group("X"), "csr", sp.csr_array(matrix))
    layers = group.create_group("layers")
    write_group(layers.create_group("csc"), "csc", sp.csc_array(matrix))
    write_group(layers.create_group("logs"), "csr", sp.csr_array(matrix).log1p())
    obs = group.create_group("obs")
    var = group.create_group("var")
    obs.attrs["_index"] = "_index"
    var.attrs["_index"] = "_index"
    kind = obs.create_group("cell_type")
    arrays = [
        (obs, "_index", BARCODES),
        (var, "_index", NAMES),
        (kind, "categories", sorted(set(types))),
    ]
    for home, name, values in arrays:
        if isinstance(home, h5py.Group):
            home.create_dataset(name, data=np.array(values, dtype=h5py.string_dtype()))
        else:
            home.create_array(name, data=np.array(values, np.dtypes.StringDType()))
    numbers = [
        (kind, "codes", np.searchsorted(sorted(set(types)), types).astype(np.int8)),
        (obs, "depth", matrix.sum(axis=1)),
    ]
    for home, name, values in numbers:
        home.create_dataset(name, data=values) if isinstance(
            home, h5py.Group
        ) else home.create_array(name, data=values)
    if isinstance(group, h5py.Group):
        layers.create_dataset("dense", data=matrix.toarray())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One matrix of counts, in every form."""
    folder = tmp_path_factory.mktemp("matrices")
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(rng.poisson(rng.gamma(0.3, 1.0, (CELLS, FEATURES)) * 0.5)).astype(
        np.float32
    )
    types = np.array([f"type{i % 3}" for i in range(CELLS)])
    with h5py.File(folder / "cells.h5ad", "w") as file:
        write_annotated(file, matrix, types)
    write_annotated(zarr.open_group(str(folder / "cells.zarr"), mode="w"), matrix, types)
    sp.save_npz(folder / "csr.npz", matrix)
    sp.save_npz(folder / "coo.npz", matrix.tocoo())
    sp.save_npz(folder / "csc.npz", sp.csc_array(matrix))
    np.savez(
        folder / "without.npz",
        shape=matrix.shape,
        format=np.array(b"csr"),
        indptr=matrix.indptr,
        indices=matrix.indices,
    )
    sp.save_npz(folder / "turned.npz", sp.csr_array(matrix.T))
    (folder / "names.txt").write_text("\n".join(NAMES))
    turned = sp.csc_array(matrix.T).astype(np.int64)
    (folder / "tenx").mkdir()
    with gzip.open(folder / "tenx" / "matrix.mtx.gz", "wb") as file:
        scipy.io.mmwrite(file, turned.tocoo(), field="integer")
    with gzip.open(folder / "tenx" / "barcodes.tsv.gz", "wt") as file:
        file.write("\n".join(BARCODES) + "\n")
    with gzip.open(folder / "tenx" / "features.tsv.gz", "wt") as file:
        file.write("".join(f"id{i}\t{name}\tPeaks\n" for i, name in enumerate(NAMES)))
    scipy.io.mmwrite(folder / "rows.mtx", sp.csr_array(turned).tocoo(), field="integer")
    with h5py.File(folder / "tenx.h5", "w") as file:
        inner = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            inner[name] = getattr(turned, name)
        inner["shape"] = np.array(turned.shape)
        inner["barcodes"] = np.array(BARCODES, "S")
        inner["features/id"] = np.array([f"id{i}" for i in range(FEATURES)], "S")
        inner["features/name"] = np.array(NAMES, "S")
    return folder, matrix


def counts_of(store, names):
    """Documents x features as a store has them, in the order of the matrix."""
    corpus = topicstream.Corpus.open(store)
    table = {name: i for i, name in enumerate(names)}
    columns = [table[word] for word in corpus.words.to_pylist()]
    found = np.zeros((len(corpus), len(names)))
    found[:, columns] = corpus.to_scipy().toarray()
    return found


FORMS = {
    "h5ad": ["cells.h5ad"],
    "a layer by columns": ["cells.h5ad", "--layer", "csc"],
    "a dense layer": ["cells.h5ad", "--layer", "dense"],
    "zarr": ["cells.zarr"],
    "csr": ["csr.npz", "--words", "names.txt"],
    "csc": ["csc.npz", "--words", "names.txt"],
    "turned": ["turned.npz", "--transpose", "--words", "names.txt"],
    "10x folder": ["tenx"],
    "10x matrix": ["tenx/matrix.mtx.gz"],
    "10x hdf5": ["tenx.h5"],
    "10x matrix of rows": ["tenx/matrix.mtx.gz", "--transpose", "--words", "names.txt"],
    "mtx by rows, turned": ["rows.mtx", "--transpose", "--words", "names.txt"],
}


@pytest.mark.quick("csr", "turned", "h5ad", "10x matrix", "10x folder", "zarr")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_documents(place, form, tmp_path, monkeypatch, capsys):
    folder, matrix = place
    monkeypatch.chdir(folder)
    assert (
        run(["ingest", *FORMS[form], "--out", str(tmp_path / "c.zarr"), "--heldout", "0", "-q"])
        == 0
    )
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    said = capsys.readouterr().out
    assert "as documents" in said


def test_metadata_binarized_counts_and_inference(place, tmp_path, monkeypatch, capsys):
    folder, matrix = place
    monkeypatch.chdir(folder)
    store = str(tmp_path / "c.zarr")
    model = str(tmp_path / "m")
    line = [
        "ingest",
        "cells.h5ad",
        "--layer",
        "logs",
        "--binarize",
        "--meta",
        "cell_type,depth",
        "--out",
        store,
    ]
    assert run([*line, "--heldout", "0", "-q"]) == 0
    np.testing.assert_array_equal(counts_of(store, NAMES), matrix.toarray() > 0)
    first = next(iter(topicstream.Corpus.open(store)))
    assert first.id == "cell0" and first.metadata["cell_type"] == "type0"
    assert (
        run(["train", "--corpus", store, "--model", model, "-K", "3", "--passes", "3", "-q"]) == 0
    )
    capsys.readouterr()
    assert run(["infer", "cells.h5ad", "--model", model, "--top", "1", "-q"]) == 0
    answers = [json.loads(answer) for answer in capsys.readouterr().out.splitlines()]
    assert (
        len(answers) == CELLS and answers[0]["tokens"] == (matrix.toarray()[0] > 0).sum()
    )  # layer and binarize are remembered


def test_anndata_in_memory(place, tmp_path):
    _, matrix = place

    class AnnData:
        X = matrix
        obs_names = BARCODES
        var_names = NAMES
        obs = {"cell_type": [f"type{i % 3}" for i in range(CELLS)]}

    topicstream.ingest(
        AnnData(), tmp_path / "c.zarr", meta=("cell_type",), heldout=0, progress=False
    )
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    with pytest.raises(InputError, match="no column 'age'"):
        topicstream.ingest(AnnData(), tmp_path / "d.zarr", meta=("age",), heldout=0, progress=False)

    class Scaled(AnnData):
        X = matrix.toarray() - 1.5
        layers = {"counts": matrix}

    topicstream.ingest(Scaled(), tmp_path / "e.zarr", layer="counts", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "e.zarr", NAMES), matrix.toarray())
    for more, said in (
        ({}, "values below 0 .*layer=NAME"),
        ({"layer": "count"}, r"no layer 'count' \(its layers: counts\)"),
    ):
        with pytest.raises(InputError, match=said):
            topicstream.ingest(Scaled(), tmp_path / "d.zarr", heldout=0, progress=False, **more)
    Scaled.X = None
    with pytest.raises(InputError, match=r"no X \(its layers: counts\)"):
        topicstream.ingest(Scaled(), tmp_path / "d.zarr", heldout=0, progress=False)

    class Backed(AnnData):
        isbacked = True
        filename = "cells.h5ad"

    with pytest.raises(InputError, match=r"give Path\('cells.h5ad'\)"):
        topicstream.ingest(Backed(), tmp_path / "d.zarr", heldout=0, progress=False)


def test_a_file_of_an_old_anndata_is_said_to_be_one(tmp_path):
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        file["X"] = np.ones((2, 3))
        file["obs"] = np.zeros(2, [("index", "S3"), ("louvain", "i1")])
    with pytest.raises(InputError, match=r"before 0\.7; write it again"):
        topicstream.ingest(tmp_path / "old.h5ad", tmp_path / "c.zarr", progress=False)


def test_every_kind_of_obs_column_is_read(place, tmp_path):
    folder, _ = place
    path = tmp_path / "kinds.h5ad"
    path.write_bytes((folder / "cells.h5ad").read_bytes())
    with h5py.File(path, "r+") as file:
        obs = file["obs"]
        masked = np.arange(CELLS) % 2 == 1
        for name, values in (
            ("age", np.arange(CELLS)),
            ("donor", np.array(["d"] * CELLS, h5py.string_dtype())),
        ):
            group = obs.create_group(name)  # nullable-integer, nullable-string-array
            group["values"] = values
            group["mask"] = masked
        obs["score"] = np.where(masked, np.nan, 0.5)
        obs["old"] = (
            np.arange(CELLS) % 3 - 1
        )  # codes of categories, as AnnData wrote them before 0.8
        obs["__categories/old"] = np.array(["left", "right"], h5py.string_dtype())
        index = obs.create_group("names")
        index["values"] = np.array(BARCODES, h5py.string_dtype())
        index["mask"] = np.zeros(CELLS, bool)
        obs.attrs["_index"] = "names"
    columns = ("age", "donor", "score", "old")
    topicstream.ingest(path, tmp_path / "c.zarr", meta=columns, heldout=0, progress=False)
    documents = [
        {name: d.metadata.get(name) for name in columns}
        for d in topicstream.Corpus.open(tmp_path / "c.zarr")
    ]
    assert documents[4] == {"age": "4", "donor": "d", "score": "0.5", "old": "left"}
    assert documents[3] == dict.fromkeys(columns)


def test_names_that_occur_again_stay_features_and_cells_of_their_own(place, tmp_path):
    folder, matrix = place
    path = tmp_path / "twice.h5ad"
    names = [*NAMES]
    barcodes = [*BARCODES]
    path.write_bytes((folder / "cells.h5ad").read_bytes())
    names[3] = names[9] = names[8]
    barcodes[20] = barcodes[10]
    with h5py.File(path, "r+") as file:
        file["var/_index"][:] = names
        file["obs/_index"][:] = barcodes
    expected = [*names]
    # as AnnData's var_names_make_unique
    expected[8] = f"{names[3]}-1"
    expected[9] = f"{names[3]}-2"
    topicstream.ingest(path, tmp_path / "c.zarr", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", expected), matrix.toarray())

    class AnnData:
        X = matrix
        obs_names = barcodes
        var_names = names
        obs = None

    topicstream.ingest(AnnData(), tmp_path / "d.zarr", heldout=0, progress=False)
    np.testing.assert_array_equal(counts_of(tmp_path / "d.zarr", expected), matrix.toarray())
    assert [d.id for d in topicstream.Corpus.open(tmp_path / "d.zarr")][20] == "cell10-1"


def test_raw_counts_beside_a_normalised_matrix(place, tmp_path):
    _, matrix = place
    with h5py.File(tmp_path / "raw.h5ad", "w") as file:
        write_annotated(file, sp.csr_array(matrix[:, :50]).log1p(), np.array(["t"] * CELLS))
        del file["var/_index"]
        file["var/_index"] = np.array(NAMES[:50], h5py.string_dtype())
        write_group(file.create_group("raw/X"), "csr", matrix)
        file["raw/var/_index"] = np.array(NAMES, h5py.string_dtype())
    topicstream.ingest(
        tmp_path / "raw.h5ad", tmp_path / "c.zarr", layer="raw", heldout=0, progress=False
    )
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["cells.h5ad", "--layer", "logs"], 3, "--binarize"),
        (
            ["cells.h5ad", "--layer", "none"],
            3,
            "choose one of its layers with --layer: csc, dense, logs",
        ),
        (["cells.h5ad", "--meta", "age"], 3, "it has cell_type, depth"),
        (["cells.h5ad", "--meta", "cell_type", "--transpose"], 3, "leave out --meta"),
        (["coo.npz"], 3, "a sparse matrix in coo form; save it as CSR"),
        (["without.npz"], 3, "no item named 'data.npy'"),
        (["csr.npz", "--words", "tenx/barcodes.tsv.gz"], 3, "300 words, but csr.npz states 400"),
    ],
)
def test_what_cannot_be_read_is_one_line(place, line, code, said, tmp_path, monkeypatch, capsys):
    folder, _ = place
    monkeypatch.chdir(folder)
    assert run(["ingest", *line, "--out", str(tmp_path / "c.zarr"), "-q"]) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_matrices_of_geo_have_the_prefix_of_their_sample(place, tmp_path):
    folder, matrix = place
    (tmp_path / "geo").mkdir()
    for path in (folder / "tenx").iterdir():
        for sample in ("GSM1_a_", "GSM2_b_"):
            shutil.copy(path, tmp_path / "geo" / (sample + path.name))
    with pytest.raises(
        InputError, match=r"give each 10x matrix itself, such as \S*geo/GSM1_a_matrix.mtx.gz$"
    ):
        topicstream.ingest(tmp_path / "geo", tmp_path / "c.zarr", progress=False)
    topicstream.ingest(
        tmp_path / "geo" / "GSM1_a_matrix.mtx.gz", tmp_path / "c.zarr", heldout=0, progress=False
    )
    np.testing.assert_array_equal(counts_of(tmp_path / "c.zarr", NAMES), matrix.toarray())
    (tmp_path / "geo" / "GSM2_b_barcodes.tsv.gz").unlink()
    with pytest.raises(
        InputError, match=r"GSM2_b_matrix\.mtx\.gz: 10x matrix without barcodes.tsv"
    ):
        topicstream.ingest(
            tmp_path / "geo" / "GSM2_b_matrix.mtx.gz", tmp_path / "d.zarr", progress=False
        )


def test_features_of_several_kinds_are_told(place, tmp_path):
    folder, _ = place
    shutil.copytree(folder / "tenx", tmp_path / "tenx")
    with gzip.open(tmp_path / "tenx" / "features.tsv.gz", "wt") as file:
        file.write(
            "".join(
                f"id{i}\t{name}\t{'Gene Expression' if i < 9 else 'Peaks'}\n"
                for i, name in enumerate(NAMES)
            )
        )
    shutil.copy(folder / "tenx.h5", tmp_path / "two.h5")
    with h5py.File(tmp_path / "two.h5", "r+") as file:
        file["matrix/features/feature_type"] = np.array(
            ["Gene Expression"] * 9 + ["Peaks"] * (FEATURES - 9), "S"
        )
    for name in ("tenx", "two.h5"):
        summary = topicstream.ingest(tmp_path / name, tmp_path / f"{name}.zarr", progress=False)
        assert (
            summary["notes"][
                "features of several kinds (Gene Expression, Peaks; --vocab FILE keeps those it "
                "lists)"
            ]
            == FEATURES
        )


def test_progress_says_how_far_the_cells_are(place, tmp_path):
    folder, _ = place
    for name in ("cells.h5ad", "csc.npz", "tenx", "rows.mtx"):
        options = ReadOptions(piece_bytes=1 << 12, scratch=tmp_path)
        seen = [task.consumed / task.total for task in pieces(folder / name, options)]
        assert (
            len(seen) > 2 and seen == sorted(seen) and 0 < seen[0] < seen[-1] and seen[-1] == 1
        ), name


def test_a_folder_around_a_10x_folder_points_to_it(place, tmp_path):
    folder, _ = place
    shutil.copytree(folder / "tenx", tmp_path / "matrices" / "hg19")
    with pytest.raises(
        InputError, match=r"give each 10x matrix itself, such as \S*matrices/hg19/matrix.mtx.gz$"
    ):
        topicstream.ingest(tmp_path / "matrices", tmp_path / "c.zarr", progress=False)


@pytest.mark.parametrize("damage", ["cut", "pointers", "indices", "names"])
def test_damaged_files_are_one_line(place, damage, tmp_path, capsys):
    folder, _ = place
    path = tmp_path / "bad.h5ad"
    path.write_bytes((folder / "cells.h5ad").read_bytes())
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:3000])
    else:
        with h5py.File(path, "r+") as file:
            if damage == "pointers":
                file["X/indptr"][5] = 10**6
            elif damage == "indices":
                file["X/indices"][7] = 10**6
            else:
                del file["var/_index"]
    assert run(["ingest", str(path), "--out", str(tmp_path / "c.zarr"), "-q"]) == 3
    error = capsys.readouterr().err
    assert "bad.h5ad" in error and error.count("\n") == 1


def test_cells_are_sorted_out_of_core_in_many_ranges(tmp_path):
    rng = np.random.default_rng(1)
    matrix = sp.random_array((1000, 90), density=0.1, rng=rng, format="coo")
    matrix.data[:] = rng.integers(1, 9, matrix.nnz)
    order = rng.permutation(matrix.nnz)
    parts = [
        (matrix.row[p].astype(np.int64), matrix.col[p].astype(np.int64), matrix.data[p])
        for p in np.array_split(order, 7)
    ]
    options = ReadOptions(piece_bytes=1 << 14, scratch=tmp_path)
    runs = [
        document_cells(b)
        for b in ordered_batches(Input("x", "x"), options, iter(parts), Side(1000), 90, matrix.nnz)
    ]
    assert len(runs) > 20 and sum(len(r.indptr) - 1 for r in runs) == 1000
    found = np.concatenate(
        [
            sp.csr_array((r.counts, r.words, r.indptr), shape=(len(r.indptr) - 1, 90)).toarray()
            for r in runs
        ]
    )
    np.testing.assert_array_equal(found, matrix.toarray())


def test_pieces_that_share_their_words_make_the_same_store(place, tmp_path, monkeypatch):
    """Many pieces of a matrix, whose words are spooled once, and one piece; words of held-out cells
    alone are known, too.
    """
    stores = []
    for cells in (1 << 20, 1_500):
        monkeypatch.setattr(sparse, "READ_CELLS", cells)
        for workers in (1, 2):
            stores.append(tmp_path / f"{cells}-{workers}.zarr")
            topicstream.ingest(
                place[0] / "csr.npz", stores[-1], heldout=0.5, workers=workers, progress=False
            )
    assert len({digest(store) for store in stores}) == 1


def test_cells_of_two_samples_with_the_same_barcodes_stay_apart(place, tmp_path):
    folder, _ = place
    for name in ("a", "b"):
        shutil.copytree(folder / "tenx", tmp_path / "given" / name)
    shutil.copy(folder / "cells.h5ad", tmp_path / "c.h5ad")
    shutil.copy(folder / "cells.h5ad", tmp_path / "d.h5ad")
    summary = topicstream.ingest(
        [tmp_path / "given" / "a", tmp_path / "given" / "b"],
        tmp_path / "two.zarr",
        min_df=1,
        max_df=1.0,
        heldout=0,
    )
    assert summary["documents"] == 2 * CELLS and summary["dropped_duplicates"] == 0
    store = topicstream.Corpus.open(tmp_path / "two.zarr")
    assert [store[0].id, store[CELLS].id] == [f"a:{BARCODES[0]}", f"b:{BARCODES[0]}"]
    (tmp_path / "samples").mkdir()
    for name in ("c.h5ad", "d.h5ad"):
        (tmp_path / name).rename(tmp_path / "samples" / name)
        summary = topicstream.ingest(
            tmp_path / "samples", tmp_path / f"{name}.zarr", min_df=1, max_df=1.0, heldout=0
        )
        first = topicstream.Corpus.open(tmp_path / f"{name}.zarr")[0].id
        assert first == f"c.h5ad:{BARCODES[0]}", (
            "the same whether the folder holds one file or two, as it does night by night"
        )
    assert summary["documents"] == 2 * CELLS
