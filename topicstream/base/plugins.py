"""Find commands, engines, methods, readers, executors, scorers and views by name.

Another package lists its own as entry points in its ``pyproject.toml``
(docs/internals/extending.md). The name is the value of ``--algo``, ``--method``, ``--format`` or
``--score``, the ``executor`` of ``topicstream.train``, or the option of ``topics show`` that asks
for a view. A name of ours cannot be taken. Nothing is imported before it is asked for by name, or
all are listed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

from topicstream.base.errors import TopicsError, UsageError

ENGINES = "topicstream.engines"
METHODS = "topicstream.methods"
READERS = "topicstream.readers"
EXECUTORS = "topicstream.executors"
SCHEDULERS = "topicstream.schedulers"
SCORERS = "topicstream.scorers"
VIEWS = "topicstream.views"
LEMMATIZERS = "topicstream.lemmatizers"
SEGMENTERS = "topicstream.segmenters"
PLACES = "topicstream.places"
STARTS = "topicstream.starts"
DEFAULT_VIEWS = "topicstream.default_views"
MODEL_PARTS = "topicstream.model_parts"
FORMATS = "topicstream.formats"
CONVERTERS = "topicstream.converters"
COMMANDS = "topicstream.commands"
OPTIONS = "topicstream.options"
"""Options of existing commands: the group of `topics train` is ``topicstream.options.train``."""
FUNCTIONS = "topicstream.functions"
MODULES = "topicstream.modules"

OWN = {
    COMMANDS: {
        "demo": "topicstream.cli.demo:command",
        "ingest": "topicstream.cli.ingest:command",
        "info": "topicstream.cli.info:command",
        "train": "topicstream.cli.train:command",
        "eval": "topicstream.cli.eval:command",
        "infer": "topicstream.cli.infer:command",
        "update": "topicstream.cli.update:command",
        "retrain": "topicstream.cli.retrain:command",
        "rollback": "topicstream.cli.rollback:command",
        "show": "topicstream.cli.show:command",
        "edit": "topicstream.cli.edit:command",
        "compact": "topicstream.cli.compact:command",
        "forget": "topicstream.cli.forget:command",
        "warm": "topicstream.cli.warm:command",
        "engines": "topicstream.cli.engines:command",
        "completion": "topicstream.cli.completion:command",
    },
    ENGINES: {
        "atbp": "topicstream.engines.message.atbp:ATBP",
        "bp": "topicstream.engines.message.bp:BeliefPropagation",
        "cvb0": "topicstream.engines.message.bp:ZeroOrderCollapsedVariational",
        "sibp": "topicstream.engines.message.bp:SimplifiedBeliefPropagation",
        "sparse-bp": "topicstream.engines.message.sparse_bp:SparseBeliefPropagation",
        "stbp": "topicstream.engines.message.stbp:STBP",
        "gs": "topicstream.engines.gibbs.gs:GibbsSampling",
        "sparselda": "topicstream.engines.gibbs.sparselda:SparseLDA",
        "mvi": "topicstream.engines.variational.mvi:Memoized",
        "ovb": "topicstream.engines.variational.ovb:OnlineVariationalBayes",
        "svi": "topicstream.engines.variational.svi:StochasticSparse",
        "vb": "topicstream.engines.variational.vb:VariationalBayes",
    },
    METHODS: {
        "bp": "topicstream.inference.methods.bp:BP",
        "gibbs": "topicstream.inference.methods.gibbs:Gibbs",
        "gibbs1": "topicstream.inference.methods.gibbs:Gibbs1",
        "vb": "topicstream.inference.methods.vb:VB",
    },
    STARTS: {
        "random": "topicstream.training.starts.random:RandomStart",
        "documents": "topicstream.training.starts.documents:DocumentStart",
        "kmeans": "topicstream.training.starts.documents:FarDocumentStart",
        "best": "topicstream.training.starts.best:BestStart",
        "points": "topicstream.training.starts.points:PointStart",
    },
    SCORERS: {
        "heldout": "topicstream.evaluation.held_out:HELD_OUT",
        "whole": "topicstream.evaluation.held_out:WHOLE",
        "training": "topicstream.evaluation.held_out:TRAINING",
        "coherence": "topicstream.evaluation.coherence:COHERENCE",
        "diversity": "topicstream.evaluation.coherence:DIVERSITY",
    },
    VIEWS: {
        "over-time": "topicstream.display.over_time:OverTimeView",
        "by": "topicstream.display.over_time:OverTimeView",
        "contrast": "topicstream.display.over_time:OverTimeView",
        "theta": "topicstream.display.doc_topics:ThetaView",
    },
    READERS: {
        "arrow": "topicstream.ingestion.readers.arrow:READER",
        "csv": "topicstream.ingestion.readers.csv:READER",
        "docword": "topicstream.ingestion.readers.docword:READER",
        "files": "topicstream.ingestion.readers.files:FILES",
        "jsonl": "topicstream.ingestion.readers.jsonl:READER",
        "ldac": "topicstream.ingestion.readers.pairs:LDAC",
        "lines": "topicstream.ingestion.readers.lines:LINES",
        "mallet": "topicstream.ingestion.readers.lines:MALLET",
        "mtx": "topicstream.ingestion.readers.mtx:READER",
        "npz": "topicstream.ingestion.readers.npz:READER",
        "parquet": "topicstream.ingestion.readers.parquet:READER",
        "pubmed": "topicstream.ingestion.readers.pubmed:READER",
        "svmlight": "topicstream.ingestion.readers.pairs:SVMLIGHT",
        "tar": "topicstream.ingestion.readers.files:TAR",
    },
    LEMMATIZERS: {
        name: f"topicstream.ingestion.tokens.tools:{name}" for name in ("simplemma", "spacy")
    },
    SEGMENTERS: {
        name: f"topicstream.ingestion.tokens.tools:{name}"
        for name in ("jieba", "kiwi", "pythainlp", "sudachi")
    },
}
"""Names of the core. Each add-on has a table of its own (``addons/NAME/__init__.py``)."""


@cache
def addons() -> dict[str, ModuleType]:
    """Import the tables of the add-ons, which are the folders below ``topicstream/addons``."""
    if find_spec("topicstream.addons") is None:  # a copy of the core alone
        return {}
    folder = import_module("topicstream.addons")
    names = sorted(module.name for module in iter_modules(folder.__path__))
    return {name: import_module(f"{folder.__name__}.{name}") for name in names}


@cache
def own_names(group: str) -> dict[str, str]:
    """Return the ``module:attribute`` of this package's names of a group, the core's first."""
    names = dict(OWN.get(group, {}))
    for addon in addons().values():
        names |= getattr(addon, "ENTRY_POINTS", {}).get(group, {})
    return names


class OwnEntry(NamedTuple):
    """A name of this package, in the form of an entry point."""

    name: str
    value: str
    dist: None = None

    def load(self) -> Any:
        """Import the object."""
        module, _, attribute = self.value.partition(":")
        return attrgetter(attribute)(import_module(module))


ABOUT = (".dist-info", ".egg-info", "EGG-INFO")
"""Ends of the names of folders that describe an installed package."""
MENTION = b"[topicstream."
"""Words in the list of entry points of every package that has some for this one."""


def entry_points() -> Any:
    """Read the entry points of all installed packages, None if none is for this package.

    The search of the folders takes 2 milliseconds, and importing what reads entry points 30.
    """
    if not any(map(mentions_this_package, sys.path)):
        return None
    from importlib import metadata

    return metadata.entry_points()


def mentions_this_package(folder: str) -> bool:
    """Tell whether a package in a folder of ``sys.path`` may have entry points for this one."""
    try:
        with os.scandir(folder or ".") as inside:
            packages = [entry.path for entry in inside if entry.name.endswith(ABOUT)]
    except NotADirectoryError:  # an archive
        return True
    except OSError:
        return False
    for package in packages:
        with suppress(OSError), open(os.path.join(package, "entry_points.txt"), "rb") as file:
            if MENTION in file.read():
                return True
    return False


@cache
def installed() -> Any:
    """Read the entry points of all installed packages, once. None: none is for this package."""
    return entry_points()


@cache
def entries(group: str) -> dict[str, OwnEntry | EntryPoint]:
    """Return the entry points of a group by name, ours first, then other packages'."""
    ours = {name: OwnEntry(name, value) for name, value in own_names(group).items()}
    if installed() is None:
        return dict(ours)
    others = sorted(installed().select(group=group), key=lambda e: (e.name, e.value))
    return ours | {entry.name: entry for entry in others if entry.name not in ours}


@cache
def load(group: str, name: str) -> Any:
    """Import the object of an entry point.

    For a name of ours the installed packages are not searched.

    Raises
    ------
    TopicsError
        If the import fails.
    """
    ours = own_names(group)
    entry = OwnEntry(name, ours[name]) if name in ours else entries(group)[name]
    try:
        return entry.load()
    except Exception as e:  # of another's code: anything
        package = entry.dist.name if entry.dist is not None else entry.value
        raise TopicsError(
            f"{name}: the package {package} cannot be loaded ({type(e).__name__}: {e}); update "
            f"or remove it"
        ) from e


def find(group: str, name: str, option: str) -> Any:
    """Import the object that an option names.

    Raises
    ------
    UsageError
        If there is no such name. The message has the nearest name, or all.
    """
    names = entries(group)
    if name not in names:
        near = get_close_matches(name, names, 1)
        if near:
            hint = f"did you mean {near[0]}?"
        elif names:
            hint = f"choose one of {', '.join(sorted(names))}"
        else:
            hint = "no installed package has one"
        raise UsageError(f"{option} {name}: not known; {hint}")
    return load(group, name)


def loaded(group: str) -> Iterator[tuple[str, Any]]:
    """Yield name and object of each entry point that can be loaded, and log the others."""
    for name in entries(group):
        try:
            yield name, load(group, name)
        except TopicsError as e:
            import logging  # a broken package is rare, and every command imports this file

            logging.getLogger("topicstream").warning("%s", e)
