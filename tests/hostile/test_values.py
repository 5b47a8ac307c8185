"""Checksums fit, values do not: what kernels would index by is checked before they do.

One line, code 3.
"""

from __future__ import annotations

import io

import numpy as np
import pytest

from tests.hostile.resealing import chunks_of, reseal_block, reseal_file, write_sealed
from tests.refusing import refused
from topicstream.base.errors import StoreError
from topicstream.base.files.durable import read_json
from topicstream.base.files.plain import load_arrays
from topicstream.corpus.reader import Corpus

VALUES = {
    "a negative count": ("counts", lambda a: a.__setitem__(3, 2**32 - 1)),
    "no count": ("counts", lambda a: a.__setitem__(3, 0)),
    "a word past the vocabulary": ("words", lambda a: a.__setitem__(0, 10**6)),
    "a word twice": ("words", lambda a: a.__setitem__(1, 0)),
    "a document of more cells than there are": ("lengths", lambda a: a.__setitem__(0, 2**20)),
}


@pytest.mark.parametrize("algo", ["gs", "sparselda"])
@pytest.mark.parametrize("kind", VALUES)
def test_cells_that_kernels_would_index_by_are_refused(store, tmp_path, kind, algo, capsys):
    name, change = VALUES[kind]
    arrays = chunks_of(store, "train", 0)
    change(arrays[name])
    reseal_block(store, "train", 0, arrays, totals=name == "counts")
    line = refused(
        "train",
        "--corpus",
        store,
        "--model",
        tmp_path / "new",
        "--algo",
        algo,
        "-K",
        3,
        "--passes",
        1,
        capsys=capsys,
    )
    assert str(store) in line


@pytest.mark.parametrize(
    "value", [[0, 0, 99, 0], [0, 0, 0, 10**6], [0, 7, 0, 0], [0, 0, -1, 0], [-1, 0, 0, 0]]
)
def test_removed_documents_lie_in_the_store(store, value):
    name = read_json(store / "manifest.json")["files"]["removed"]["file"]
    out = io.BytesIO()
    np.save(out, np.array([value], np.int64))
    reseal_file(store, name, out.getvalue())
    with pytest.raises(StoreError, match="names a document"):
        Corpus.open(store).decode(0)


def test_topics_of_tokens_past_k_are_refused_when_a_run_goes_on(made, model, capsys):
    import google_crc32c

    from topicstream.training.state.checkpoint import list_checkpoints

    last = list_checkpoints(model / "checkpoints")[-1]
    state = read_json(last / "state.json")
    (which,) = state["facts"]["memory"]
    memory = model / "work" / state["facts"]["memory"][which]
    arrays = load_arrays(last / "arrays.npz")
    index = arrays[f"memory.{which}"]
    offset, size, _ = index[0, 0]
    data = bytearray(memory.read_bytes())
    data[offset] = 200  # of three topics
    memory.write_bytes(data)
    index[0, 0, 2] = google_crc32c.value(bytes(data[offset : offset + size]))
    out = io.BytesIO()
    np.savez(out, **arrays)
    (last / "arrays.npz").write_bytes(out.getvalue())
    state["files"]["arrays.npz"] = [len(out.getvalue()), google_crc32c.value(out.getvalue())]
    write_sealed(last / "state.json", state)
    line = refused(
        "train",
        "--corpus",
        made / "c.zarr",
        "--model",
        model,
        "--algo",
        "gs",
        "-K",
        3,
        "--passes",
        3,
        capsys=capsys,
    )
    assert "the memory of block 0 (z) is damaged" in line


def test_block_memory_stays_in_its_folder(model):
    from topicstream.training.state.checkpoint import list_checkpoints, read_checkpoint

    last = list_checkpoints(model / "checkpoints")[-1]
    state = read_json(last / "state.json")
    state["facts"]["memory"] = {"new": "../../elsewhere"}
    write_sealed(last / "state.json", state)
    with pytest.raises(StoreError, match="memory: not names of files"):
        read_checkpoint(last)
