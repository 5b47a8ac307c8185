"""The classifier of a model: weights float32[W + 1, K] that give the topics of a document by one sparse product.

    p(k|d)  ~  exp((sum_w weights[w, k] x_wd + bias[k]) / temperature)

x by the record's ``features``: the ``counts``; by ``frequency``, the counts over the document's length, times ``length``;
by ``root``, the square roots of these.

In the model's folder: ``classifier`` (or ``classifier-2``), an array like the topics' whose last row is the bias, and
``classifier.json``, which names it, holds its checksum and says which topics it was learned for.  A classifier of other
topics is refused.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import InputError, NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json, sync_folder, write_json
from topicstream.model.arrays import UNFIT, ArrayWriter, ChunkedRows
from topicstream.model.manifest import number
from topicstream.model.store import check_file, file_crc
from topicstream.model.topic_model import TopicModel

RECORD = "classifier.json"
NAMES = ("classifier", "classifier-2")
SCHEMA = 2
"""1: had counts alone, and no word of features and length."""
FEATURES = ("root", "frequency", "counts")


def topics_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """What tells a model's topics from any others: the checksum of their array (which holds those of its chunks, and the
    priors) and the hash of the words."""
    return {"crc32c": manifest["files"]["topics"]["crc32c"], "vocab_sha256": manifest["vocab_sha256"]}


def array_of(folder: Path) -> str | None:
    """The name of the folder that the record of a model's classifier names; None where there is none, or it is damaged."""
    with contextlib.suppress(StoreError, KeyError, TypeError):
        if (folder / RECORD).exists() and (name := read_json(folder / RECORD)["array"]["name"]) in NAMES:
            return str(name)
    return None


def described(model: TopicModel) -> dict[str, Any] | None:
    """What the record of a model's classifier says, and ``stale``: whether the topics have changed since; None without one."""
    if model.path is None or not (model.path / RECORD).exists():
        return None
    said = read_json(model.path / RECORD)
    facts = said.get("facts") if isinstance(said, dict) else None
    if not isinstance(facts, dict) or not all(number(facts.get(k, 0)) for k in ("documents", "divergence")):
        raise StoreError(f"{model.path / RECORD}: incomplete; `topics classifier --model {model.path}` learns it anew")
    return {**facts, "stale": said.get("topics") != topics_of(model.manifest)}


class Classifier:
    """A stored classifier.  bias: float32[K]; temperature; features, length: see the module's head, 0 with counts; facts: how
    it was learned; weights: float32[W, K] once loaded."""

    def __init__(
        self, rows: ChunkedRows, bias: np.ndarray, temperature: float, features: str, length: float, facts: dict[str, Any]
    ) -> None:
        self._stored, self.bias, self.temperature, self.facts = rows, bias, temperature, facts
        self.features, self.length = features, length
        self.weights: np.ndarray | None = None

    @classmethod
    def open(cls, model: TopicModel) -> Classifier:
        """The classifier of a model; InputError where it has none, or one that was learned for other topics; StoreError
        where it is damaged."""
        again = f"`topics classifier --model {model.path}` learns one"
        if model.path is None:
            raise InputError("a model in memory has no classifier; save it first")
        place = model.path / RECORD
        if not place.exists():
            raise InputError(f"{model.path}: this model has no classifier; {again}")
        said = read_json(place)
        try:
            name, crc, temperature = said["array"]["name"], said["array"]["crc32c"], float(said["temperature"])
            learned, facts = said["topics"], dict(said["facts"])
            features, length = ("counts", 0.0) if said["schema"] == 1 else (said["features"], float(said["length"]))
            known = said["schema"] in (1, SCHEMA) and features in FEATURES and 0 <= length < math.inf
            known = known and name in NAMES and isinstance(crc, int) and isinstance(learned, dict)
        except UNFIT:
            known = False
        if not known or not (0 < temperature < math.inf):
            raise StoreError(f"{place}: incomplete or of another version; {again}")
        if learned != topics_of(model.manifest):
            raise InputError(f"{model.path}: the topics have changed since its classifier was learned; {again}")
        array = check_file(model.path, {"crc32c": crc}, f"{name}/zarr.json")
        meta = read_json(array)
        rows, topics = model.n_words + 1, model.n_topics
        try:
            step, chunks = int(meta["chunk_grid"]["configuration"]["chunk_shape"][0]), meta["attributes"]["chunks"]
            fits = list(meta["shape"]) == [rows, topics]
            stored = ChunkedRows(array.parent, rows, topics, step, chunks, counts=False)
        except UNFIT as e:
            raise StoreError(f"{array}: incomplete ({e!r}); {again}") from None
        if not fits:
            raise StoreError(f"{array}: is of another shape than the topics; {again}")
        bias = np.empty((1, topics), np.float32)
        stored.gather(np.array([rows - 1]), bias)
        return cls(stored, bias[0], temperature, features, length, facts)

    def load(self) -> None:
        """Bring the weights into memory (4 W K bytes)."""
        if self.weights is None:
            weights = np.empty((self._stored.n_rows - 1, self._stored.columns), np.float32)
            for start, rows in self._stored.spans():
                kept = rows[: len(weights) - start]
                weights[start : start + len(kept)] = kept
            self.weights = weights

    def of(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(row of each of ``words`` int64[n], weights float32[R, K]): all of them, or the rows of these words from disk."""
        if self.weights is not None:
            return words, self.weights
        ids, at = np.unique(words, return_inverse=True)
        rows = np.empty((len(ids), self._stored.columns), np.float32)
        self._stored.gather(ids, rows)
        return at.astype(np.int64), rows


def save_classifier(
    model: TopicModel, rows: Iterable[np.ndarray], temperature: float, length: float, facts: dict[str, Any]
) -> None:
    """Store a classifier in a model's folder: rows in order, W words then the bias, float [n, K] each.  The old one, where
    there is one, serves until the record is replaced.  The caller holds the folder's lock."""
    folder = model.path
    assert folder is not None
    in_use = array_of(folder)
    name = next(n for n in NAMES if n != in_use)
    writer = ArrayWriter(folder / name, model.n_words + 1, model.n_topics)
    try:
        done = 0
        for piece in rows:
            writer.write_rows(done, piece)
            done += len(piece)
        writer.finish(("word", "topic"), {})
    except BaseException:
        writer.discard()
        raise
    sync_folder(folder)
    record = {
        "schema": SCHEMA,
        "array": {"name": name, "crc32c": file_crc(folder / name / "zarr.json")},
        "topics": topics_of(model.manifest),
        "temperature": float(temperature),
        "features": facts["features"],
        "length": length,
        "facts": facts,
    }
    write_json(folder / RECORD, record)
    for other in NAMES:
        if other != name:
            with contextlib.suppress(OSError, NotOurs):
                owned.remove(folder / other, "topics")
