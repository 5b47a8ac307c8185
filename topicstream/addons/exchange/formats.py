"""Which formats there are, which way they go, and why some are not offered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topicstream.base.errors import InputError, UsageError


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    name
        As ``--format`` takes it.
    made_of
        ``model``, ``corpus`` or ``model and corpus``.
    about
        A line of the help.
    write, read
        ``package.module:function``: (Export) -> summary, and (path, Given) -> Imported;
        empty where the format goes the
        other way only.  Topics of documents make no model: ``read`` is (path, out, force=) ->
                         summary, and writes a table.
    files
        Those of a folder; none: it is one file.
    suffix
        By which a file is known.
    options
        Those of ``topics export`` that it takes.
    reads_table
        Whether ``read`` makes a table of the topics of documents, not a model.
    edited
        Whether topics can be written as they are shown, merged and dropped (`topics edit`); else as
        they were trained.
    numbered
        Whether topics keep the numbers that `topics show` prints; else they are counted from 0.
    """

    name: str
    made_of: str
    about: str
    write: str = ""
    read: str = ""
    files: tuple[str, ...] = ()
    suffix: str = ""
    options: tuple[str, ...] = ()
    reads_table: bool = False
    edited: bool = True
    numbered: bool = False


FORMATS = {
    f.name: f
    for f in (
        Format(
            "parquet",
            "model",
            "phi, a row a word, a column a topic",
            "topicstream.addons.exchange.parquet:write",
            "topicstream.addons.exchange.parquet:read",
            suffix=".parquet",
            numbered=True,
        ),
        Format(
            "parquet-long",
            "model",
            "phi, a row an entry: topic, word, count, p",
            "topicstream.addons.exchange.parquet:write_long",
            "topicstream.addons.exchange.parquet:read_long",
            numbered=True,
        ),
        Format(
            "csv",
            "model",
            "p(word | topic) as a table, a row a word, a column a topic",
            "topicstream.addons.exchange.parquet:write_csv",
            suffix=".csv",
            numbered=True,
        ),
        Format(
            "parquet-theta",
            "model and corpus",
            "topics of documents, a row a document",
            "topicstream.addons.exchange.doc_topics:write_parquet",
            options=("top",),
            numbered=True,
        ),
        Format(
            "safetensors",
            "model",
            "tensors and a model card, for the Hugging Face hub",
            "topicstream.addons.exchange.safetensors:write",
            "topicstream.addons.exchange.safetensors:read",
            ("model.safetensors",),
            ".safetensors",
        ),
        Format(
            "pyldavis",
            "model",
            "the JSON that pyLDAvis and LDAvis show (topic k is its topic k + 1)",
            "topicstream.addons.exchange.pyldavis:write",
            "topicstream.addons.exchange.pyldavis:read",
            suffix=".json",
            options=("words",),
        ),
        Format(
            "mallet",
            "model",
            "topic-word-weights.txt and topic-keys.txt",
            "topicstream.addons.exchange.mallet:write",
            "topicstream.addons.exchange.mallet:read",
            ("topic-word-weights.txt", "topic-keys.txt"),
            options=("words",),
        ),
        Format(
            "mallet-doc-topics",
            "model and corpus",
            "a line a document",
            "topicstream.addons.exchange.doc_topics:write_mallet",
            "topicstream.addons.exchange.doc_topics:to_parquet",
            reads_table=True,
            options=("top",),
        ),
        Format(
            "mallet-state",
            "model and corpus",
            "every token and its topic, gzipped",
            "topicstream.addons.exchange.mallet_state:write",
            "topicstream.addons.exchange.mallet_state:read",
            suffix=".gz",
            edited=False,
        ),
        Format(
            "h5ad",
            "model and corpus",
            "AnnData: topics of cells in obsm, of features in varm",
            "topicstream.addons.cells.exchange:write_h5ad",
            suffix=".h5ad",
            options=("into",),
            edited=False,
        ),
        Format(
            "pycistopic",
            "model and corpus",
            "a folder of the files that pycisTopic reads",
            "topicstream.addons.cells.exchange:write_pycistopic",
            files=("cell_names.txt", "region_names.txt"),
            edited=False,
        ),
        Format(
            "ldac-beta",
            "model",
            "Blei's final.beta, final.other and vocab.txt",
            "topicstream.addons.exchange.ldac_beta:write",
            "topicstream.addons.exchange.ldac_beta:read",
            ("final.beta", "final.other", "vocab.txt"),
            ".beta",
        ),
        Format(
            "ldac",
            "corpus",
            "documents.ldac and vocab.txt",
            "topicstream.addons.exchange.counts:write_ldac",
            files=("documents.ldac", "vocab.txt"),
        ),
        Format(
            "uci",
            "corpus",
            "docword.txt and vocab.txt",
            "topicstream.addons.exchange.counts:write_uci",
            files=("docword.txt", "vocab.txt"),
        ),
        Format(
            "mtx",
            "corpus",
            "Matrix Market: documents.mtx and vocab.txt",
            "topicstream.addons.exchange.counts:write_mtx",
            files=("documents.mtx", "vocab.txt"),
        ),
    )
}
_PICKLE = (
    "is a pickle, which runs whatever code it holds; load it in its own program and hand the "
    "object over: "
)
REFUSED = {
    "gensim": _PICKLE + "TopicModel.from_gensim(model)",
    "sklearn": _PICKLE + "TopicModel.from_sklearn(model, words)",
    "joblib": _PICKLE + "TopicModel.from_sklearn(model, words)",
    "pickle": _PICKLE + "TopicModel.from_gensim, from_sklearn or from_arrays",
    "tomotopy": "is a dump of C++ objects of one version; load it with tomotopy: "
    "TopicModel.from_tomotopy(model)",
    "mallet-model": "is serialised Java, which only MALLET reads; write its topics with `mallet run "
    "cc.mallet.topics.tui."
    "TopicTrainer --topic-word-weights-file`, or its state with --output-state, and import that",
    "onnx": "has no operator for topic inference that a runtime would have; take safetensors",
    "rds": "is R's own serialisation; R reads Parquet (arrow::read_parquet)",
}
FOREIGN = {
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
"""Suffixes of what is refused."""


def find_format(name: str | None, path: Path, way: str) -> Format:
    """The format of that name, or that the path's name tells; InputError saying why there is none.

    way: ``write`` or ``read``.
    """
    names = ", ".join(f.name for f in FORMATS.values() if getattr(f, way))
    if name is None:
        candidates = [
            f.name
            for f in FORMATS.values()
            if (f.suffix and path.suffix == f.suffix) or (f.files and (path / f.files[0]).is_file())
        ]
        if path.suffix not in FOREIGN and not candidates:
            raise InputError(
                f"{path}: cannot detect the format from the name; give --format, one of {names}"
            )
        name = FOREIGN.get(path.suffix) or candidates[0]
    name = {"docword": "uci"}.get(name, name)  # as `ingest` calls it
    if name in REFUSED:
        raise InputError(f"{path}: {REFUSED[name]}")
    if name not in FORMATS:
        raise UsageError(f"--format {name}: no such format; choose one of {names}")
    if not getattr(FORMATS[name], way):
        raise UsageError(
            f"--format {name}: is not supported in this direction; choose one of {names}"
        )
    return FORMATS[name]


def formats_listed(way: str) -> str:
    """The formats of one way (``write`` or ``read``), a line each, for the help."""
    return "\b\n" + "\n".join(
        f"  {f.name:18} {f.about}" for f in FORMATS.values() if getattr(f, way)
    )
