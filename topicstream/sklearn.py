"""``topicstream.sklearn``: the estimator of the add-on ``sklearn``, under its public name."""

from __future__ import annotations

import sys

from topicstream.base import plugins

sys.modules[__name__] = plugins.load(plugins.MODULES, "sklearn")
