"""Errors: every one can be copied, and sent to another process, as it is."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil

import pytest

import topicstream
from topicstream.base.errors import TopicsError, UsageError
from topicstream.retraining.config import in_words_of_config

# the first runs the program; the second is the name of an add-on, which may be deleted
NOT_WALKED = ("topicstream.__main__", "topicstream.sklearn")
VALUES = {"int": 15, "str": "file.txt", "Iterable[str]": ("tcp://a:1",), "Mapping[str, Any]": {}}


def every_error() -> list[type[BaseException]]:
    """All exception classes of the package."""
    kinds = set()
    for module in pkgutil.walk_packages(topicstream.__path__, "topicstream."):
        if module.name not in NOT_WALKED:
            members = vars(importlib.import_module(module.name)).values()
            kinds |= {
                kind
                for kind in members
                if inspect.isclass(kind)
                and issubclass(kind, BaseException)
                and kind.__module__.startswith("topicstream")
            }
    return sorted(kinds, key=lambda kind: kind.__qualname__)


def sample(kind: type[BaseException]) -> BaseException:
    """An error with an argument for every parameter."""
    if kind.__init__ in (BaseException.__init__, Exception.__init__, ValueError.__init__):
        return kind("a message")
    arguments = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        arguments[name] = VALUES.get(parameter.annotation, "a message with --on-error skip")
    return kind(**arguments)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize(
    "duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy]
)
def test_an_error_survives_a_copy(kind, duplicate):
    error = sample(kind)
    other = duplicate(error)
    assert type(other) is kind
    assert (str(other), other.args) == (str(error), error.args)
    assert other.__dict__ == error.__dict__


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__qualname__)
def test_an_error_with_another_message_is_the_same_otherwise(kind):
    if not issubclass(kind, TopicsError):
        pytest.skip("is nobody's message")
    error = sample(kind)
    other = error.reworded("raw/a.gz: is cut; give --encoding")
    assert type(other) is kind and str(other) == "raw/a.gz: is cut; give --encoding"
    assert other.exit_code == error.exit_code
    assert other.__notes__ == ["In Python: encoding="]


def test_an_option_that_turns_off_is_named_by_what_it_turns_off():
    error = UsageError("--no-keep-text: requires a new store; or give --force")
    assert error.__notes__ == ["In Python: keep_text=False, force="]
    said = in_words_of_config(
        "x.csv: --no-header where the first line is data, --skip-lines=2 else"
    )
    assert said.startswith("x.csv: header = false under [ingest] where")
    assert said.endswith('skip_lines = "2" there else')
