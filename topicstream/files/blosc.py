"""Blosc's two functions out of numcodecs.  In a process of ours alone without the other twenty codecs that ``import
numcodecs`` makes, each a module: who asks for numcodecs later gets all of it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from topicstream import machine


def _load() -> Any:
    spec = find_spec("numcodecs") if machine.alone() and "numcodecs" not in sys.modules else None
    if spec is None or spec.submodule_search_locations is None:
        return import_module("numcodecs.blosc")
    package = ModuleType("numcodecs")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["numcodecs"] = package
    try:
        return import_module("numcodecs.blosc")
    finally:
        del sys.modules["numcodecs"]


blosc = _load()
blosc.use_threads = False  # our own threads decode and encode; Blosc's pool would only fight them
