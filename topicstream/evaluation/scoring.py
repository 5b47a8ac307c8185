"""Scorers of an evaluation: what they take and return, and which of them run.

Scorers are registered in ``topicstream.base.plugins``.
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
    """Return the kind of a model: ``topics``, ``clusters``, or the noun of its dense rows.

    A document has shares of many topics, but one cluster.
    """
    if model.manifest.width:
        return noun_of(model.manifest.width)
    return "topics" if model.cluster_sizes is None else "clusters"


@dataclass(frozen=True)
class Scoring:
    """An evaluation in progress.

    Attributes
    ----------
    config
        Its settings.
    model
        The open model, as trained.
    store
        The corpus of ``config.corpus``, or None where no scorer needs it.
    elsewhere
        The corpus that a path for ``config.heldout`` names, all of whose documents are scored.
    split
        Observed share of a document's words.
    threads
        Threads to score with.
    progress
        Shows how far long work is.
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
        """Return a function that reports how many documents of how many are done."""
        return partial(self.progress.step, phase, unit="documents")


@dataclass(frozen=True)
class NoScorerOptions:
    """Options of a scorer that has none."""


@dataclass(frozen=True)
class Entry:
    """An entry of the result: figures, and the documents that they were measured on.

    Attributes
    ----------
    figures
        A dataclass whose ``measured`` says in words what was measured.
    documents
        A description of the documents.
    """

    figures: Any
    documents: str = ""

    def plain(self) -> Mapping[str, object]:
        """Convert the entry to plain values, with None for figures that JSON cannot hold."""
        measured = self.figures.measured
        if self.documents:
            measured = f"{measured}; {self.documents}"
        figures = orjson.dumps(self.figures, option=orjson.OPT_SERIALIZE_NUMPY)
        return {**orjson.loads(figures), "measured": measured}


def figure_lines(name: str, entry: Mapping[str, object]) -> list[str]:
    """Format an entry for people: its figures on one line, and what was measured."""
    figures = []
    for key, value in entry.items():
        if key != "measured":
            text = f"{value:.4g}" if isinstance(value, float) else value
            figures.append(f"{key} {text}")
    values = {**entry, "name": name, "figures": figures}
    return render("{name:22}{figures}\n[  {measured}]", values)


@dataclass(frozen=True)
class Scorer:
    """An analysis of a model.

    Its functions take the scorer's own options, an instance of ``Options``.

    Attributes
    ----------
    name
        Name of its entry in the result. Further entries begin with it (``name_...``).
    score
        A function of a ``Scoring`` and the options that returns its entries of the result by name:
        each an ``Entry``, or plain values with ``measured`` in words.
    Options
        A dataclass of options of ``topics eval`` and of ``topicstream.evaluate``.
    is_requested
        A function of the options that tells whether they ask for the scorer.
    also_runs
        A function of the configuration and the options that tells whether the scorer runs although
        they do not ask for it.
    needs_corpus
        A function of the configuration and the options that tells whether it reads
        ``config.corpus``.
    default
        Options that ask for it where a user asks for nothing.
    kinds
        Kinds of models that it can judge. Empty: all.
    meta
        A function of the options that returns the metadata that it needs of raw documents, field by
        column.
    text
        A function of an entry's name and values that returns lines for people.
    bytes_held
        A function of the corpus and the number of topics that counts the bytes that it holds beside
        the model.

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
    is_requested: Callable[[Any], bool] = lambda options: False
    also_runs: Callable[[EvalConfig, Any], bool] = lambda config, options: False
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
        No other package has a scorer of that name.
    """
    built_in = plugins.own_names(plugins.SCORERS)
    requested = (names,) if isinstance(names, str) else names
    foreign = [name for name in plugins.entries(plugins.SCORERS) if name not in built_in]
    for name in requested:
        if name not in foreign:
            hint = ", ".join(foreign) or "none is installed"
            if name in built_in:
                hint = "ours have options of their own"
            raise UsageError(f"--score {name}: no package has such a scorer ({hint})")
    return [plugins.load(plugins.SCORERS, name) for name in (*built_in, *requested)]


def join_options(scorers: Sequence[Scorer]) -> type:
    """Make a dataclass of the options of several scorers."""
    bases = tuple(scorer.Options for scorer in reversed(scorers))
    return make_dataclass("ScorerOptions", (), bases=bases, frozen=True)


def choose_scorers(config: EvalConfig) -> tuple[Chosen, bool]:
    """Select the scorers that a configuration asks for.

    Returns
    -------
    The scorers with their options, and whether the configuration asks for any.

    Raises
    ------
    UsageError
        An option is unknown.
    """
    available = scorers(config.score)
    foreign = available[len(plugins.own_names(plugins.SCORERS)) :]
    values = checked(join_options(available), config.options or {}, "evaluate", beside=type(config))
    chosen = []
    any_requested = bool(config.heldout or foreign)
    for scorer in available:
        names = {entry.name for entry in fields(scorer.Options)}
        options = scorer.Options(**{name: values[name] for name in values if name in names})
        is_requested = scorer.is_requested(options)
        any_requested = any_requested or is_requested
        if scorer in foreign or is_requested or scorer.also_runs(config, options):
            chosen.append((scorer, options))
    return chosen, any_requested


def check_options(config: EvalConfig, chosen: Chosen) -> None:
    """Check that no option of a scorer that does not run is set.

    Raises
    ------
    UsageError
        One is.
    """
    options = config.options or {}
    running = [scorer for scorer, _ in chosen]
    for scorer in scorers(config.score):
        if scorer in running:
            continue
        for entry in fields(scorer.Options):
            if options.get(entry.name, entry.default) != entry.default:
                raise UsageError(f"--{entry.name.replace('_', '-')} goes with --{scorer.name}")
