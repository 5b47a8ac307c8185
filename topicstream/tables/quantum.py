"""Sums that do not depend on their order: every delta is rounded to a table's quantum before it is added.

Sums of multiples of a power of two are exact in float64 as long as they stay below 2^53 of them.  So blocks may enter in
any order, be merged first on another thread or machine, and the bits of the sum stay the same (Demmel and Nguyen 2013,
Fast Reproducible Floating-Point Summation, use the same device with several bins; the reproducible histograms of XGBoost
use one).
"""

from __future__ import annotations

import math

SIGNIFICAND = 53  # bits of a float64


def quantum_of(bound: float) -> float:
    """The smallest power of two for which every sum of multiples up to ``bound`` in absolute value is exact in float64.

    Parameters
    ----------
    bound
        The largest absolute value of any partial sum; 0: nothing is summed, and nothing needs rounding.

    Returns
    -------
    float
        The quantum, 2^(ceil(log2 bound) - 53); 0.0 where ``bound`` is 0.

    Examples
    --------
    >>> quantum_of(2.0**30) == 2.0**-23
    True
    """
    return 2.0 ** (math.ceil(math.log2(bound)) - SIGNIFICAND) if bound > 0 else 0.0
