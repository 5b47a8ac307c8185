"""The ways to find the topics of documents: one method, one file, called by the file's name and found by being there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from topicstream import plugins
from topicstream.errors import UsageError

if TYPE_CHECKING:
    from topicstream.inference.method import Method
    from topicstream.model.topic_model import TopicModel


def foreign(name: str) -> bool:
    """Whether another package has a method of that name."""
    return name not in method_names() and name in plugins.entries(plugins.METHODS)


def method_names() -> list[str]:
    """The names of our methods; none of them is loaded."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__))


def of_model(model: TopicModel, name: str = "bp") -> str:
    """The name of the method that answers where ``name`` was asked for: a model of clusters has no shares of topics that belief
    propagation could find, so its own answers in the place of the default."""
    return "mixture" if name == "bp" and model.cluster_sizes is not None else name


def find_method(name: str) -> type[Method]:
    """The method of that name; InputError with the names that there are otherwise."""
    from topicstream.inference.method import Method  # not needed to list the names

    if foreign(name):
        found: type[Method] = plugins.load(plugins.METHODS, name)
        return found
    if name not in method_names():
        known = [*method_names(), *plugins.entries(plugins.METHODS)]
        raise UsageError(f"--method {name}: choose one of {', '.join(known)}")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__
    )
    return found
