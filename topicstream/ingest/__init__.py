"""Raw text or counts -> a corpus store.  The room is itself the verb: ``topicstream.ingest(paths, out, ...)``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """``topicstream.ingest.pipeline.ingest``."""
        from topicstream.ingest.pipeline import ingest

        return ingest(*args, **options)


sys.modules[__name__].__class__ = _Verb
