"""Topics of single cells go back to AnnData, and are chosen by the measures of that field."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

import topicstream
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.topic_number import (
    arun,
    cao_juan,
    topic_number_measures,
    topic_products,
)
from topicstream.model.topic_model import TopicModel

CELLS = 400
REGIONS = 900
TYPES = 4


@pytest.fixture(scope="module")
def planted():
    """Binary matrix, cells x regions, of four types of cells; one cell and one region are empty."""
    draw = np.random.default_rng(3)
    types = draw.integers(TYPES, size=CELLS)
    open_in = draw.dirichlet(np.full(REGIONS, 0.2), TYPES)
    matrix = (draw.random((CELLS, REGIONS)) < np.minimum(open_in[types] * 90, 0.9)).astype(
        np.float32
    )
    matrix[5] = 0
    matrix[:, 7] = 0
    return matrix, types


@pytest.fixture(scope="module")
def trained(planted, tmp_path_factory):
    """An AnnData file, a store and a model of it."""
    folder = tmp_path_factory.mktemp("cells")
    (matrix, _) = planted
    with h5py.File(folder / "a.h5ad", "w") as data:
        rows = sp.csr_matrix(matrix)
        group = data.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["shape"] = rows.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(rows, name))
        for axis, letter, count in (("obs", "c", CELLS), ("var", "r", REGIONS)):
            frame = data.create_group(axis)
            frame.attrs["_index"] = "names"
            frame.create_dataset("names", data=[f"{letter}{i}" for i in range(count)])
    assert (
        run(
            [
                "ingest",
                str(folder / "a.h5ad"),
                "--out",
                str(folder / "a.zarr"),
                "--heldout",
                "10%",
                "-q",
            ]
        )
        == 0
    )
    assert (
        run(
            [
                "train",
                "--corpus",
                str(folder / "a.zarr"),
                "--model",
                str(folder / "m"),
                "-K",
                str(TYPES),
                "-q",
            ]
        )
        == 0
    )
    return folder


def probabilities(model):
    """p(word | topic), float64[K, W]."""
    return (
        (model.phi.astype(np.float64) + model.beta) / (model.totals + model.beta * model.n_words)
    ).T


def prior_of(model):
    """The mean of the Dirichlet prior, by number of the topic."""
    return (model.alpha / model.alpha.sum())[np.argsort(model.column_ids)]


def export(folder, *arguments):
    return run(
        [
            "export",
            "--corpus",
            str(folder / "a.zarr"),
            "--model",
            str(folder / "m"),
            "-q",
            *map(str, arguments),
        ]
    )


def test_topics_go_into_a_copy_of_the_anndata_file(planted, trained, tmp_path, capsys):
    before = (trained / "a.h5ad").read_bytes()
    assert export(trained, "--into", trained / "a.h5ad", "--out", tmp_path / "b.h5ad") == 0
    with h5py.File(tmp_path / "b.h5ad") as data:
        model = TopicModel.open(trained / "m")
        shares = data["obsm/X_topic"][:]
        topics = data["varm/topic"][:]
        assert (
            data["X/indptr"].shape == (CELLS + 1,) and data["uns/topicstream/topics"][()] == TYPES
        )
        assert (
            data["obsm"].attrs["encoding-type"] == "dict"
            and data["obsm/X_topic"].attrs["encoding-type"] == "array"
        )
        known = ~data["obs/topics_are_prior"][:]
        assert data["obs"].attrs["column-order"].tolist() == ["topics_are_prior"]
    assert shares.shape == (CELLS, TYPES) and topics.shape == (REGIONS, TYPES)
    assert known.sum() == CELLS - 1 and not known[5]  # this one is empty
    assert np.allclose(shares.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(shares[5], prior_of(model), rtol=1e-5)
    assert (
        np.isnan(topics[7]).all() and (~np.isnan(topics[:, 0])).sum() == model.n_words
    )  # no cell has the others
    np.testing.assert_allclose(
        topics[int(model.words[3][1:])], probabilities(model)[:, 3], rtol=1e-4
    )
    types = planted[1]
    found = np.array(
        [
            [np.sum((types == t) & known & (shares.argmax(1) == k)) for k in range(TYPES)]
            for t in range(TYPES)
        ]
    )
    assert found.max(1).sum() > 0.95 * known.sum()
    assert (trained / "a.h5ad").read_bytes() == before
    # ours may be replaced, and is no other file
    assert (
        export(trained, "--into", trained / "a.h5ad", "--out", tmp_path / "b.h5ad", "--force") == 0
    )
    assert (
        export(trained, "--into", trained / "a.h5ad", "--out", trained / "a.h5ad", "--force") == 2
    )
    assert "is the input" in capsys.readouterr().err
    assert (
        export(trained, "--into", trained / "m" / "manifest.json", "--out", tmp_path / "c.h5ad")
        == 3
    )
    assert "not an HDF5 file" in capsys.readouterr().err and not (tmp_path / "c.h5ad").exists()
    with h5py.File(tmp_path / "other.h5", "w") as data:
        data["obs"] = [1, 2]
    assert export(trained, "--into", tmp_path / "other.h5", "--out", tmp_path / "c.h5ad") == 3
    assert (
        "names no obs as AnnData does" in capsys.readouterr().err
        and not (tmp_path / "c.h5ad").exists()
    )


def test_topics_of_several_samples_go_into_the_file_of_each(planted, trained, tmp_path):
    (tmp_path / "s1.h5ad").write_bytes((trained / "a.h5ad").read_bytes())
    with (
        h5py.File(trained / "a.h5ad") as data,
        h5py.File(tmp_path / "s2.h5ad", "w") as turned,
    ):  # its cells in another order
        data.copy("var", turned)
        data.copy("obs", turned)
        turned["obs/names"][:] = data["obs/names"][:][::-1]
        turned["X"] = planted[0][::-1]
    store = str(tmp_path / "two.zarr")
    model = str(tmp_path / "m")
    samples = [str(tmp_path / name) for name in ("s1.h5ad", "s2.h5ad")]
    assert run(["ingest", *samples, "--out", store, "-q"]) == 0
    assert (
        run(["train", "--corpus", store, "--model", model, "-K", str(TYPES), "--passes", "5", "-q"])
        == 0
    )
    shares = []
    empty = []
    for sample in samples:
        out = sample.replace(".h5ad", "-topics.h5ad")
        assert (
            run(
                [
                    "export",
                    "--corpus",
                    store,
                    "--model",
                    model,
                    "--into",
                    sample,
                    "--out",
                    out,
                    "-q",
                ]
            )
            == 0
        )
        with h5py.File(out) as data:
            shares.append(data["obsm/X_topic"][:])
            empty.append(np.flatnonzero(data["obs/topics_are_prior"][:]).tolist())
    assert empty == [[5], [CELLS - 1 - 5]]
    np.testing.assert_allclose(shares[0], shares[1][::-1], atol=1e-5)  # the same cells


def test_a_cell_of_no_store_has_the_prior_as_an_empty_one(planted, trained, tmp_path):
    with h5py.File(tmp_path / "more.h5ad", "w") as turned, h5py.File(trained / "a.h5ad") as data:
        data.copy("var", turned)
        frame = turned.create_group("obs")
        frame.attrs["_index"] = "names"
        frame.attrs["column-order"] = np.array(["type", "topics_are_prior"], object)
        frame.create_dataset("names", data=["c3", "stranger", "c5"])
        frame.create_dataset("type", data=[1, 2, 3])
        frame.create_dataset("topics_are_prior", data=[9.0, 9.0, 9.0])  # of an earlier export
        turned["X"] = planted[0][:3]
    out = tmp_path / "out.h5ad"
    assert export(trained, "--into", tmp_path / "more.h5ad", "--out", out) == 0
    with h5py.File(out) as data:
        shares = data["obsm/X_topic"][:]
        assert data["obs/topics_are_prior"][:].tolist() == [False, True, True]
        assert data["obs"].attrs["column-order"].tolist() == ["type", "topics_are_prior"]
    prior = prior_of(TopicModel.open(trained / "m"))
    np.testing.assert_allclose(shares[1:], np.stack([prior, prior]), rtol=1e-5)
    answers = topicstream.infer(trained / "m", trained / "a.zarr", edits=False)
    row = answers["id"].to_pylist().index("c3")
    np.testing.assert_allclose(
        shares[0, answers["topics"][row].as_py()], answers["shares"][row].as_py()
    )


def test_an_anndata_file_of_its_own_holds_the_names(trained, tmp_path):
    assert export(trained, "--out", tmp_path / "own.h5ad") == 0
    model = TopicModel.open(trained / "m")
    corpus = Corpus.open(trained / "a.zarr")
    with h5py.File(tmp_path / "own.h5ad") as data:
        assert data.attrs["encoding-type"] == "anndata"
        assert data["var/_index"].asstr()[:].tolist() == model.words
        assert len(data["obs/_index"]) == len(data["obsm/X_topic"]) == len(corpus)
        empty = data["obs/topics_are_prior"][:]
        assert data["obs/_index"].asstr()[:][empty].tolist() == ["c5"]
        assert not np.isnan(data["obsm/X_topic"][:]).any()


def test_measures_are_their_definitions(trained):
    model = TopicModel.open(trained / "m")
    corpus = Corpus.open(trained / "a.zarr")
    phi = probabilities(model)
    products = topic_products(model)
    np.testing.assert_allclose(products, phi @ phi.T, rtol=1e-4)
    unit = phi / np.linalg.norm(phi, axis=1, keepdims=True)
    assert cao_juan(products) == pytest.approx(
        (unit @ unit.T)[np.triu_indices(TYPES, 1)].mean(), rel=1e-4
    )
    values = np.linalg.svd(phi, compute_uv=False)
    sizes = np.array([9.0, 2.0, 5.0, 4.0])
    p = values / values.sum()
    q = np.sort(sizes)[::-1] / sizes.sum()
    assert arun(products, sizes) == pytest.approx(
        (p * np.log(p / q)).sum() + (q * np.log(q / p)).sum(), rel=1e-3
    )
    assert topic_number_measures(model, corpus)["mimno_2011"] < 0


@pytest.mark.product
def test_a_sweep_prints_the_measures(trained, tmp_path, capsys):
    command = [
        "sweep",
        "--corpus",
        str(trained / "a.zarr"),
        "-K",
        f"2,{TYPES},9",
        "--seeds",
        "1",
        "--out",
        str(tmp_path / "s"),
    ]
    assert run([*command, "--measures", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert min(rows, key=lambda row: row["cao_juan_2009"])["topics"] == TYPES
    assert run([*command, "--measures", "-q", "--plot", str(tmp_path / "s.svg")]) == 0
    assert "cao_juan_2009" in capsys.readouterr().out
    drawn = (tmp_path / "s.svg").read_text()
    assert "Mimno 2011" in drawn and "NPMI" in drawn and "stability" not in drawn, (
        "one seed has no stability"
    )
    assert run([*command, "-q"]) == 0
    assert "cao_juan_2009" not in capsys.readouterr().out
