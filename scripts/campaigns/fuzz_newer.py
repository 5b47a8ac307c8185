"""Targets of scripts/campaigns/fuzz_campaign.py for what is read since 0.1.0: vectors, other programs' models, axes, edits, seed
words, classifiers, Gaussian components.

Files are mutated as they are, or their values are exchanged and the checksums above made to fit.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_inputs import Target
from fuzz_values import LOOKED, REAL, WHOLE, odd, put, write_sealed, written
from numcodecs import blosc

from topicstream.corpus.format import CELLS, DOCS, chunk_path, encode_chunk
from topicstream.files.durable import read_json, sealed_line

MARKS = [b"null", b"[]", b"{}", b"-1", b"nan", b"1e309"]
SAVED = 0.01  # of the models that are read: written whole

SEEDS_TOML = b"""strength = 100
[first]
words = ["alpha", "beta"]
[second]
words = ["gamma"]
strength = 5
"""


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


# -- files of our own, since 0.1.0 ---------------------------------------------------------------------------------------
def own_targets(folder: Path, resealed: Callable[[random.Random, str], bytes]) -> list[Target]:
    """Axes, edits, seed words, classifiers, Gaussian components, of what fuzz_commands.py has prepared."""
    from topicstream.corpus.reader import Corpus
    from topicstream.model import gaussians as mixtures
    from topicstream.model.classifier import Classifier, described
    from topicstream.model.edits import read_log, view_of
    from topicstream.model.seeds import read_seeds
    from topicstream.model.topic_model import TopicModel

    store, rtm, classified, gmm = (folder / name for name in ("axes.zarr", "rtm", "mixture", "gmm"))
    manifest = read_json(store / "manifest.json")
    made: list[Target] = []

    def restoring(paths: list[Path], use: Callable[[random.Random], None]) -> Callable[[bytes, random.Random], None]:
        """``use``, and the files as they were."""
        kept = {path: path.read_bytes() for path in paths}
        runs = itertools.count()

        def run(data: bytes, _: random.Random) -> None:
            try:
                use(random.Random(data))
            finally:
                for path in kept if next(runs) % LOOKED == 0 else written & kept.keys():
                    path.write_bytes(kept[path])
                written.clear()

        return run

    def values(name: str, paths: list[Path], use: Callable[[random.Random], None]) -> None:
        made.append(Target(f"values: {name}", [b"\0"], [], restoring(paths, use), lambda rng: rng.randbytes(8)))

    def mutated(name: str, path: Path, use: Callable[[], object], marks: list[bytes] = MARKS) -> None:
        data = path.read_bytes()

        def run(changed: bytes, _: random.Random) -> None:
            path.write_bytes(changed)
            try:
                use()
            finally:
                path.write_bytes(data)

        made.append(Target(name, [data], marks, run))

    def lists(rng: random.Random) -> None:
        """Ids that documents point to."""
        name = rng.choice(("authors", "labels", "links"))
        entry = manifest["axes"][name]
        block = entry["parts"]["train"]["blocks"][0]
        for kind, width in rng.sample((("lengths", DOCS), ("ids", CELLS)), rng.choice((1, 1, 2))):
            path = chunk_path(store / entry["folder"], "train", kind, block["rows"][0])
            n = manifest["parts"]["train"]["blocks"][0]["docs"] if kind == "lengths" else block["entries"]
            array = np.frombuffer(blosc.decompress(path.read_bytes()[:-4]), np.uint32)[:n].copy()
            odd(rng, array, WHOLE)
            data, crc = encode_chunk(array, width)
            put(path, data)
            changed = json.loads(json.dumps(manifest))
            of_block = changed["axes"][name]["parts"]["train"]["blocks"][0]
            of_block["files"][kind] = [[len(data), crc]]
            if kind == "lengths" and rng.random() < 0.8:
                of_block["entries"], of_block["longest"] = int(array.sum(dtype=np.int64)), int(array.max())
            write_sealed(store / "manifest.json", changed)
        corpus = Corpus.open(store)
        lengths, ids = corpus.ragged(name, 0)
        assert lengths.sum(dtype=np.int64) == len(ids), "lengths"
        assert not len(ids) or 0 <= ids.min() <= ids.max() < corpus.axes[name].size, "ids"

    def names(rng: random.Random) -> None:
        """Names of an axis, and how many documents each has."""
        name = rng.choice(("authors", "labels"))
        entry = manifest["axes"][name]["names"]
        found = tables_of[name]
        words, docs = found["name"].to_pylist(), found["docs"].to_numpy().copy()
        kind, at = rng.randrange(5), rng.randrange(len(words))
        if kind == 0:
            words[at] = rng.choice((None, "", "x" * 10**6, words[0], "\x1b[2J\n"))
        elif kind == 1:
            odd(rng, docs, (*WHOLE, 2**62))
        elif kind == 2:
            words, docs = words[:at], docs[:at]
        elif kind == 3:
            n = 10**5 if rng.random() < 0.1 else 2000
            words, docs = ["x"] * n, np.ones(n, np.int64)
        columns = {"name": pa.array(words, pa.large_string()), "docs": docs}
        if kind == 4:
            columns["name"] = pa.array(rng.choice(([[w] for w in words], [0.5] * len(words), [None] * len(words))))
        out = io.BytesIO()
        pq.write_table(pa.table(columns), out, compression="zstd")
        data = out.getvalue()
        put(store / entry["file"], data)
        changed = json.loads(json.dumps(manifest))
        changed["axes"][name]["names"] |= {"size": len(data), "crc32c": int(google_crc32c.value(data))}
        write_sealed(store / "manifest.json", changed)
        axis = Corpus.open(store).axes[name]
        assert len(axis.names()) == axis.size and len(axis.docs()) == axis.size, "names"
        axis.find(pa.array(["a1", "l1"], pa.large_string()))

    def edits(rng: random.Random) -> None:
        pool: tuple[Any, ...] = (
            None,
            -1,
            0,
            1,
            2,
            3,
            2**63,
            0.5,
            "",
            "x" * 2000,
            "\x1b]0;x\x07",
            [],
            [0, 1],
            [0, 0],
            [1],
            {},
            True,
        )
        log = []
        for _ in range(rng.randrange(1, 6)):
            record: dict[str, Any] = rng.choice((
                {"edit": "label", "topic": rng.randrange(3), "label": "a"}, {"edit": "merge", "topics": rng.sample(range(3), 2)},
                {"edit": "drop", "topics": [rng.randrange(3)]}, {"edit": "undo", "steps": 1},
                {"edit": "order", "topics": rng.sample(range(3), 3)}))  # fmt: skip
            if rng.random() < 0.6:
                record[rng.choice((*record, "more"))] = rng.choice(pool)
            log.append(record)
        put(rtm / "edits.jsonl", "".join(map(sealed_line, log)).encode())
        view = view_of(trained)
        shares = view.shares(np.full((2, 3), 1 / 3, np.float32))
        assert shares.shape == (2, len(view)) and len(view) and np.allclose(shares.sum(axis=1), 1), "shares"
        assert all(label.isprintable() for label in view.labels.values()), "labels"

    def classifier() -> None:
        described(of_classes)
        Classifier.open(of_classes).load()

    def record(rng: random.Random) -> None:
        path = classified / "classifier.json"
        put(path, resealed(rng, json.dumps(read_json(path))))
        classifier()

    def gaussians(rng: random.Random) -> None:
        """Numbers of the components' tables."""
        changed = read_json(gmm / "manifest.json")
        for name in rng.sample(("means", "covariances", "sizes"), rng.choice((1, 1, 2))):
            entry = changed["tables"][name]
            meta = json.loads((gmm / entry["name"] / "zarr.json").read_text())
            path = gmm / entry["name"] / "c" / "0" / "0"
            array = np.frombuffer(blosc.decompress(path.read_bytes()[:-4]), np.float32).copy()
            odd(rng, array[: int(np.prod(meta["shape"]))], REAL)
            body = bytes(blosc.compress(array, b"lz4", 1, blosc.SHUFFLE))
            crc = int(google_crc32c.value(body))
            put(path, body + crc.to_bytes(4, "little"))
            chunks = meta["attributes"]["chunks"].split()
            meta["attributes"]["chunks"] = " ".join([f"{len(body) + 4}:{crc:08x}", *chunks[1:]])
            text = json.dumps(meta).encode()
            put(gmm / entry["name"] / "zarr.json", text)
            entry["crc32c"] = int(google_crc32c.value(text))
        write_sealed(gmm / "manifest.json", changed)
        fit, shares = mixtures.GaussianModel(gmm).answer(points)
        assert not np.isnan(fit).any() and np.isfinite(shares).all(), "an answer that is no number"

    mixtures.one_blas_thread()
    mixtures.one_blas_thread = lambda: None  # once a process, not once an input
    tables_of = {axis: pq.read_table(store / manifest["axes"][axis]["names"]["file"]) for axis in ("authors", "labels")}
    trained, of_classes = TopicModel.open(rtm), TopicModel.open(classified)
    points = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
    axes = [p for p in (store / "axes").rglob("*") if p.is_file()]
    files = [*axes, store / "manifest.json"] + [
        store / manifest["axes"][a]["names"]["file"] for a in ("authors", "labels")
    ]
    values("axes, lists", list(dict.fromkeys(files)), lists)
    values("axes, names", list(dict.fromkeys(files)), names)
    values("edits", [rtm / "edits.jsonl"], edits)
    mutated("edits.jsonl", rtm / "edits.jsonl", lambda: (read_log(rtm), view_of(trained)))
    mutated("classifier.json", classified / "classifier.json", classifier)
    values("classifier.json", [classified / "classifier.json"], record)
    tables = [p for name in ("means", "covariances", "sizes")
              for p in (gmm / read_json(gmm / "manifest.json")["tables"][name]["name"]).rglob("*") if p.is_file()]  # fmt: skip
    values("Gaussian components", [*tables, gmm / "manifest.json"], gaussians)
    toml = folder / "seeds.toml"
    toml.write_bytes(SEEDS_TOML)
    mutated(
        "seed words", toml, lambda: read_seeds(toml), [b"[[a]]", b'words = [""]', b"strength = inf", b"[a.b]", b'"""']
    )
    return made
