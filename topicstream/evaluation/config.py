"""What an evaluation is told: the one list that makes ``topicstream.evaluate``'s keywords and the options of ``topics eval``;
and a comparison of two models, likewise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topicstream.errors import UsageError
from topicstream.options import option
from topicstream.progress import Told

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus
    from topicstream.model.topic_model import TopicModel


def asked(value: Any) -> Any:
    """``--heldout`` without a value: the corpus' own."""
    return value if value != "" else True


def which_coherence(value: Any) -> Any:
    """``--coherence`` without a value: both."""
    if value not in ("", True, False, "umass", "npmi"):
        raise UsageError(f"{value}: either umass or npmi, or nothing for both")
    return asked(value)


@dataclass(frozen=True)
class EvalConfig:
    """All settings of an evaluation."""

    model: str | Path | TopicModel = option(
        "model", "folder of the model ($TOPICS_MODEL)", env="TOPICS_MODEL", show=True
    )
    corpus: str | Path | Corpus = option("corpus.zarr", "corpus store ($TOPICS_CORPUS)", env="TOPICS_CORPUS", show=True)
    _: KW_ONLY
    heldout: bool | str | Path = option(
        False,
        "perplexity of the documents set aside at ingest; or of another corpus store, or of raw text",
        metavar="[CORPUS|FILE]",
        is_flag=False,
        flag_value="",
        parse=asked,
    )
    format: str | None = option(None, "with --heldout FILE: its format [default: told from the file]")
    text_field: str | None = option(None, "with --heldout FILE: field with the text [default: as the corpus' was]")
    id_field: str | None = option(None, "with --heldout FILE: field with the id [default: as the corpus' was]")
    whole: bool = option(
        False, "log-likelihood of the whole documents set aside, their topics folded in on the very words it scores"
    )
    training: bool = option(False, "exact perplexity of the training documents")
    pairs: bool = option(
        False,
        "cross-entropy of the pairs of words of the documents set aside; without a matrix of topic pairs (fdm has one) under"
        " the model's alpha",
    )
    coherent: bool | str = option(
        False,
        "UMass and NPMI coherence of the topics' first words, or one of them",
        flags=("--coherence",),
        metavar="[umass|npmi]",
        is_flag=False,
        flag_value="",
        parse=which_coherence,
    )
    diverse: bool = option(False, "share of distinct words among the topics' first 25", flags=("--diversity",))
    authors: str | None = option(
        None,
        "of an author-topic model, with --heldout: perplexity under mixtures of the test authors that are folded in (printed "
        "in any case), and under those that training knows",
        choices=("folded", "known"),
    )
    links: bool = option(False, "predict the links of the documents set aside: F, precision, recall, AUC")
    labels: bool = option(
        False,
        "micro and macro F1 of the labels that a model of llda predicts, of the documents set aside or of --heldout FILE; of a "
        "model of clusters: NMI and ARI of clusters and labels (of the training documents where none were set aside)",
    )
    label_field: str = option(
        "labels",
        "with --labels: field of the labels in raw documents; of a model of clusters the column of the corpus",
        show=True,
    )
    threshold: float | None = option(
        None,
        "with --labels: nats of its likelihood that a document loses without a label, from which the label is predicted "
        "[default: chosen on a tenth of training]",
        min=0.0,
    )
    per_document: str | Path | None = option(
        None, "with --heldout: a row a document, as .parquet, .csv or .jsonl", path="file", metavar="FILE"
    )
    force: bool = option(False, "with --per-document: replace the file")
    score: str | Sequence[str] = option(
        (), "by scorers of other packages", metavar="NAME,...", parse=lambda names: [n.strip() for n in names.split(",")]
    )
    split: str | float = option("80/20", "observed and scored shares of a document's words", show=True)
    fold_in: str = option(
        "bp", "method of infer that finds the topics of the observed words", choices=("bp", "vb"), show=True
    )
    top: int = option(10, "words a topic for the coherence", min=2, show=True)
    threads: int | None = option(None, "threads [default: all]; the result does not depend on them", min=1)
    mem_limit: str | int | None = option(
        None, "memory of the whole process, as 2G or 512M [default: what there is]", metavar="SIZE"
    )
    progress: Told = option(None, "what is told while it runs (topicstream/progress.py)", cli=False)


@dataclass(frozen=True)
class CompareConfig:
    """All settings of a comparison of two models."""

    a: str | Path | TopicModel = option(MISSING, "a model, or its folder", cli=False)
    b: str | Path | TopicModel = option(MISSING, "the other one", cli=False)
    _: KW_ONLY
    words: int = option(10, "first words compared", flags=("-n", "--words"), min=1, show=True)
    far: float = option(
        1.5,
        "l1 distance (0 the same .. 2 nothing in common) beyond which two topics do not match",
        min=0,
        max=2,
        show=True,
    )
    mem_limit: str | int | None = option(None, "memory of the whole process, as 2G or 512M", cli=False)
    progress: Told = option(None, "what is told while it runs (topicstream/progress.py)", cli=False)
