"""The estimator with scikit-learn's interface, under its public name.

The module is an add-on's (``topicstream.base.plugins``, MODULES).
"""

from __future__ import annotations

import sys

from topicstream.base import plugins

if "sklearn" not in plugins.own(plugins.MODULES):
    raise ImportError("topicstream.sklearn: this installation has no add-on of that name")
sys.modules[__name__] = plugins.load(plugins.MODULES, "sklearn")
