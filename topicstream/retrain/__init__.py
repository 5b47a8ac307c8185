"""Drift, update, gate, publish: composition of the other rooms.  The room is itself the verb: ``topicstream.retrain(config)``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """``topicstream.retrain.cycle.retrain``."""
        from topicstream.retrain.cycle import retrain

        return retrain(*args, **options)


sys.modules[__name__].__class__ = _Verb
