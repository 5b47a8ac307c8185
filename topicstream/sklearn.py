"""``topicstream.sklearn``: the estimator of the add-on ``sklearn``, under its public name."""

from __future__ import annotations

import sys
from importlib import import_module

from topicstream.base import plugins

_modules = plugins.own_names(plugins.MODULES)
if "sklearn" not in _modules:
    raise ImportError("topicstream.sklearn needs topicstream/addons/sklearn, which is not there")
sys.modules[__name__] = import_module(_modules["sklearn"])
