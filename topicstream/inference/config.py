"""The options of an inference.

One list makes ``topicstream.infer``'s keywords and the options of ``topics infer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from topicstream.base import plugins
from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import SchedulerOptions, listed_names, option, share
from topicstream.base.places import places
from topicstream.inference.methods import DEFAULT, METHOD_NAMES
from topicstream.ingestion.options import ReadOptions
from topicstream.model.topic_model import TopicModel

PARTS = ("train", "heldout")
"""Parts of a store."""
SAMPLED = ("sample", "rest")
"""Training documents that a model of ``--sample`` learned from, and the others."""


@dataclass(frozen=True)
class InferConfig(ReadOptions, SchedulerOptions, ThreadedOptions):
    """All settings of an inference but those of its method."""

    model: str | Path | TopicModel = option(
        MISSING, "the model, or its folder", cli=False, parse=places().resolve
    )
    documents: Any = option(
        MISSING,
        "a Corpus or the Path of one; a Path or a list of Paths: raw documents of any format "
        'that ingest reads (Path("-"): standard input); or documents in memory, as ingest takes '
        "them. A str is a document, never a path",
        cli=False,
    )
    _: KW_ONLY
    out: str | Path | BinaryIO | None = option(
        None,
        "Write .parquet, .jsonl or .csv (default: JSON lines on standard output).",
        flags=("-o", "--out"),
        metavar="FILE",
        after="",
    )
    method: str = option(
        DEFAULT,
        "Inference method (listed below). Models of clusters or vectors have their own, which "
        "is then the default.",
        choices=METHOD_NAMES,
        more=lambda name: name in plugins.entries(plugins.METHODS),
        show=True,
    )
    top: int | None = option(
        None, "Only the N largest topics of each document (default: all).", min=1, metavar="N"
    )
    min_prob: float | None = option(
        None,
        "Only topics with at least this share, such as 0.05 or 5% (default: all).",
        min=0,
        max=1,
        metavar="P",
        parse=share,
    )
    parts: str | Sequence[str] = option(
        "all",
        "Which documents of a corpus store; for a model of `train --sample` also the training "
        "documents that it learned from (sample) or the others (rest).",
        choices=("all", *PARTS, *SAMPLED),
        flags=("--part",),
        show=True,
    )
    with_columns: str | Sequence[str] = option(
        (),
        "Also write these metadata columns, such as date,title.",
        flags=("--with",),
        metavar="COLUMN,...",
        parse=listed_names,
    )
    covariates: bool = option(
        True,
        "With a model of `train --covariates`: read the covariates of the documents, from the same "
        "fields; without them a document has the mean prior.",
        flags=("--covariates/--no-covariates",),
    )
    follow: bool = option(
        False, "Read standard input and answer each line as soon as it is complete."
    )
    force: bool = option(False, "Replace an existing --out file.")
    options: Mapping[str, Any] | None = option(
        None, "the method's own options, which may also be given as keywords", cli=False, rest=True
    )
    edits: bool = option(
        True, "merged and dropped topics (`topics edit`) are shown so; False: as trained", cli=False
    )
    lemmas: str | None = option(
        None,
        "Allow the lemmatizer that the model names, such as spacy:de_core_news_sm; without it a "
        "model runs no code of its choice.",
        metavar="TOOL:LANGUAGE",
    )
    segmenter: str | None = option(
        None, "Allow the segmenter of another package that the model names.", metavar="NAME"
    )
    vocabulary: Any = option(None, "of a matrix: its words, or a dict word -> column", cli=False)
    ids: Any = option(None, "of a matrix: the ids of its documents", cli=False)

    def selected_parts(self) -> tuple[str, ...]:
        """Return the names of the store's parts whose documents are answered."""
        parts = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        return PARTS if "all" in parts else parts
