"""Engines on stores of dense rows: what they do beside the thirteen methods, because their first parameters come from points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topicstream.engines.base import Engine


class VectorEngine(Engine):
    """Base of engines whose ``about.dense`` is True."""

    def begin(self, sample: np.ndarray, seed: int, params: dict[str, np.ndarray]) -> None:
        """Before pass 0: put into params what the start needs.  sample: float64[S, n], some points of the store."""
        raise NotImplementedError(f"{type(self).__name__}.begin")

    def start_rows(self, table: str, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """The rows, padded, with which a table begins in a run that makes no pass 0."""
        raise NotImplementedError(f"{type(self).__name__}.start_rows")

    def model_rows(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """What a model stores in the place of topics, float64[n, K]."""
        raise NotImplementedError(f"{type(self).__name__}.model_rows")
