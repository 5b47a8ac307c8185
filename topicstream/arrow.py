"""Arrow's functions on columns."""

import pyarrow.compute as pc

__all__ = ["pc"]
