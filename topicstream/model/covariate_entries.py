"""The covariates of a model's prior, as its manifest has them.

Every command that opens a model reads its manifest, and few models have covariates: what a design
needs is in model/design.py.
"""

from __future__ import annotations

from topicstream.base.records import Count, Record


class CovariateEntry(Record, omit_defaults=True):
    """A ``Covariate`` as a model's manifest has it.

    Attributes
    ----------
    documents
        Training documents of each level.
    regimes
        Number of regimes; 0: the column is not divided into regimes.
    period, starts, weights
        As of ``Regimes``.
    """

    column: str
    df: Count = 0
    kind: str = "category"
    levels: list[str] = []
    documents: list[Count] = []
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    knots: list[float] = []
    missing: list[str] = []
    listed: Count = 0
    absent: Count = 0
    regimes: Count = 0
    period: str = ""
    starts: list[int] = []
    weights: list[dict[str, float]] = []

    def __post_init__(self) -> None:
        if self.regimes and not len(self.starts) == len(self.levels) == self.regimes:
            raise ValueError("covariates: not one start for each regime")


class CovariatesEntry(Record):
    """The design of a model's prior, as its manifest has it.

    Attributes
    ----------
    formula
        The formula as the user wrote it.
    slope_sd, intercept_sd
        Standard deviations of the priors of the coefficients.
    mean_weight
        Weight of the documents' shares beside the likelihood of their topics.
    learned_sd
        The learned standard deviation of each term, in the order of the formula; empty: all have
        ``slope_sd``.
    columns
        The covariates of the formula's factors, in order.
    """

    formula: str
    slope_sd: float
    intercept_sd: float
    columns: list[CovariateEntry]
    mean_weight: float = 0.0
    learned_sd: list[float] = []

    def __post_init__(self) -> None:
        from topicstream.model.formula import factors_of, parse_formula

        if len(self.columns) != len(factors_of(self.formula)):
            raise ValueError("covariates: not one column for each variable of the formula")
        if len(self.learned_sd) not in (0, len(parse_formula(self.formula))):
            raise ValueError("covariates: not one deviation for each term of the formula")
