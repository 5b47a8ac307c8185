"""Arrays that are not what their head says, and compressed text with large windows."""

from __future__ import annotations

import io
import lzma

import numpy as np
import pytest

from topicstream.base.errors import StoreError
from topicstream.base.files.plain import load_arrays
from topicstream.cli.main import run


def test_arrays_are_numbers_and_whole(tmp_path):
    path = tmp_path / "a.npy"
    data = io.BytesIO()
    np.save(data, np.arange(5))
    path.write_bytes(data.getvalue())
    assert load_arrays(path)["array"].tolist() == [0, 1, 2, 3, 4]
    for bad in (
        data.getvalue()[:-1],
        data.getvalue().replace(b"(5,)", b"(9999999999,)"),
        b"",
        data.getvalue()[:6],
        data.getvalue().replace(b"<i8", b"|O8"),
    ):
        path.write_bytes(bad)
        with pytest.raises(StoreError, match=r"a\.npy: is no file of arrays"):
            load_arrays(path)
    np.savez(tmp_path / "a.npz", a=np.eye(3), b=np.zeros(0))
    assert load_arrays(tmp_path / "a.npz")["a"].trace() == 3


LINE = b"alpha beta gamma delta epsilon zeta eta theta iota kappa " * 20 + b"\n"


@pytest.mark.parametrize("preset", [6, 7, 8, 9 | lzma.PRESET_EXTREME])
def test_every_preset_of_xz_is_read_within_512_megabytes(tmp_path, preset):
    (tmp_path / "x.txt.xz").write_bytes(lzma.compress(LINE * 60, preset=preset))
    asked = [
        "ingest",
        str(tmp_path / "x.txt.xz"),
        "--out",
        str(tmp_path / "c.zarr"),
        "--min-df",
        "1",
        "--max-df",
        "1.0",
        "--mem-limit",
        "512M",
        "-q",
    ]
    assert run(asked) == 0
