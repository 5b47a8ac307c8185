"""The options of an evaluation and of a comparison of two models.

They are keywords of the library's functions and options of the commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import Any

from topicstream.base.memory import ThreadedOptions, WorkOptions
from topicstream.base.options import SchedulerOptions, listed_names, option
from topicstream.base.places import places
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class EvalConfig(SchedulerOptions, ThreadedOptions):
    """All settings of an evaluation but those of single scorers."""

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
    heldout: bool | str | Path = option(
        False,
        "Perplexity of the held-out documents, of another corpus store, or of raw text.",
        metavar="[CORPUS|FILE]",
        is_flag=False,
        flag_value="",
        parse=lambda value: value if value != "" else True,
    )
    format: str | None = option(
        None, "With --heldout FILE: format of the file (default: detected from name and content)."
    )
    text_field: str | None = option(
        None, "With --heldout FILE: field with the text (default: as in the corpus)."
    )
    id_field: str | None = option(
        None, "With --heldout FILE: field with the id (default: as in the corpus)."
    )
    split: str | float = option(
        "80/20",
        "Observed and scored shares of a document's words; 0/100 reads none of them.",
        show=True,
    )
    fold_in: str = option(
        "bp",
        "Method of `infer` for the topics of the observed words.",
        choices=("bp", "vb"),
        show=True,
    )
    score: str | Sequence[str] = option(
        (),
        "Scorers that other packages register, separated by commas.",
        metavar="NAME,...",
        parse=listed_names,
    )
    options: Mapping[str, Any] | None = option(
        None, "the scorers' options, which may also be given as keywords", cli=False, rest=True
    )

    @property
    def elsewhere(self) -> str | Path | None:
        """Return the corpus or file whose documents are scored instead of those set aside."""
        return None if isinstance(self.heldout, bool) else self.heldout


@dataclass(frozen=True)
class CompareConfig(SchedulerOptions, WorkOptions):
    """All settings of a comparison of two models."""

    a: str | Path | TopicModel = option(
        MISSING, "a model, or its folder", cli=False, parse=places().resolve
    )
    b: str | Path | TopicModel = option(MISSING, "the other one", cli=False, parse=places().resolve)
    _: KW_ONLY
    words: int = option(
        10, "First words of a topic to compare.", flags=("-n", "--words"), min=1, show=True
    )
    far: float = option(
        1.5,
        "Topics further apart than this l1 distance do not match (0: equal, 2: nothing in common).",
        min=0,
        max=2,
        show=True,
    )
