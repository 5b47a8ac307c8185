"""Options of a report, of the comparison of methods and of the report of drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from topicstream.memory import MemoryOptions
from topicstream.options import option
from topicstream.progress import Told
from topicstream.reporting.periods import GRAINS

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus
    from topicstream.model.topic_model import TopicModel

SEEN = 0.70


def columns(given: str | Sequence[str]) -> list[str]:
    """``date,title`` -> [date, title]."""
    return [c.strip() for c in given.split(",") if c.strip()] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class MethodsConfig(MemoryOptions):
    """What ``compare_methods`` is asked."""

    model: str | Path | TopicModel = option("model", "the model's folder, or an open TopicModel", cli=False)
    corpus: str | Path | Corpus = option(
        "corpus.zarr", "corpus store that the model was trained on", show=True, env="TOPICS_CORPUS"
    )
    methods: str = option("all", "methods to compare, by name, separated by commas", metavar="NAMES", show=True)
    on: str | Path = option(
        "heldout",
        "documents: those set aside at ingest, those outside of `train --sample`, another store, or raw documents",
        metavar="heldout|rest|FILE",
        show=True,
    )
    reference: str = option("gibbs2", "method that the others are compared with", metavar="NAME", show=True)
    documents: int = option(2000, "documents at most, evenly spaced; they are held in memory; 0: all", min=0, show=True)
    burn: int = option(200, "sweeps of the samplers before those that are averaged", min=0, show=True)
    sweeps: int = option(50, "sweeps of the samplers that are averaged", min=1, show=True)
    seed: int = option(0, "seed; the ceiling has the next one", min=0, show=True)
    split: str = option("80/20", "observed and scored shares of a document's words", show=True)
    progress: Told = option(None, "progress listener (topicstream/progress.py)", cli=False)


@dataclass(frozen=True)
class DriftConfig(MemoryOptions):
    """What ``drift`` is asked."""

    model: str | Path | TopicModel = option("model", "the model's folder, or an open TopicModel", cli=False)
    documents: str | Path | Corpus | None = option(
        None, "how well the model still fits these documents: a store or raw files", flags=("--drift",), metavar="PATH"
    )
    by: str | None = option(None, "by the periods of this column of dates; without --drift: of the documents set aside")
    period: str | None = option(None, "length of a period (default: by the dates)", choices=tuple(GRAINS))
    corpus: str | Path | Corpus = option(
        "corpus.zarr", "corpus store that the model was trained on", env="TOPICS_CORPUS"
    )
    method: str | None = option(
        None,
        "fast method that is judged (default: maxent where there is a classifier, else bp)",
        metavar="NAME",
    )
    reference: str = option("gibbs2", "method that it is compared with", metavar="NAME")
    most: int = option(300, "documents of a period whose topics are found, evenly spaced", min=1)
    seen: float = option(
        SEEN, "share of distinct words seen in training below which the model should be trained again", min=0, max=1
    )
    burn: int = option(60, "sweeps of a sampler before those that are averaged", min=0)
    sweeps: int = option(40, "sweeps of a sampler that are averaged", min=1)
    progress: Told = option(None, "progress listener (topicstream/progress.py)", cli=False)


@dataclass(frozen=True)
class ReportConfig(MemoryOptions):
    """All settings of a report."""

    model: str | Path | TopicModel = option("model", "the model, or its folder", cli=False)
    corpus: str | Path | Corpus | None = option(
        "corpus.zarr", "corpus store ($TOPICS_CORPUS)", env="TOPICS_CORPUS", show=True
    )
    _: KW_ONLY
    out: str | Path = option("report.html", "Where the page goes.", flags=("-o", "--out"), metavar="FILE", show=True)
    title: str | None = option(None, "Title of the page [default: the model's folder].")
    documents: bool = option(True, "Only what the model holds: no documents, dates or scores.", flags=("--no-corpus",))
    docs: int | None = option(None, "Typical documents a topic [default: 5].", min=0, max=50, metavar="N")
    text: bool | None = option(
        None,
        "Beginnings of their texts from the raw files that the store names [default: where these are as at the ingest and have at most 2 GB].",
        pair=True,
    )
    text_field: str | None = option(None, "Field(s) with the text in the raw files [default: text].")
    by: Sequence[str] | None = option(
        None, "Compare only this column's values (may be given again).", multiple=True, metavar="COLUMN"
    )
    period: str | None = option(
        None,
        "Length of a period [default: by the dates].",
        choices=("day", "week", "month", "quarter", "year", "decade", "century"),
    )
    scores: bool = option(
        True, "Leave out coherence and held-out perplexity, which read the corpus again.", flags=("--no-scores",)
    )
    threads: int | None = option(None, "Threads [default: all]; the result does not depend on them.", min=1, max=4096)
    force: bool = option(False, "Replace the file.")
    words: int = option(30, "words of a topic", min=1, cli=False)
    progress: Told = option(None, "progress listener (topicstream/progress.py)", cli=False)


@dataclass(frozen=True)
class ShowConfig(MemoryOptions):
    """What ``show`` is asked."""

    model: str | Path | TopicModel = option(
        "model", "folder of the model ($TOPICS_MODEL)", env="TOPICS_MODEL", show=True
    )
    corpus: str | Path | Corpus = option("corpus.zarr", "corpus store ($TOPICS_CORPUS)", env="TOPICS_CORPUS", show=True)
    _: KW_ONLY
    words: int = option(10, "words a topic", flags=("-n", "--words"), min=1, show=True)
    relevance: float = option(
        1.0,
        "1: by probability; less favours words that few other topics have (Sievert & Shirley 2014)",
        min=0.0,
        max=1.0,
        metavar="LAMBDA",
        show=True,
    )
    topics: Sequence[int] | None = option(
        None, "only this topic (may be given again)", flags=("-k", "--topic"), multiple=True
    )
    docs: int = option(0, "also the N most typical training documents of a topic", min=0)
    text: bool = option(
        False,
        "with --docs and --find: passages of the documents from the raw files, the words marked, near-duplicates skipped",
    )
    with_columns: str | Sequence[str] | None = option(
        None,
        "with --docs and --theta: metadata of the documents, as date,title",
        flags=("--with",),
        metavar="COLUMN,...",
        parse=columns,
    )
    threads: int | None = option(None, "threads [default: all]; the result does not depend on them", min=1, max=4096)
