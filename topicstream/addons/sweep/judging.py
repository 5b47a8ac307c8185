"""The judgement of a sweep: figures with standard errors, ties, and the choice."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

TIE = 2.0
"""Standard errors of a difference within which two settings tie."""
FIGURES = ("npmi", "exclusivity", "diversity", "stability")
COVARIATES = "covariates"
"""Name of the option of a run that holds its formula."""
NONE = "none"
"""The formula of a run without covariates."""
Setting = tuple[str, int, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True)
class Run:
    """A training of a sweep.

    Attributes
    ----------
    topics, seed, algo
        Its settings.
    options
        Its options as sorted pairs.
    engine
        What trains it where ``algo`` alone would choose another engine, else empty.
    """

    topics: int
    seed: int
    algo: str
    options: tuple[tuple[str, Any], ...] = ()
    engine: str = ""

    @property
    def setting(self) -> Setting:
        """Return the setting that seeds share."""
        return self.algo, self.topics, self.options

    @property
    def formula(self) -> str | None:
        """Return the formula of covariates in its prior, None without any."""
        formula = dict(self.options).get(COVARIATES, NONE)
        return None if formula == NONE else str(formula)

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        tail = (
            hashlib.sha256(json.dumps(self.options).encode()).hexdigest()[:8]
            if self.options
            else ""
        )
        parts = (self.algo, self.engine, f"k{self.topics}", f"s{self.seed}", tail)
        return "-".join(part for part in parts if part)


@dataclass(frozen=True)
class Scores:
    """Documents set aside: keys of their ids uint64[D], log-likelihoods and tokens float64[D]."""

    keys: np.ndarray
    loglik: np.ndarray
    tokens: np.ndarray

    @cached_property
    def choosing(self) -> np.ndarray:
        """Mark the half of the documents by which a setting is chosen, bool[D]."""
        return np.asarray((self.keys & np.uint64(1)) == 0)

    def perplexity(self, half: np.ndarray) -> float:
        """Compute the perplexity of a half of the documents."""
        return float(np.exp(-self.loglik[half].sum() / max(float(self.tokens[half].sum()), 1e-300)))


@dataclass(frozen=True)
class Estimate:
    """A figure of a setting, with its standard error.

    ``error`` is None if unknown. ``tie`` is True if it ties with the best of all settings.
    """

    value: float
    error: float | None = None
    tie: bool = False


def average_seeds(values: Sequence[float], within: float | None = None) -> Estimate:
    """Average values over seeds, with the standard error.

    For one seed it is ``within``, the error within the run.
    """
    mean = float(np.mean(values))
    n = len(values)
    return Estimate(mean, within if n < 2 else float(np.std(values, ddof=1)) / math.sqrt(n))


class HalfScores:
    """Nats a token of settings on a half of the documents set aside.

    Parameters
    ----------
    runs, scores
        The trainings and what the documents score under each.
    half
        bool[D].
    """

    def __init__(self, runs: Sequence[Run], scores: Mapping[Run, Scores], half: np.ndarray) -> None:
        self.tokens = scores[runs[0]].tokens[half]
        self.total = max(float(self.tokens.sum()), 1e-300)
        self.loglik = {
            setting: np.array([scores[r].loglik[half] for r in runs if r.setting == setting])
            for setting in dict.fromkeys(r.setting for r in runs)
        }

    def nats(self, setting: Setting) -> float:
        """Compute the nats a token of a setting, averaged over seeds."""
        return -float(self.loglik[setting].mean(axis=0).sum()) / self.total

    def error(self, setting: Setting, other: Setting | None = None) -> float:
        """Compute the standard error of ``nats``, or of its difference from another setting.

        It adds the variance of documents, the same for both settings, and that of seeds.
        """
        value = self.loglik[setting].mean(axis=0)
        if other is None:
            value = value + self.nats(setting) * self.tokens
        else:
            value = value - self.loglik[other].mean(axis=0)
        variance = (
            float(np.var(value, ddof=1)) * len(value) / self.total**2 if len(value) > 1 else 0.0
        )
        variance += sum(self._seed_variance(s) for s in (setting, other) if s is not None)
        return math.sqrt(variance)

    def _seed_variance(self, setting: Setting) -> float:
        """Compute the part of the seeds in the variance of ``nats``.

        It is that of the seeds' means, without what differs by document and seed, which the
        documents' variance already contains (a two-way model of random effects).
        """
        x = self.loglik[setting] / self.total
        seeds, documents = x.shape
        if seeds < 2 or documents < 2:
            return 0.0
        interaction = x - x.mean(axis=0) - x.mean(axis=1)[:, None] + x.mean()
        residual = float((interaction**2).sum()) / ((seeds - 1) * (documents - 1))
        between = float(np.var(x.sum(axis=1), ddof=1)) - float(documents * residual)
        return max(0.0, between / len(x))

    def find_ties(self) -> tuple[Setting, list[Setting]]:
        """Return the setting of the lowest perplexity, and all that tie with it.

        They lie within two standard errors of it. It is one of them.
        """
        best = min(self.loglik, key=lambda s: (self.nats(s), s[1]))
        near = [
            s
            for s in self.loglik
            if s == best or self.nats(s) - self.nats(best) <= TIE * self.error(s, best)
        ]
        return best, near

    def perplexity(self, setting: Setting, tie: bool) -> Estimate:
        """Estimate the perplexity, with its standard error by the delta method."""
        value = math.exp(self.nats(setting))
        return Estimate(value, value * self.error(setting), tie)


def mark_ties(figures: Mapping[Setting, Estimate]) -> dict[Setting, Estimate]:
    """Mark the estimates (larger is better) within two standard errors of the largest."""
    best = max(figures.values(), key=lambda e: e.value)
    out = {}
    for setting, e in figures.items():
        error = math.hypot(e.error or 0.0, best.error or 0.0)
        out[setting] = Estimate(e.value, e.error, e is best or best.value - e.value <= TIE * error)
    return out


def judge_settings(
    runs: Sequence[Run], scores: Mapping[Run, Scores], rows: Sequence[Mapping[str, Any]]
) -> dict[Setting, dict[str, Estimate]]:
    """Compute every figure of every setting: perplexity, NPMI and the rest.

    Perplexity is that of the reported half, its ties those of the choosing half.
    """
    first = scores[runs[0]].choosing
    reported = HalfScores(runs, scores, ~first)
    (_, near) = HalfScores(runs, scores, first).find_ties()
    out: dict[Setting, dict[str, Estimate]] = {
        setting: {"perplexity": reported.perplexity(setting, setting in near)}
        for setting in reported.loglik
    }
    for name in FIGURES:
        figures = {}
        for setting in out:
            rows_of_setting = [
                row
                for run, row in zip(runs, rows, strict=True)
                if run.setting == setting and row.get(name) is not None
            ]
            if rows_of_setting and name == "stability":  # one value, of all pairs of seeds
                figures[setting] = Estimate(
                    rows_of_setting[0][name], rows_of_setting[0]["stability_se"]
                )
            elif rows_of_setting:
                figures[setting] = average_seeds(
                    [row[name] for row in rows_of_setting], rows_of_setting[0].get(f"{name}_se")
                )
        for setting, estimate in mark_ties(figures).items() if figures else ():
            out[setting][name] = estimate
    return out
