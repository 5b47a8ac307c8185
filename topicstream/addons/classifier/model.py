"""The classifier of a model: weights that give a document's topics by one sparse product.

The weights are float32[W + 1, K].

    p(k|d)  ~  exp((sum_w weights[w, k] x_wd + bias[k]) / temperature)

x by the record's ``features``: the ``counts``; by ``frequency``, the counts over the document's
length, times ``length``; by ``root``, the square roots of these.

In the model's folder: ``classifier`` (or ``classifier-2``), an array like the topics' whose last
row is the bias, and ``classifier.json``, which names it, holds its checksum and says which topics
it was learned for. A classifier of other topics is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from topicstream.base.errors import InputError, StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync
from topicstream.base.records import Amount, Count, Crc, Record, plain, read_record, write_record
from topicstream.model.arrays import ArrayWriter, StoredArray
from topicstream.model.manifest import FileEntry, ModelManifest
from topicstream.model.parts import ModelPart
from topicstream.model.topic_model import TopicModel

RECORD = "classifier.json"
NAMES = ("classifier", "classifier-2")
FEATURES = ("root", "frequency", "counts")
ADVICE = "`topics classifier --model %s` learns one"


class _Topics(Record):
    """The fingerprint of a model's topics.

    The checksum of their array (which holds those of its chunks, and the priors) and the hash of
    the words.
    """

    crc32c: Crc
    vocab_sha256: str

    @classmethod
    def of_model(cls, model: TopicModel) -> _Topics | None:
        """Read the fingerprint of a stored model, None for one in memory."""
        manifest = model.manifest
        if not isinstance(manifest, ModelManifest):
            return None
        return cls(crc32c=manifest.files.topics.crc32c, vocab_sha256=manifest.vocab_sha256)


class ClassifierFacts(Record):
    """The facts about a classifier's training.

    ``loss`` is in nats a document. ``divergence`` is from the topics of held-out documents.
    """

    method: str = "maxent"
    features: str = "counts"
    documents: Count = 0
    passes: Count = 0
    converged: bool = True
    loss: float = 0.0
    divergence: float = 0.0
    temperature: float = 1.0
    variance: float = 1.0


class ClassifierRecord(Record, kw_only=True):
    """``classifier.json``."""

    schema: Literal[2]
    array: FileEntry
    topics: _Topics
    temperature: Annotated[float, msgspec.Meta(gt=0, lt=1e300)]
    features: Literal["root", "frequency", "counts"]
    length: Amount
    facts: ClassifierFacts

    def __post_init__(self) -> None:
        if self.array.name not in NAMES:
            raise ValueError(f"names {self.array.name!r}")


def read_classifier(folder: Path) -> ClassifierRecord | None:
    """Read the record of a model's classifier, None without one.

    Raises
    ------
    StoreError
        If it is damaged.
    """
    path = folder / RECORD
    return read_record(path, ClassifierRecord, ADVICE % folder) if path.exists() else None


def describe_classifier(model: TopicModel) -> dict[str, Any] | None:
    """Describe a model's classifier, None without one.

    ``stale`` is True if the topics have changed since.
    """
    record = read_classifier(model.path) if model.path is not None else None
    if record is None:
        return None
    return {**plain(record.facts), "stale": record.topics != _Topics.of_model(model)}


class Classifier:
    """A stored classifier.

    Attributes
    ----------
    bias
        float32[K].
    temperature, features, length
        See the module. ``length`` is 0 with counts.
    facts
        The facts about its training.
    weights
        float32[W, K], once loaded.
    """

    def __init__(self, rows: StoredArray, record: ClassifierRecord) -> None:
        self._stored = rows
        self.temperature = record.temperature
        self.facts = record.facts
        self.bias = rows.gather(np.array([rows.n_rows - 1]))[0]
        self.features = record.features
        self.length = record.length
        self.weights: np.ndarray | None = None

    @classmethod
    def open(cls, model: TopicModel) -> Classifier:
        """Open the classifier of a model.

        Raises
        ------
        InputError
            If it has none, or one that was learned for other topics.
        StoreError
            If it is damaged.
        """
        if model.path is None:
            raise InputError("a model in memory has no classifier; save it first")
        record = read_classifier(model.path)
        if record is None:
            raise InputError(f"{model.path}: this model has no classifier; {ADVICE % model.path}")
        if record.topics != _Topics.of_model(model):
            raise InputError(
                f"{model.path}: the topics have changed since the classifier was trained; "
                f"{ADVICE % model.path}"
            )
        shape = (model.n_words + 1, model.n_topics)
        return cls(StoredArray(model.path / record.array.name, record.array.crc32c, shape), record)

    def load(self) -> None:
        """Bring the weights into memory (4 W K bytes)."""
        if self.weights is None:
            self.weights = self._stored.gather(np.arange(self._stored.n_rows - 1))

    def gather(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the weights of words, in memory or on disk.

        Returns
        -------
        tuple
            Row of each of ``words``, int64[n], and weights, float32[R, K].
        """
        if self.weights is not None:
            return words, self.weights
        ids, place = np.unique(words, return_inverse=True)
        return place.astype(np.int64), self._stored.gather(ids)


def save_classifier(
    model: TopicModel,
    rows: Iterable[np.ndarray],
    temperature: float,
    length: float,
    facts: ClassifierFacts,
) -> None:
    """Store a classifier in a model's folder.

    The old one serves until the record is replaced. The caller holds the folder's lock.

    Parameters
    ----------
    rows
        Pieces of float [n, K] in order: W words, then the bias.
    """
    folder = model.path
    topics = _Topics.of_model(model)
    assert folder is not None
    assert topics is not None
    in_use = None
    with contextlib.suppress(StoreError):  # a damaged one is replaced
        in_use = read_classifier(folder)
    name = next(n for n in NAMES if in_use is None or n != in_use.array.name)
    writer = ArrayWriter(folder / name, model.n_words + 1, model.n_topics)
    try:
        for piece in rows:
            writer.write_rows(writer.rows_written, piece)
        crc = writer.finish(("word", "topic"), {})
    except BaseException:
        writer.discard()
        raise
    sync(folder)
    features: Any = facts.features  # checked with the options
    record = ClassifierRecord(
        schema=2,
        array=FileEntry(name=name, crc32c=crc),
        topics=topics,
        temperature=float(temperature),
        features=features,
        length=length,
        facts=facts,
    )
    write_record(folder / RECORD, record)
    for other in set(NAMES) - {name}:
        owned.remove_within(folder / other)


def classifier_files(folder: Path) -> list[str]:
    """List the files of the classifier in a model's folder."""
    record = read_classifier(folder)
    return [] if record is None else [record.array.name, RECORD]


PART = ModelPart(
    files=classifier_files,
    describe=describe_classifier,
    line="  classifier   {classifier.documents:document} by {classifier.features}, "
    "{classifier.divergence:.3f} nats from theta[{classifier.stale:?}; STALE: the topics have "
    "changed since]",
)
