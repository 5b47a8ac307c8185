"""The methods of inference: one method, one file, listed in ``topicstream.base.plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError
from topicstream.base.options import checked
from topicstream.base.text import noun_of

if TYPE_CHECKING:  # importing the package to list the names must not load the kernels
    from topicstream.inference.method import Method, TopicRows
    from topicstream.model.topic_model import TopicModel

DEFAULT = "bp"


METHOD_NAMES = list(plugins.own_names(plugins.METHODS))
"""Names of the built-in methods."""


def find_method(name: str) -> type[Method]:
    """Load the method of that name, and no other.

    Raises
    ------
    UsageError
        There is no such method.
    """
    method: type[Method] = plugins.find(plugins.METHODS, name, "--method")
    return method


def methods() -> Iterator[type[Method]]:
    """Yield all methods, ours first, then those of other packages that can be loaded."""
    yield from (method for _, method in plugins.loaded(plugins.METHODS))


def method_of(model: TopicModel, name: str = DEFAULT) -> str:
    """Return the name of the method that answers for a model.

    It is ``name``, but in place of the default a model may require its engine's own method.
    """
    engine = str(model.manifest.engine)
    has_method = engine in plugins.entries(plugins.METHODS)
    if name == DEFAULT and has_method and find_method(engine).required_by(model):
        return engine
    return name


def make_method(name: str, rows: TopicRows, beside: type | None = None, **options: Any) -> Method:
    """Make a method with its options.

    Parameters
    ----------
    rows
        The model.
    beside
        A dataclass of other options of the command, of which an unknown one may be a misspelling.
    options
        The method's own options.

    Raises
    ------
    UsageError
        There is no such method or option, or the model has other data.
    InputError
        The model has weighted cells, and the method cannot weigh.
    """
    method = find_method(name)
    if method.dense != bool(rows.model.manifest.width):
        raise UsageError(
            f"--method {name}: is for {noun_of(method.dense)}, which the model is not of"
        )
    if rows.model.weights is not None and not method.weighs_cells:
        weighing = " or ".join(sorted(m.name for m in methods() if m.weighs_cells))
        raise InputError(
            f"--method {name}: the model uses weighted cells ({rows.model.weights.about.kind}); "
            f"choose {weighing}"
        )
    return method(rows, **checked(method.Options, options, f"--method {name}", beside=beside))


def make_block_method(model: TopicModel) -> Method:
    """Make the model's default method, for blocks of a store, which hold words alone.

    Raises
    ------
    InputError
        The method reads metadata, or all documents before the first answer, which only ``infer``
        gives it.
    """
    from topicstream.inference.method import TopicRows

    method = make_method(method_of(model), TopicRows(model))
    check_metadata_free(method)
    if method.needs_all:
        raise InputError(
            f"method {method.name}: reads all documents before it answers, which only "
            f"`topics infer` lets it"
        )
    return method


def check_metadata_free(method: Method) -> None:
    """Check that a method reads no metadata.

    Raises
    ------
    InputError
        It does, and the documents come without.
    """
    if method.columns:
        raise InputError(
            f"method {method.name}: reads {', '.join(method.columns)} of each document, which "
            f"only `topics infer` gives it"
        )
