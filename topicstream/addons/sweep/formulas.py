"""Formulas of covariates that a sweep compares with each other and with none."""

from __future__ import annotations

from collections.abc import Sequence

from topicstream.addons.sweep.judging import COVARIATES, NONE, Run
from topicstream.base.errors import UsageError
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines
from topicstream.evaluation.covariates import survey_covariates
from topicstream.training.setup import engine_facts

OTHER_READS = (0.5, 0.2, 0.0)
"""Shares of a document that are read, beside the one that decides."""
READS = tuple(f"perplexity_{100 * share:.0f}" for share in OTHER_READS)
"""Names of the perplexities of the rest, on the half that reports."""


def formula_values(formulas: str | Sequence[str] | None) -> dict[str, list[str]]:
    """List the formulas to try as values of an option, none first."""
    texts = [formulas] if isinstance(formulas, str) else list(formulas or ())
    return {COVARIATES: list(dict.fromkeys([NONE, *texts]))} if texts else {}


def check_formulas(store: Corpus, runs: Sequence[Run]) -> None:
    """Refuse formulas that cannot be coded, and engines without covariates, before a training."""
    formulas = dict.fromkeys(run.formula for run in runs if run.formula is not None)
    for formula in formulas:
        survey_covariates(store, formula)
    for algo in dict.fromkeys(run.algo for run in runs) if formulas else ():
        if algo != "auto" and not engine_facts(algo).covariates:
            able = [name for name, kind in engines().items() if kind.about.covariates]
            raise UsageError(
                f"--covariates: --algo {algo} has one alpha for all documents; choose auto, "
                f"{', '.join(sorted(able))}"
            )
