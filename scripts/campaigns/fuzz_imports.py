"""Targets of scripts/campaigns/fuzz_campaign.py for vectors and the models of other programs."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_inputs import Target

MARKS = [b"null", b"[]", b"{}", b"-1", b"nan", b"1e309"]
SAVED = 0.01  # of the models that are read: written whole

def vector_seeds() -> dict[str, list[bytes]]:
    """Valid files of each kind of vectors (of images none without Pillow)."""
    x = np.random.default_rng(1).normal(size=(7, 4))

    def written(write: Callable[[Any], object]) -> bytes:
        out = io.BytesIO()
        write(out)
        return out.getvalue()

    pictures = []
    if find_spec("PIL"):
        from PIL import Image, features

        grey = Image.fromarray((np.arange(20 * 30) % 251).astype(np.uint8).reshape(20, 30))
        pictures = [written(partial(grey.save, format=kind)) for kind in ("png", "jpeg", "gif", "bmp", "tiff", "ppm")]
        for kind in ("webp", "jpg_2000"):
            if features.check(kind):
                pictures.append(written(partial(grey.save, format=kind.replace("jpg_", "jpeg"))))
        if features.check("libtiff"):
            pictures += [written(partial(grey.save, format="tiff", compression=way)) for way in ("tiff_lzw", "tiff_adobe_deflate")]
    def zipped(method: int) -> bytes:
        array = written(lambda f: np.save(f, x))

        def write(f: Any) -> None:
            with zipfile.ZipFile(f, "w", method) as archive:
                archive.writestr("a.npy", array)

        return written(write)

    lists = pa.table({"v": pa.array(x.tolist(), pa.list_(pa.float32())), "id": [f"d{i}" for i in range(7)]})
    return {
        "npy": [written(lambda f, t=t: np.save(f, x.astype(t))) for t in ("f4", "f8", "i2")],
        "npz": [written(lambda f: np.savez(f, a=x, b=x[:2])), written(lambda f: np.savez_compressed(f, a=x)),
                zipped(zipfile.ZIP_LZMA), zipped(zipfile.ZIP_BZIP2)],
        "images": pictures,
        "vectors": [written(lambda f, c=c: pq.write_table(lists, f, compression=c)) for c in ("none", "zstd")],
    }


# -- other programs' models -------------------------------------------------------------------------------------------
def import_targets(folder: Path, store: Path) -> list[Target]:
    """Each file that `topics import` reads, mutated."""
    import topicstream
    from topicstream.exchange.common import checked_words, save_model
    from topicstream.exchange.formats import FORMATS
    from topicstream.model.vocabulary import Vocabulary
    from topicstream.progress import Shown as Progress

    out, model, made = folder / "imported", folder / "gs", []
    out.mkdir()
    topicstream.train(store, model, algo="gs", topics=3, passes=1, tol=0.0, threads=1, progress=Progress(-1))

    def target(name: str, path: Path) -> Target:
        code, data = FORMATS[name].code, path.read_bytes()
        seeds = [gzip.decompress(data), data] if name == "mallet-state" else [data]

        def run(changed: bytes, rng: random.Random) -> None:
            path.write_bytes(changed)
            try:
                if name == "mallet-doc-topics":
                    code.to_parquet(path, folder / "answers.parquet", force=True)
                    return
                found = code.read(path.parent if FORMATS[name].files else path, words=None, alpha=None, beta=None)
                if rng.random() < SAVED:
                    shutil.rmtree(out)
                    out.mkdir()
                    save_model(out, found, {"engine": "imported", "options": {}, "passes": 0, **found.about})
                else:
                    assert len(Vocabulary.of(checked_words(found.words, "w"), found.counts, found.df)) == len(
                        found.words
                    )
                    assert np.shape(found.alpha) == (found.phi.shape[1],) and found.beta >= 0, "priors"
            finally:
                path.write_bytes(data)

        return Target(f"import {name}{'' if len(FORMATS[name].files) < 2 else f', {path.name}'}", seeds, MARKS, run)

    for name, form in FORMATS.items():
        if "in" in form.ways:
            place = folder / f"export-{name}"
            suffix = {"mallet-state": ".gz", "pyldavis": ".json"}.get(name, "")
            file = place if form.files else place.with_name(place.name + suffix)
            topicstream.export_model(model, file, corpus=store, format=name)
            made += [target(name, file / part) for part in form.files] if form.files else [target(name, file)]
    return made
