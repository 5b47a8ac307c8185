"""Stores of dense rows: NumPy arrays, Parquet columns, arrays in memory and patches of images; bad
ones.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.addons.clusters.test_gmm import infer_rows, points, run, stored
from topicstream.base.errors import InputError, UsageError
from topicstream.cli.main import run as command
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.inference.infer import infer
from topicstream.ingestion.parse.documents import document_cells
from topicstream.ingestion.pipeline import ingest


def test_a_store_of_vectors_is_the_file_and_takes_more(tmp_path):
    x, _ = points(6, docs=700)
    path = stored(tmp_path, x, heldout="10%")
    store = Corpus.open(path, dense=True)
    assert store.width == 5
    assert store.n_docs + store.part(True).docs == 700
    found = infer_rows(store)
    np.testing.assert_array_equal(found, x)
    np.savez(tmp_path / "y.npz", a=x[:3] + 1, b=(x[3:5] + 1).astype(np.float64))
    ingest(tmp_path / "y.npz", path, append=True, progress=False)
    assert len(infer_rows(Corpus.open(path, dense=True))) == 705
    wide = tmp_path / "w.npy"
    np.save(wide, np.zeros((4, 6)))
    with pytest.raises(InputError, match="holds vectors of 5 numbers"):
        ingest(wide, path, append=True, progress=False)
    with pytest.raises(
        InputError, match="vectors of 6 numbers, where those before are vectors of 5"
    ):
        ingest([tmp_path / "x.npy", wide], tmp_path / "mixed.zarr", progress=False)


def test_options_that_choose_words_are_refused_for_vectors(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((60, 5), np.float32))
    (tmp_path / "words.txt").write_text("apple\npear\n")
    for chosen in (
        {"vocab": tmp_path / "words.txt"},
        {"drop_words": tmp_path / "words.txt"},
        {"drop_top": 1},
    ):
        with pytest.raises(
            UsageError, match="choose words, but these documents are vectors of 5 numbers"
        ):
            ingest(tmp_path / "x.npy", tmp_path / "c.zarr", progress=False, **chosen)
    assert ingest(tmp_path / "x.npy", tmp_path / "c.zarr", progress=False)["documents"] == 60


def test_vectors_of_parquet_and_of_memory_are_those_of_a_file(tmp_path):
    x, z = points(9, docs=500)
    names = [f"p{i}" for i in range(500)]
    stored(tmp_path, x)
    expected = infer_rows(Corpus.open(tmp_path / "v.zarr", dense=True))
    flat = pa.array(x.ravel())
    of_one = pa.FixedSizeListArray.from_arrays(flat, 5)
    lists = pa.array(x.astype(float).tolist(), pa.list_(pa.float64()))
    table = pa.table({"id": names, "group": [f"g{k}" for k in z], "one": of_one, "lists": lists})
    for i in range(5):
        table = table.append_column(f"c{i}", pa.array(x[:, i]))
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=190)
    for fields in ("one", "lists", "c0,c1,c2,c3,c4", "c0, c1,c2 ,c3,c4", ("c0,c1", "c2,c3,c4")):
        out = tmp_path / "p.zarr"
        ingest(
            tmp_path / "x.parquet",
            out,
            vector_field=fields,
            meta={"labels": "group"},
            heldout="0",
            progress=False,
            force=True,
        )
        np.testing.assert_array_equal(infer_rows(Corpus.open(out, dense=True)), expected)
    ingest(
        tmp_path / "x.parquet", out, append=True, on_duplicate="skip", progress=False
    )  # the field is remembered
    assert Corpus.open(out, dense=True).n_docs == 500
    run(out, tmp_path / "m", passes=8)
    assert (
        evaluate(tmp_path / "m", out, labels=True, label_field="labels", progress=False)["labels"][
            "docs"
        ]
        == 500
    )
    found = infer(tmp_path / "m", tmp_path / "x.parquet", progress=False).to_pydict()
    assert found["id"] == names
    assert infer(tmp_path / "m", np.abs(x), progress=False).num_rows == 500
    infer(tmp_path / "m", tmp_path / "x.parquet", out=tmp_path / "a.parquet", progress=False)
    assert pq.read_table(tmp_path / "a.parquet")["topics"].to_pylist() == found["topics"]
    ingest(x, tmp_path / "q.zarr", ids=names, heldout="0", progress=False)
    np.testing.assert_array_equal(
        infer_rows(Corpus.open(tmp_path / "q.zarr", dense=True)), expected
    )
    ingest(np.abs(x).astype(int), tmp_path / "r.zarr", vectors=True, heldout="0", progress=False)
    assert Corpus.open(tmp_path / "r.zarr", dense=True).width == 5


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (
            pa.array([[1.0, 2.0], [1.0], [3.0, 4.0]]),
            "row 1: a vector of 1 numbers, of 2 in the first row",
        ),
        (pa.array([[1.0, 2.0], [1.0, float("nan")]]), "row 1, column 1: nan is no number"),
        (pa.array([[1.0, 2.0], [None, 1.0]]), "row 1, column 0: nan is no number"),
        (pa.array([[1.0, 2.0], None]), "row 1: no vector"),
        (pa.array([[]], pa.list_(pa.float32())), "vectors of 0 numbers"),
        (pa.array([None, [1.0, 2.0]]), "row 0: no vector"),
        (pa.array(["a", "b"]), "column 'v' holds string"),
        (pa.array([[["a"]]]), "column 'v' holds list"),
    ],
)
def test_bad_vectors_of_parquet_are_told_with_their_row(column, told, tmp_path):
    pq.write_table(pa.table({"v": column}), tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=told) as e:
        ingest(tmp_path / "bad.parquet", tmp_path / "v.zarr", vector_field="v", progress=False)
    assert "bad.parquet" in str(e.value) and "\n" not in str(e.value)
    with pytest.raises(InputError, match="no column 'w'"):
        ingest(tmp_path / "bad.parquet", tmp_path / "v.zarr", vector_field="w", progress=False)


def test_bad_arrays_are_told_in_a_line(tmp_path):
    for array, told in (
        (np.array([[0.5, -1], [np.inf, 0]]), "row 1, column 0: inf"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((3, 0)), "0 numbers"),
    ):
        with pytest.raises(InputError, match=told):
            ingest(array, tmp_path / "v.zarr", vectors=True, progress=False)
    with pytest.raises(InputError, match="vectors=True requires a NumPy array"):
        ingest(["a text"], tmp_path / "v.zarr", vectors=True, progress=False)


def npy(value):
    out = io.BytesIO()
    np.save(out, value, allow_pickle=True)
    return out.getvalue()


class Bomb:
    def __reduce__(self):
        return open, ("/tmp/topicstream-was-unpickled", "w")


HOSTILE = {
    "objects": (npy(np.array([Bomb(), None], dtype=object)), "Python objects"),
    "flat": (npy(np.zeros(5)), "shape"),
    "cube": (npy(np.zeros((2, 2, 2))), "shape"),
    "words": (npy(np.array([["a", "b"]])), "vectors are numbers"),
    "columns": (
        npy(np.asfortranarray(np.random.default_rng(0).random((4, 3)))),
        "column by column",
    ),
    "short": (npy(np.zeros((100, 4)))[:-40], "truncated"),
    "long": (npy(np.zeros((10, 4))) + b"more", "more than the 10 rows"),
    "nan": (npy(np.array([[0.0, 1], [2, np.nan]])), r"row 1, column 1: nan is no number"),
    "huge": (npy(np.array([[0.0, 1e300]])), "is no number"),
    "none": (npy(np.zeros((5, 0))), "vectors of 0 numbers"),
    "header": (b"\x93NUMPY\x01\x00\x10\x00{'descr': __imp}", "not an .npy"),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_bad_file_is_told_in_a_line(name, tmp_path):
    data, told = HOSTILE[name]
    (tmp_path / "bad.npy").write_bytes(data)
    with pytest.raises(InputError, match=told) as e:
        ingest(tmp_path / "bad.npy", tmp_path / "v.zarr", progress=False)
    assert "\n" not in str(e.value) and "bad.npy" in str(e.value)
    assert not Path("/tmp/topicstream-was-unpickled").exists()


def test_bad_archives_are_told_in_a_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as z:
        z.writestr("a.npy", npy(np.zeros((2, 3))))
        z.writestr("b.npy", npy(np.zeros((2, 4))))
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 but no more")
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as z:
        z.writestr("c.pkl", pickle.dumps(Bomb()))
    for name, told in (
        ("a", "of 3 in the first array"),
        ("b", "not an .npz"),
        ("c", "not an .npy"),
    ):
        with pytest.raises(InputError, match=told):
            ingest(tmp_path / f"{name}.npz", tmp_path / f"{name}.zarr", progress=False)


def test_patches_of_images_are_orthonormal_pixels(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24)).astype(np.uint8)
    (tmp_path / "im").mkdir()
    image.fromarray(pixels).save(tmp_path / "im" / "a.png")
    path = tmp_path / "p.zarr"
    ingest(tmp_path / "im", path, patches=8, stride=4, heldout="0", progress=False)
    found = infer_rows(Corpus.open(path, dense=True)).astype(float)
    squares = np.stack(
        [
            pixels[y : y + 8, x : x + 8].ravel() / 255
            for y in range(0, 13, 4)
            for x in range(0, 17, 4)
        ]
    )
    squares -= squares.mean(1, keepdims=True)
    assert found.shape == (20, 63)
    np.testing.assert_allclose(found @ found.T, squares @ squares.T, atol=1e-5)
    image.fromarray(pixels.astype(np.uint16) * 257).save(
        tmp_path / "a16.png"
    )  # the same picture with 16 bits
    ingest(
        tmp_path / "a16.png",
        tmp_path / "p16.zarr",
        patches=8,
        stride=4,
        heldout="0",
        progress=False,
    )
    np.testing.assert_allclose(
        infer_rows(Corpus.open(tmp_path / "p16.zarr", dense=True)), found, atol=1e-6
    )
    image.fromarray(squares.astype(np.float32)).save(tmp_path / "real.tiff")
    with pytest.raises(
        InputError, match="of 32 bits, whose range is not known; save it with 8 or 16 bits"
    ):
        ingest(tmp_path / "real.tiff", tmp_path / "q.zarr", patches=8, progress=False)
    run(path, tmp_path / "m", components=2, mean="zero", block_cells=630)
    sheet = tmp_path / "sheet.png"
    assert command(["show", "--model", str(tmp_path / "m"), "--plot", str(sheet)]) == 0
    assert image.open(sheet).size[0] > 73
    assert (
        command(["show", "--model", str(tmp_path / "m"), "--plot", str(tmp_path / "sheet.svg")])
        == 0
    )
    drawn = ElementTree.parse(tmp_path / "sheet.svg").getroot()
    shares = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert len(shares) == 2 and all(text.endswith(" %") for text in shares)
    (tmp_path / "im" / "b.png").write_bytes(b"\x89PNG but no more")
    with pytest.raises(InputError, match="not an image"):
        ingest(tmp_path / "im", tmp_path / "q.zarr", patches=8, progress=False)


def test_patches_of_a_large_image_come_in_pieces(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from topicstream.ingestion.options import ReadOptions
    from topicstream.ingestion.parts.tasks import pieces

    pixels = np.random.default_rng(0).integers(0, 256, (200, 31)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "a.png")

    def read(**options):
        batches = [
            task.run()[0]
            for task in pieces(
                tmp_path / "a.png", ReadOptions(format="images", patches=4, stride=3, **options)
            )
        ]
        ids = [i for batch in batches for i in batch["id"].to_pylist()]
        return (
            ids,
            np.concatenate([document_cells(batch).counts for batch in batches]),
            len(batches),
        )

    whole = read()
    (ids, counts, several) = read(piece_bytes=1 << 15)
    (same, each, many) = read(piece_bytes=1 << 10)
    assert whole[2] == 1 < several < many
    assert whole[0] == ids and sorted(same) == sorted(ids) and len(ids) == 66 * 10
    np.testing.assert_array_equal(counts, whole[1])
    order = np.argsort([ids.index(i) for i in same])
    np.testing.assert_array_equal(each.reshape(-1, 15)[order], counts.reshape(-1, 15))
