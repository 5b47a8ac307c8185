"""The covariates of a run: its design, the shape of its prior, and the file of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt
from pathlib import Path

import numpy as np

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files import ownership as owned
from topicstream.base.progress import Progress
from topicstream.base.text import counted
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines import engines, find
from topicstream.engines.covariates import DEVIATIONS, block_priors
from topicstream.engines.regimes import STATES, WEIGHTS, initial_states
from topicstream.engines.shapes import PriorShape, RegimeShape
from topicstream.evaluation.covariates import CovariateFile, survey_covariates, write_covariates
from topicstream.model.covariate_entries import CovariatesEntry
from topicstream.model.design import (
    PriorDesign,
    Unseen,
    columns_of_terms,
    decode_design,
    longest_row,
    usual_row,
)
from topicstream.model.formula import DEGREE
from topicstream.model.manifest import ModelManifest, read_manifest
from topicstream.model.store import StoredTable
from topicstream.numeric.tables.spec import padded
from topicstream.training.config import TrainConfig

MOST_COEFFICIENTS = 1_000_000
"""Most topics times columns. The statistics of a block are four times as many float64."""
MOST_PRODUCTS = 20_000
"""Most products of a document: the numbers of its row times topics, or times themselves. Each costs
time in every document: the table of prices is in docs/internals/decisions/covariates.md."""
FIRST_SD = 1.0
"""Standard deviation of the coefficients with which a learned one begins."""
TABLE = "lambda"
"""Name of a model's array of coefficients, columns by topics."""


def find_design(config: TrainConfig, corpus: Corpus, progress: Progress) -> PriorDesign | None:
    """Read the design that a configuration asks for from the training documents.

    A warm start from a model with the same formula keeps the design of that model.

    Raises
    ------
    UsageError
        The engine has no such prior.
    InputError
        A column cannot be coded.
    """
    if config.covariates is None:
        return None
    if not find(config.algo).about.covariates:
        fitting = [name for name, kind in engines().items() if kind.about.covariates]
        raise UsageError(
            f"--covariates: --algo {config.algo} has one alpha for all documents; choose "
            f"{', '.join(sorted(fitting))}"
        )
    entry = find_continued_design(config)
    if entry is None:
        design = survey_covariates(corpus, config.covariates)
        for line in design.notes():
            progress.say(f"covariates: {line}")
    else:
        design = decode_design(entry)
    number = len(design.names) - 1
    if design.undivided is not None:
        (regimes, _) = design.undivided
        number -= len(regimes.levels) - regimes.regimes
    progress.say(
        f"covariates: {config.covariates}: {counted(number, 'coefficient')} a topic "
        f"beside the intercept"
    )
    return design


def find_continued_design(config: TrainConfig) -> CovariatesEntry | None:
    """Return the design of the model that a warm start continues, None for another formula."""
    if config.warm is None:
        return None
    manifest = read_manifest(Path(config.warm))
    entry = manifest.covariates
    return entry if entry is not None and entry.formula == config.covariates else None


def prior_shape(design: PriorDesign | None, config: TrainConfig, topics: int) -> PriorShape | None:
    """Describe a design to the engine.

    Raises
    ------
    InputError
        There are too many coefficients, or too many of them for each document.
    """
    if design is None:
        return None
    regimes = _regime_shape(design, topics)
    patterns = design.patterns
    if regimes is not None:
        design = design.divide(initial_states(regimes), np.zeros((0, regimes.periods)))
    columns = len(design.names)
    if columns * topics > MOST_COEFFICIENTS:
        raise InputError(
            f"--covariates: {columns:,} columns of {topics:,} topics make {columns * topics:,} "
            f"coefficients, at most {MOST_COEFFICIENTS:,} can be estimated; use at most "
            f"{MOST_COEFFICIENTS // columns:,} topics (-K) or {MOST_COEFFICIENTS // topics:,} "
            f"columns"
        )
    _check_price(usual_row(design), topics)
    term_of = np.zeros(columns, np.int64)
    norms = [1.0]
    for number, (_, places, norm) in enumerate(columns_of_terms(design), 1):
        term_of[places.start : places.stop] = number
        norms.append(norm)
    return PriorShape(
        tuple(design.names),
        term_of,
        np.array(norms),
        patterns,
        longest_row(design),
        FIRST_SD if config.covariate_sd is None else config.covariate_sd,
        config.intercept_sd,
        config.covariate_sd is None,
        config.covariate_means,
        *_read_beginning(config, columns, topics),
        regimes,
    )


def _regime_shape(design: PriorDesign, topics: int) -> RegimeShape | None:
    """Describe the periods that training divides into regimes, None without any.

    Raises
    ------
    InputError
        There are too many of them for so many topics.
    """
    if design.undivided is None:
        return None
    covariate, first = design.undivided
    periods = len(covariate.levels)
    if periods * topics > MOST_COEFFICIENTS:
        raise InputError(
            f"--covariates: {covariate}: {periods:,} periods of {topics:,} topics make "
            f"{periods * topics:,} sums, at most {MOST_COEFFICIENTS:,} can be kept; use at most "
            f"{MOST_COEFFICIENTS // periods:,} topics (-K), or a coarser period"
        )
    return RegimeShape(first, covariate.regimes, covariate.documents)


def _check_price(numbers: int, topics: int) -> None:
    """Check that a formula does not cost many times the rest of a pass.

    Raises
    ------
    InputError
        It does. The message names the number of topics, or of a document's numbers, that would do.
    """
    products = numbers * max(numbers, topics)
    if products <= MOST_PRODUCTS:
        return
    fewer = min(MOST_PRODUCTS // topics, isqrt(MOST_PRODUCTS))
    advice = f"{fewer:,} numbers (a number or category of the formula is one, s() is {DEGREE + 1})"
    if numbers**2 <= MOST_PRODUCTS:
        advice = f"{MOST_PRODUCTS // numbers:,} topics (-K) or {advice}"
    raise InputError(
        f"--covariates: {numbers:,} numbers a document, the intercept among them, and {topics:,} "
        f"topics make {products:,} products a document, at most {MOST_PRODUCTS:,} are worked; use "
        f"at most {advice}"
    )


def _read_beginning(
    config: TrainConfig, columns: int, topics: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Read the coefficients and deviations of the model that a run continues.

    None for each that the model does not have, or that the run does not take.

    Returns
    -------
    tuple
        The coefficients, float64[F, K], and the deviations of their priors, float64[terms].
    """
    entry = find_continued_design(config)
    if entry is None:
        return None, None
    coefficients = read_coefficients(Path(str(config.warm)), read_manifest(Path(str(config.warm))))
    if coefficients.shape != (columns, topics):
        return None, None
    if config.covariate_sd is not None or not entry.learned_sd:
        return coefficients, None
    return coefficients, np.array([entry.intercept_sd, *entry.learned_sd])


def final_design(design: PriorDesign, params: Mapping[str, np.ndarray]) -> PriorDesign:
    """Return the design of a run's model, with the regimes that it has found."""
    if design.undivided is None:
        return design
    return design.divide(params[STATES].astype(np.int64), params[WEIGHTS])


def describe_prior(
    design: PriorDesign, prior: PriorShape, params: Mapping[str, np.ndarray]
) -> CovariatesEntry:
    """Describe the prior of a finished run for its model's manifest."""
    return final_design(design, params).entry(
        slope_sd=prior.slope_sd,
        intercept_sd=prior.intercept_sd,
        mean_weight=prior.mean_weight,
        learned_sd=params[DEVIATIONS][1:].tolist() if prior.learns_sd else [],
    )


def read_coefficients(folder: Path, manifest: ModelManifest) -> np.ndarray:
    """Read the coefficients of a model, float64[F, K]."""
    table = StoredTable(folder, manifest, TABLE)
    return table.gather(np.arange(table.n_rows)).astype(np.float64)


def write_rows_of_run(
    corpus: Corpus, grid: Grid, design: PriorDesign, path: Path, progress: Progress
) -> CovariateFile:
    """Write the rows of a run's documents, and say which values its design does not know."""
    unseen = Unseen()
    owned.reserve(path)
    file = write_covariates(corpus, grid, design, path, unseen)
    for line in unseen.lines(design):
        progress.say(f"covariates: {line}")
    return file


def mean_prior(file: CovariateFile, grid: Grid, coefficients: np.ndarray) -> np.ndarray:
    """Compute the mean of alpha over all documents, float64[K]."""
    total = np.zeros(coefficients.shape[1])
    for alphas, times in _priors_of_blocks(file, grid, coefficients):
        total += np.cumsum(alphas * times[:, None], axis=0, dtype=np.float64)[-1]
    return total / float(grid.docs.sum())


def _priors_of_blocks(
    file: CovariateFile, grid: Grid, coefficients: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield alpha of each block's distinct rows, float32[U, K], and their documents."""
    topics = coefficients.shape[1]
    for number in range(len(grid)):
        rows = file.read(number)
        out = np.empty((len(rows.indptr) - 1, padded(topics)), np.float32)
        alphas = block_priors(rows, coefficients, out)[:, :topics]
        yield alphas, np.bincount(rows.pattern, minlength=len(alphas))
