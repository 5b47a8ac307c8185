"""Effects under other trainings: which of them another seed finds, too.

The intervals of one training leave out the error of the topics themselves. The same regression
under models of other seeds shows it: topics are matched one to one, and each coefficient says in
how many models its interval leaves out zero on the same side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topicstream.addons.covariates.regression import LEVEL, Coefficients


@dataclass(frozen=True)
class OtherModel:
    """The same regression under another model.

    Attributes
    ----------
    name
        Name of the model.
    coefficients
        The fitted regression, of the same covariates.
    places
        int64[K]: for each topic, the column of its match, or -1.
    """

    name: str
    coefficients: Coefficients
    places: np.ndarray


@dataclass(frozen=True)
class ModelCount:
    """How a coefficient, or a curve, comes out under several models, this one among them.

    Attributes
    ----------
    models
        Models that have the topic.
    starred
        Those in which it differs from zero on the same side (a curve: in which its test does).
    low, high
        Least and greatest estimate; NaN of a curve.
    """

    models: int
    starred: int
    low: float
    high: float


def count_agreement(
    main: Coefficients, others: Sequence[OtherModel], topic: int, rows: Sequence[int]
) -> ModelCount:
    """Count the models that agree on a term.

    Parameters
    ----------
    main
        The regression under the model itself.
    topic
        Column of the topic there.
    rows
        The coefficients of the term.
    """
    fits = [(main, topic)]
    fits += [(o.coefficients, int(o.places[topic])) for o in others if o.places[topic] >= 0]
    if len(rows) > 1:
        starred = sum(fit.test(list(rows), place).p < 1 - LEVEL for fit, place in fits)
        return ModelCount(len(fits), starred, np.nan, np.nan)
    row = rows[0]
    estimates = np.array([fit.estimates[row, place] for fit, place in fits])
    reaches = np.array([fit.reaches[row, place] for fit, place in fits])
    same_side = np.sign(estimates) == np.sign(estimates[0])
    starred = int((same_side & (np.abs(estimates) > reaches)).sum())
    return ModelCount(len(fits), starred, float(estimates.min()), float(estimates.max()))
