"""The options of an export and an import.

One list makes the keywords of ``topicstream.export_model`` and ``import_model`` and the options of
``topics export`` and ``topics import``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path

from topicstream.base.options import option
from topicstream.base.places import places
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class ExportConfig:
    """All settings of an export."""

    model: str | Path | TopicModel = option(
        "model",
        "Folder of the model ($TOPICS_MODEL).",
        env="TOPICS_MODEL",
        show=True,
        parse=places().resolve,
    )
    out: str | Path | None = option(
        None, "File or folder to write.", flags=("-o", "--out"), metavar="PATH", required=True
    )
    _: KW_ONLY
    format: str | None = option(
        None,
        "One of the formats listed above (default: detected from the name of --out).",
        metavar="NAME",
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus store, for formats that need documents.",
        env="TOPICS_CORPUS",
        show=True,
        parse=places().resolve,
    )
    top: int | None = option(
        None, "Topics of documents: only the N largest of each.", min=1, metavar="N"
    )
    words: int | None = option(
        None,
        "mallet: words in topic-keys; pyldavis: words per topic; bed: regions per topic.",
        min=1,
        metavar="N",
    )
    into: str | Path | None = option(
        None,
        "h5ad, zarr: write into a copy of this AnnData file or Zarr folder, which must be the one "
        "that was ingested.",
        path="exists",
        metavar="PATH",
    )
    edits: bool = option(
        True,
        "The topics as trained, not as edited (`topics edit`); mallet-state and "
        "h5ad are always so.",
        flags=("--trained",),
    )
    force: bool = option(False, "Replace existing files.")


@dataclass(frozen=True)
class ImportConfig:
    """All settings of an import."""

    path: str | Path = option(MISSING, "another program's model", cli=False)
    model: str | Path = option(
        "model", "Folder of the model ($TOPICS_MODEL).", env="TOPICS_MODEL", show=True
    )
    _: KW_ONLY
    format: str | None = option(
        None,
        "One of the formats listed above (default: detected from the name of PATH).",
        metavar="NAME",
    )
    words: str | Path | Sequence[str] | None = option(
        None,
        "File with one word per line, if the format does not contain the words.",
        metavar="FILE",
    )
    alpha: float | Sequence[float] | None = option(
        None,
        "Document-topic prior, if the format does not contain it: one number, or one per topic.",
    )
    beta: float | None = option(None, "Topic-word prior, if the format does not contain it.")
    tokenizer: str | Path | None = option(
        None, "Corpus store or model whose tokenizer to use for raw text.", metavar="PATH"
    )
    force: bool = option(False, "Replace an existing model.")
