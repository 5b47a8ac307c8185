"""Which formats there are, which way they go, and why some are not offered."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.errors import InputError, UsageError


@dataclass(frozen=True)
class Format:
    """module: the file here that has ``write`` and ``read``; ways: ``out``, ``in`` or both; of: what it is made from,
    ``model``, ``corpus`` or ``model and corpus``; files: those of a folder (none: it is one file)."""

    name: str
    module: str
    ways: str
    of: str
    about: str
    files: tuple[str, ...] = ()

    @property
    def code(self) -> Any:
        """The module."""
        return importlib.import_module(f"topicstream.exchange.{self.module}")


FORMATS = {
    f.name: f
    for f in (
        Format("parquet", "parquet", "out in", "model", "phi, a row a word, a column a topic"),
        Format("parquet-long", "parquet_long", "out in", "model", "phi, a row an entry: topic, word, count, p"),
        Format("parquet-theta", "theta", "out", "model and corpus", "topics of documents, a row a document"),
        Format("safetensors", "safetensors", "out in", "model", "tensors and a model card, for the Hugging Face hub",
               ("model.safetensors",)),
        Format("pyldavis", "pyldavis", "out in", "model", "the JSON that pyLDAvis and LDAvis show (topic k is its topic k + 1)"),
        Format("mallet", "mallet", "out in", "model", "topic-word-weights.txt and topic-keys.txt",
               ("topic-word-weights.txt", "topic-keys.txt")),
        Format("mallet-doc-topics", "mallet_doc_topics", "out in", "model and corpus", "a line a document"),
        Format("mallet-state", "mallet_state", "out in", "model and corpus", "every token and its topic, gzipped"),
        Format("ldac-beta", "ldac_beta", "out in", "model", "Blei's final.beta, final.other and vocab.txt",
               ("final.beta", "final.other", "vocab.txt")),
        Format("ldac", "ldac", "out", "corpus", "documents.ldac and vocab.txt", ("documents.ldac", "vocab.txt")),
        Format("uci", "uci", "out", "corpus", "docword.txt and vocab.txt", ("docword.txt", "vocab.txt")),
        Format("mtx", "mtx", "out", "corpus", "Matrix Market: documents.mtx and vocab.txt",
               ("documents.mtx", "vocab.txt")),
    )
}  # fmt: skip
_PICKLE = "is a pickle, which runs whatever code it holds; load it in its own program and hand the object over: "
REFUSED = {
    "gensim": _PICKLE + "TopicModel.from_gensim(model)",
    "sklearn": _PICKLE + "TopicModel.from_sklearn(model, words)",
    "joblib": _PICKLE + "TopicModel.from_sklearn(model, words)",
    "pickle": _PICKLE + "TopicModel.from_gensim, from_sklearn or from_arrays",
    "tomotopy": "is a dump of C++ objects of one version; load it with tomotopy: TopicModel.from_tomotopy(model)",
    "mallet-model": "is serialised Java, which only MALLET reads; write its topics with `mallet run cc.mallet.topics.tui."
    "TopicTrainer --topic-word-weights-file`, or its state with --output-state, and import that",
    "onnx": "has no operator for topic inference that a runtime would have; take safetensors",
    "rds": "is R's own serialisation; R reads Parquet (arrow::read_parquet)",
}
_SUFFIXES = {
    ".parquet": "parquet",
    ".safetensors": "safetensors",
    ".json": "pyldavis",
    ".beta": "ldac-beta",
    ".gz": "mallet-state",
}
_FOREIGN = {
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".joblib": "joblib",
    ".gensim": "gensim",
    ".bin": "tomotopy",
    ".tmm": "tomotopy",
    ".mallet": "mallet-model",
    ".classifier": "mallet-model",
    ".inferencer": "mallet-model",
    ".onnx": "onnx",
    ".rds": "rds",
}


def find_format(name: str | None, path: Path, way: str) -> Format:
    """The format of that name, or that the path's name tells; InputError saying why there is none."""
    if name is None:
        name = _FOREIGN.get(path.suffix) or _SUFFIXES.get(path.suffix) or _of_folder(path)
        if name is None:
            raise InputError(f"{path}: the format cannot be told from the name; give --format, one of {_names(way)}")
    if name == "docword":  # as `ingest` calls it
        name = "uci"
    if name in REFUSED and name not in FORMATS:
        raise InputError(f"{path}: {REFUSED[name]}")
    found = FORMATS.get(name)
    if found is None:
        raise UsageError(f"--format {name}: no such format; choose one of {_names(way)}")
    if way not in found.ways.split():
        raise UsageError(f"--format {name}: goes the other way only; choose one of {_names(way)}")
    return found


def _of_folder(path: Path) -> str | None:
    for name, found in (
        ("model.safetensors", "safetensors"),
        ("topic-word-weights.txt", "mallet"),
        ("final.beta", "ldac-beta"),
    ):
        if (path / name).is_file():
            return found
    return None


def _names(way: str) -> str:
    return ", ".join(f.name for f in FORMATS.values() if way in f.ways.split())
