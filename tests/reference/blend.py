"""A BLEND table as its definition says, in float64: no lazy scale, no ranges, no rounding.

table = (1 - rho) table + rho * scale * sum of the round's deltas
"""

import numpy as np


class Blended:
    """Rows [R, K] that every round moves towards the sum of its deltas."""

    def __init__(self, rows):
        self.rows = np.array(rows, np.float64)

    def blend(self, rho, scale, deltas):
        """Enter a round: deltas is a list of (ids of rows, [len(ids), K])."""
        entered = np.zeros_like(self.rows)
        for ids, delta in deltas:
            np.add.at(entered, ids, np.asarray(delta, np.float64))
        self.rows = (1.0 - rho) * self.rows + rho * scale * entered

    @property
    def totals(self):
        """Column sums."""
        return self.rows.sum(axis=0)
