"""Arrow's functions on columns, imported when the first of them is called: making their five hundred docstrings takes a
twentieth of a second, and ``info`` and ``show`` call none."""

from __future__ import annotations

from typing import Any

from topicstream.kernels.lazy import Later

pc: Any = Later("pyarrow.compute")
