"""The formats of this add-on, and why some are not offered.

Others are entry points of ``topicstream.formats``.
"""

from __future__ import annotations

from pathlib import Path

from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError
from topicstream.model.exchange import Format

PARQUET = Format(
    "parquet",
    "model",
    "phi, a row a word, a column a topic",
    "topicstream.addons.exchange.parquet:write",
    "topicstream.addons.exchange.parquet:read",
    suffix=".parquet",
    numbered=True,
)
CSV = Format(
    "csv",
    "model",
    "p(word | topic) as a table, a row a word, a column a topic",
    "topicstream.addons.exchange.parquet:write_csv",
    suffix=".csv",
    numbered=True,
)
PARQUET_THETA = Format(
    "parquet-theta",
    "model and corpus",
    "topics of documents, a row a document",
    "topicstream.addons.exchange.doc_topics:write_parquet",
    options=("top",),
    numbered=True,
)
PYLDAVIS = Format(
    "pyldavis",
    "model",
    "the JSON that pyLDAvis and LDAvis show (topic k is its topic k + 1)",
    "topicstream.addons.exchange.pyldavis:write",
    "topicstream.addons.exchange.pyldavis:read",
    suffix=".json",
    options=("words",),
)
MALLET = Format(
    "mallet",
    "model",
    "topic-word-weights.txt and topic-keys.txt",
    "topicstream.addons.exchange.mallet:write",
    "topicstream.addons.exchange.mallet:read",
    ("topic-word-weights.txt", "topic-keys.txt"),
    options=("words",),
)
MALLET_DOC_TOPICS = Format(
    "mallet-doc-topics",
    "model and corpus",
    "a line a document",
    "topicstream.addons.exchange.doc_topics:write_mallet",
    "topicstream.addons.exchange.doc_topics:to_parquet",
    reads_table=True,
    options=("top",),
)
MALLET_STATE = Format(
    "mallet-state",
    "model and corpus",
    "every token and its topic, gzipped",
    "topicstream.addons.exchange.mallet_state:write",
    "topicstream.addons.exchange.mallet_state:read",
    suffix=".gz",
    edited=False,
)
LDAC_BETA = Format(
    "ldac-beta",
    "model",
    "Blei's final.beta, final.other and vocab.txt",
    read="topicstream.addons.exchange.ldac_beta:read",
    files=("final.beta", "final.other", "vocab.txt"),
    suffix=".beta",
)
LDAC = Format(
    "ldac",
    "corpus",
    "documents.ldac and vocab.txt",
    "topicstream.addons.exchange.counts:write_ldac",
    files=("documents.ldac", "vocab.txt"),
)
UCI = Format(
    "uci",
    "corpus",
    "docword.txt and vocab.txt",
    "topicstream.addons.exchange.counts:write_uci",
    files=("docword.txt", "vocab.txt"),
)
MTX = Format(
    "mtx",
    "corpus",
    "Matrix Market: documents.mtx and vocab.txt",
    "topicstream.addons.exchange.counts:write_mtx",
    files=("documents.mtx", "vocab.txt"),
)
_READS_PICKLE = (
    "is a pickle, which runs whatever code it holds; load it in its own program and hand the "
    "object over: "
)
REFUSED = {
    "gensim": _READS_PICKLE + "TopicModel.from_gensim(model)",
    "sklearn": _READS_PICKLE + "TopicModel.from_sklearn(model, words)",
    "joblib": _READS_PICKLE + "TopicModel.from_sklearn(model, words)",
    "pickle": _READS_PICKLE + "TopicModel.from_gensim, from_sklearn or from_arrays",
    "tomotopy": "is a dump of C++ objects of one version; load it with tomotopy: "
    "TopicModel.from_tomotopy(model)",
    "mallet-model": "is serialised Java, which only MALLET reads; write its topics with "
    "`mallet run cc.mallet.topics.tui.TopicTrainer --topic-word-weights-file`, or its state with "
    "--output-state, and import that",
    "onnx": "has no operator for topic inference that a runtime would have; take parquet",
    "rds": "is R's own serialisation; R reads Parquet (arrow::read_parquet)",
}
_WRITES_PICKLE = "is a pickle, which no command here writes; in Python, TopicModel.open(model)."
UNWRITTEN = {
    "gensim": _WRITES_PICKLE + "to_gensim() is the object, which gensim's save() writes",
    "sklearn": _WRITES_PICKLE + "to_sklearn() is the object, which joblib writes",
    "joblib": _WRITES_PICKLE + "to_sklearn() is the object, which joblib writes",
    "pickle": _WRITES_PICKLE + "to_gensim() and to_sklearn() are the objects",
    "tomotopy": "is a dump of C++ objects, which tomotopy alone writes; take csv or mallet",
    "mallet-model": "is serialised Java, which MALLET alone writes; --format mallet writes its "
    "topic-word-weights.txt and topic-keys.txt",
}
"""Reasons why a model is not written in refused formats."""
REFUSED_SUFFIXES = {
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
"""Refused formats by the suffix of their files."""


def formats() -> dict[str, Format]:
    """Return every registered format by name, ours first."""
    return dict(plugins.loaded(plugins.FORMATS))


def find_format(name: str | None, path: Path, way: str) -> Format:
    """Find the format by its name or by the name of the path.

    ``way`` is ``write`` or ``read``.

    Raises
    ------
    InputError, UsageError
        Saying why there is none.
    """
    known = formats()
    names = ", ".join(f.name for f in known.values() if getattr(f, way))
    if name is None:
        candidates = [
            f
            for f in known.values()
            if (f.suffix and path.name.endswith(f.suffix))
            or (f.files and (path / f.files[0]).is_file())
        ]
        # of `.top.json` and `.json` the longer one says more
        candidates.sort(key=lambda f: len(f.suffix), reverse=True)
        longest = len(candidates[0].suffix) if candidates else 0
        foreign = REFUSED_SUFFIXES.get(path.suffix) if longest <= len(path.suffix) else None
        if foreign is None and not candidates:
            raise InputError(
                f"{path}: cannot detect the format from the name; give --format, one of {names}"
            )
        name = foreign or candidates[0].name
    name = {"docword": "uci"}.get(name, name)  # as `ingest` calls it
    if name in REFUSED:
        reason = REFUSED[name] if way == "read" else UNWRITTEN.get(name, REFUSED[name])
        raise InputError(f"{path}: {reason}")
    if name not in known:
        raise UsageError(f"--format {name}: no such format; choose one of {names}")
    if not getattr(known[name], way):
        raise UsageError(
            f"--format {name}: is not supported in this direction; choose one of {names}"
        )
    return known[name]


def list_formats(way: str) -> str:
    """List the formats of one way (``write`` or ``read``), a line each, for the help."""
    return "\b\n" + "\n".join(
        f"  {f.name:18} {f.about}" for f in formats().values() if getattr(f, way)
    )
