"""Options of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from topicstream.base.memory import ThreadedOptions
from topicstream.base.options import composed_names, listed_names, numbers, option
from topicstream.base.places import places
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class ReportConfig(ThreadedOptions):
    """Settings of ``report``."""

    model: str | Path | TopicModel = option(
        "model", "the model, or its folder", cli=False, parse=places().resolve
    )
    corpus: str | Path | Corpus | None = option(
        "corpus.zarr",
        "Corpus store ($TOPICS_CORPUS).",
        env="TOPICS_CORPUS",
        show=True,
        parse=places().resolve,
    )
    _: KW_ONLY
    out: str | Path = option(
        "report.html", "HTML file to write.", flags=("-o", "--out"), metavar="FILE", show=True
    )
    title: str | None = option(
        None, "Page title (default: the name of the corpus, or of its one file; else the model's)."
    )
    documents: bool = option(
        True,
        "Show only what the model contains: no documents, dates or scores.",
        flags=("--no-corpus",),
    )
    docs: int | None = option(
        None, "Typical documents per topic (default: 5).", min=0, max=50, metavar="N"
    )
    text: bool | None = option(
        None,
        "Quote typical documents from the texts that the store keeps, or from the raw files "
        "(default: the store's; raw files if they are unchanged and total at most 2 GB).",
        pair=True,
    )
    text_field: str | None = option(
        None, "Field(s) with the text in the raw files (default: text)."
    )
    by: Sequence[str] | None = option(
        None,
        "Compare only the values of this column (repeatable).",
        multiple=True,
        metavar="COLUMN",
        parse=composed_names,
    )
    period: str | None = option(
        None,
        "Length of a period (default: chosen from the dates).",
        choices=("day", "week", "month", "quarter", "year", "decade", "century"),
    )
    scores: bool = option(
        True,
        "Skip coherence and held-out perplexity, which read the corpus again.",
        flags=("--no-scores",),
    )
    force: bool = option(False, "Replace an existing file.")
    words: int = option(30, "words of a topic", min=1, cli=False)


@dataclass(frozen=True)
class ShowConfig(ThreadedOptions):
    """Settings of ``show``, whichever the view."""

    model: str | Path | TopicModel = option(
        "model",
        "Folder of the model ($TOPICS_MODEL).",
        env="TOPICS_MODEL",
        show=True,
        parse=places().resolve,
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus store ($TOPICS_CORPUS).",
        env="TOPICS_CORPUS",
        show=True,
        parse=places().resolve,
    )
    _: KW_ONLY
    words: int = option(10, "Words per topic.", flags=("-n", "--words"), min=1, show=True)
    relevance: float = option(
        1.0,
        "Rank words by relevance: 1 is probability, smaller values favour words exclusive to "
        "the topic "
        "(Sievert & Shirley 2014).",
        min=0.0,
        max=1.0,
        metavar="LAMBDA",
        show=True,
    )
    topics: Sequence[int] | None = option(
        None,
        "Only these topics (repeatable).",
        flags=("-k", "--topic"),
        multiple=True,
        metavar="N,N,...",
        parse=numbers,
    )
    docs: int = option(0, "Also list the N most typical training documents of each topic.", min=0)
    text: bool = option(
        False,
        "With --docs or --find: quote passages from the store's texts or the raw files with the "
        "words marked, skipping near-duplicates.",
    )
    with_columns: str | Sequence[str] | None = option(
        None,
        "With --docs or --theta: metadata columns to add, such as date,title.",
        flags=("--with",),
        metavar="COLUMN,...",
        parse=listed_names,
    )
