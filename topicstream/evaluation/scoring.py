"""Scorers of an evaluation, their arguments, and the choice of those that run.

They are registered in ``topicstream.base.plugins``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from typing import Any

import orjson

from topicstream.base import plugins
from topicstream.base.cluster import Cluster
from topicstream.base.errors import UsageError
from topicstream.base.options import checked
from topicstream.base.progress import Progress
from topicstream.base.text import noun_of, render
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.keys import BOTH_PARTS
from topicstream.model.topic_model import TopicModel


def model_kind(model: TopicModel) -> str:
    """Return the kind of a model: ``topics``, ``clusters``, or clusters of other data.

    A document has shares of topics, and one cluster.
    """
    if model.manifest.width:
        return noun_of(model.manifest.width)
    return "topics" if model.cluster_sizes is None else "clusters"


@dataclass(frozen=True)
class Scoring:
    """An evaluation in progress.

    Attributes
    ----------
    store
        The corpus of ``config.corpus``, opened where a scorer needs it.
    elsewhere
        The corpus that a path for ``config.heldout`` names, all of whose documents are scored.
    split
        Observed share of a document's words.
    cluster
        The cluster whose workers visit blocks in place of threads.
    """

    config: EvalConfig
    model: TopicModel
    store: Corpus | None
    elsewhere: Corpus | None
    split: float
    threads: int
    progress: Progress
    cluster: Cluster | None = None

    @property
    def visitors(self) -> int | Cluster:
        """Return the visitors of blocks, for ``visit_blocks``."""
        return self.cluster or self.threads

    @property
    def corpus(self) -> Corpus:
        """Return ``store``, for a scorer that needs it."""
        assert self.store is not None
        return self.store

    def scored_documents(self) -> tuple[Corpus, tuple[str, ...], str]:
        """Return the corpus and parts to score, and a description of them.

        They are those that ``heldout`` names, or else the documents set aside.
        """
        noun = noun_of(self.model.manifest.width)
        if self.elsewhere is not None:
            return self.elsewhere, BOTH_PARTS, f"all {noun} of {self.config.heldout}"
        return self.corpus, ("heldout",), f"{noun} set aside"

    def step(self, phase: str) -> Callable[[int, int], None]:
        """Report the number of documents done."""
        return partial(self.progress.step, phase, unit="documents")


@dataclass(frozen=True)
class NoScorerOptions:
    """A scorer without options of its own."""


@dataclass(frozen=True)
class Entry:
    """An entry of the result: figures, and the documents that they were measured on.

    ``figures`` is a dataclass whose ``measured`` says in words what was measured.
    """

    figures: Any
    documents: str = ""

    def plain(self) -> Mapping[str, object]:
        """Convert the entry to plain values, with None for figures that JSON cannot hold."""
        measured = (
            f"{self.figures.measured}; {self.documents}"
            if self.documents
            else self.figures.measured
        )
        figures = orjson.dumps(self.figures, option=orjson.OPT_SERIALIZE_NUMPY)
        return {**orjson.loads(figures), "measured": measured}


def figure_lines(name: str, entry: Mapping[str, object]) -> list[str]:
    """Format an entry for people: its figures on one line, and what was measured."""
    shown = [
        f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
        for k, v in entry.items()
        if k != "measured"
    ]
    return render("{name:22}{figures}\n[  {measured}]", {**entry, "name": name, "figures": shown})


@dataclass(frozen=True)
class Scorer:
    """An analysis. Its functions take the scorer's own options, an instance of ``Options``.

    Attributes
    ----------
    name
        Name of its entry in the result. Further entries begin so (``name_...``).
    score
        Returns its entries of the result by name: each an ``Entry``, or plain values with
        ``measured`` in words.
    Options
        A dataclass of options of ``topics eval`` and of ``topicstream.evaluate``.
    asked
        Returns True if these options ask for it.
    beside
        True if it runs although they do not.
    needs_corpus
        True if it reads ``config.corpus``.
    default
        Options that ask for it where a user asks for nothing.
    kinds
        Kinds of models that it can judge. Empty: all.
    meta
        Metadata that it needs of raw documents, column -> field.
    text
        Formats an entry by its name, in lines for people.
    bytes_held
        Bytes that it holds beside the model, given the corpus and the number of topics.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> def count_words(run, options):
    ...     return {"words": {"value": run.model.n_words, "measured": "words of the model"}}
    >>> scorer = Scorer(name="words", score=count_words)
    >>> run = SimpleNamespace(model=TopicModel.open("model"))
    >>> scorer.score(run, scorer.Options())["words"]["value"]
    40
    """

    name: str
    score: Callable[[Scoring, Any], Mapping[str, object]]
    Options: type = NoScorerOptions
    asked: Callable[[Any], bool] = lambda options: False
    beside: Callable[[EvalConfig, Any], bool] = lambda config, options: False
    needs_corpus: Callable[[EvalConfig, Any], bool] = lambda config, options: True
    default: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("topics",)
    meta: Callable[[Any], Mapping[str, str]] = lambda options: {}
    text: Callable[[str, Mapping[str, Any]], list[str]] = figure_lines
    bytes_held: Callable[[Corpus, int], int] | None = None


Chosen = list[tuple[Scorer, Any]]
"""Scorers with their options."""


def scorers(names: str | Sequence[str] = ()) -> list[Scorer]:
    """Load the built-in scorers in the order of the result, then the named ones.

    Raises
    ------
    UsageError
        If no other package has a scorer of that name.
    """
    ours = plugins.own_names(plugins.SCORERS)
    names_asked = (names,) if isinstance(names, str) else names
    theirs = [name for name in plugins.entries(plugins.SCORERS) if name not in ours]
    if unknown := [name for name in names_asked if name not in theirs]:
        hint = (
            "ours have options of their own"
            if unknown[0] in ours
            else ", ".join(theirs) or "none is installed"
        )
        raise UsageError(f"--score {unknown[0]}: no package has such a scorer ({hint})")
    return [plugins.load(plugins.SCORERS, name) for name in (*ours, *names_asked)]


def options_of(every: Sequence[Scorer]) -> type:
    """Make a dataclass of the options of several scorers."""
    return make_dataclass(
        "ScorerOptions", (), bases=tuple(scorer.Options for scorer in reversed(every)), frozen=True
    )


def chosen_scorers(config: EvalConfig) -> tuple[Chosen, bool]:
    """Select the scorers that a configuration asks for, and tell if it asks for any.

    Raises UsageError for an unknown option.
    """
    every = scorers(config.score)
    foreign = every[len(plugins.own_names(plugins.SCORERS)) :]
    given = checked(options_of(every), config.options or {}, "evaluate", beside=type(config))
    chosen = []
    asked = bool(config.heldout or foreign)
    for scorer in every:
        own = {field.name for field in fields(scorer.Options)}
        options = scorer.Options(**{name: value for name, value in given.items() if name in own})
        asked = asked or scorer.asked(options)
        if scorer in foreign or scorer.asked(options) or scorer.beside(config, options):
            chosen.append((scorer, options))
    return chosen, asked


def check_options(config: EvalConfig, chosen: Chosen) -> None:
    """Raise UsageError for an option of a scorer that does not run."""
    options = config.options or {}
    runs = [scorer for scorer, _ in chosen]
    for scorer in scorers(config.score):
        for own in () if scorer in runs else fields(scorer.Options):
            if options.get(own.name, own.default) != own.default:
                raise UsageError(f"--{own.name.replace('_', '-')} goes with --{scorer.name}")
