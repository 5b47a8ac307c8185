"""Settings of an evaluation and of a comparison of two models: keywords of the library's functions and options of the commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topicstream.memory import MemoryOptions
from topicstream.options import option
from topicstream.progress import Told

if TYPE_CHECKING:
    from topicstream.corpus.reader import Corpus
    from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class EvalConfig(MemoryOptions):
    """All settings of an evaluation but those of single scorers."""

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
        parse=lambda value: value if value != "" else True,
    )
    format: str | None = option(None, "with --heldout FILE: its format [default: known by name and content]")
    text_field: str | None = option(None, "with --heldout FILE: field with the text [default: as in the corpus]")
    id_field: str | None = option(None, "with --heldout FILE: field with the id [default: as in the corpus]")
    split: str | float = option("80/20", "observed and scored shares of a document's words", show=True)
    fold_in: str = option(
        "bp", "method of infer that finds the topics of the observed words", choices=("bp", "vb"), show=True
    )
    score: str | Sequence[str] = option(
        (), "scorers of other packages", metavar="NAME,...", parse=lambda names: [n.strip() for n in names.split(",")]
    )
    options: Mapping[str, Any] | None = option(
        None, "the scorers' options, which may also be given as keywords", cli=False, rest=True
    )
    threads: int | None = option(None, "threads [default: all]; the result does not depend on them", min=1, max=4096)
    progress: Told = option(None, "progress listener (topicstream/progress.py)", cli=False)

    @property
    def elsewhere(self) -> str | Path | None:
        """The corpus or file whose documents are scored instead of those set aside."""
        return None if isinstance(self.heldout, bool) else self.heldout


@dataclass(frozen=True)
class CompareConfig(MemoryOptions):
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
    progress: Told = option(None, "progress listener (topicstream/progress.py)", cli=False)
