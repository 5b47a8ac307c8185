"""Arrays of NumPy, images and compressed text, mutated: they are read, or refused in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tests.hostile.mutations import (
    BYTES,
    MANY,
    ON_ERROR,
    TEXTS,
    check_mutations,
    mutated,
    readable,
    valid,
)

X = np.random.default_rng(1).normal(size=(7, 4))
LINES = "\n".join(TEXTS).encode()


def saved(write: Callable[[Any], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


HEADS = [b"descr", b"|O", b"<f8", b"(7, 4)", b"(99999999, 4)", b"True", b"PK\x03\x04"]
KINDS = {  # file, seeds, words of the format, options
    "npy": (
        "f.npy",
        [saved(lambda f, t=t: np.save(f, X.astype(t))) for t in ("f4", "f8", "i2")],
        HEADS,
        {"format": "npy"},
    ),
    "npz": (
        "f.npz",
        [saved(lambda f: np.savez(f, a=X, b=X[:2])), saved(lambda f: np.savez_compressed(f, a=X))],
        HEADS,
        {"format": "npz"},
    ),
    "gz": ("f.txt.gz", [gzip.compress(LINES), gzip.compress(LINES) * 2], [], {"format": "lines"}),
    "bz2": ("f.txt.bz2", [bz2.compress(LINES)], [], {"format": "lines"}),
    "xz": ("f.txt.xz", [lzma.compress(LINES)], [], {"format": "lines"}),
    "zst": ("f.txt.zst", [pa.Codec("zstd").compress(LINES, asbytes=True)], [], {"format": "lines"}),
}


@pytest.mark.quick("npz", "gz")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_arrays_and_streams(tmp_path, kind):
    file, seeds, words, options = KINDS[kind]
    check_mutations(tmp_path / file, seeds, words, options)


def test_mutated_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    grey = image.fromarray((np.arange(20 * 30) % 251).astype(np.uint8).reshape(20, 30))
    seeds = [
        saved(lambda f, kind=kind: grey.save(f, format=kind))
        for kind in ("png", "jpeg", "gif", "bmp", "tiff", "ppm")
    ]
    options = {"format": "images", "patches": 4}
    valid(tmp_path / "f.png", seeds, **options)

    @MANY
    @given(mutated(seeds, [b"IHDR", b"IDAT", *BYTES]), ON_ERROR)
    def check(data: bytes, on_error: str) -> None:
        readable(tmp_path / "f.png", data, on_error, 1 << 17, **options)

    check()
