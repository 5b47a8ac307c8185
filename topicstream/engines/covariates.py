"""A Dirichlet prior of each document that depends on its covariates.

A document d with the row x_d (x_d0 = 1) has alpha_dk = exp(x_d lambda_k). This is the
Dirichlet-multinomial regression of Mimno & McCallum (2008); the estimation is another one. With
n_dk the document's counts, n_d their sum and A_d the sum of alpha_dk, two bounds of Minka (2000)
make the likelihood of lambda_k a Poisson regression, for each topic by itself:

    Q_k = sum_d [a_dk x_d lambda_k - b_d exp(x_d lambda_k)] - sum_f (lambda_kf - m_kf)^2 / (2 s_f^2)
    a_dk = alpha_dk E[psi(n_dk + alpha_dk) - psi(alpha_dk)],    b_d = psi(n_d + A_d) - psi(A_d)

With x = 1 its maximum is the fixed point of ``--learn-priors``.

That maximum is about which topics a document has, not how much of them: where nothing of a document
is read, the expected shares alpha / A are off by half for some topics. So the counts themselves
have a say as well (``mean_weight``), a quasi-likelihood of the shares with the variance that the
Dirichlet-multinomial has for a document of mean length n:

    a_dk += w_d n_dk,    b_d += w_d n_d / A_d,    w_d = mean_weight (1 + A_d) / (n + A_d)

It adds as much to the sum of a as to that of b A, so it moves shares, and not A.

Steps of Newton's method are made at the ends of passes, ``FIRST`` in a row and then one in
``EVERY``. The matrix is the pooled one of all topics, M = sum_d b_d A_d x_d x_d', scaled by what
each topic has of each column:

    g_k = sum_d x_d (a_dk - b_d alpha_dk) - (lambda_k - m_k) / s^2
    h_kf = sum_d b_d alpha_dk |x_df| sum_e |x_de|
    H_k = S_k M S_k + 1 / s^2,    S_kf^2 = h_kf / sum_k h_kf

A pull (``--prior-pull``) holds the mean of alpha_dk over the documents near its initial value, as
it holds alpha without covariates: a gamma prior of the mean, whose logarithm is bounded by its
tangent.

The standard deviation s of each term is learned, unless it is given: MacKay's (1992) fixed point
s^2 = sum lambda^2 / sum_kf e_kf / (e_kf + 1 / s^2), where e is what the documents tell of a
coefficient. Covariates without meaning end with an s near 0. Topics are inferred from words, which
the likelihood of their counts does not know. So e = I^2 / J, with J the sum of the squares of the
documents' own gradients and I the information less what is missing (Louis 1982): a count below one
token is a single token that may be another topic's. The prior is as much stronger: s^2 / (J / I).

diag(h_k) is never below the second derivative of Q_k (x x' <= diag(|x_f| sum |x_e|)), so it tells
how far a step may go without passing the maximum: Q_k never falls (``bound_steps``).

g, h, M and the sums of the pull are sums over documents. Those of a block are rounded to a quantum
(numeric/tables/spec.py), so their order does not matter. Arrays have the topics last: lambda is
float64[F, K].

References
----------
Mimno & McCallum (2008). Topic models conditioned on arbitrary features with
Dirichlet-multinomial regression. UAI 2008.

Minka (2000). Estimating a Dirichlet distribution.

MacKay (1992). Bayesian interpolation. Neural Computation 4.

Louis (1982). Finding the observed information matrix when using the EM algorithm. JRSS B 44.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topicstream.corpus.block import Block, CovariateRows
from topicstream.engines.covariate_sums import (
    LARGEST,
    LONGEST,
    DistinctRows,
    MeanWeight,
    StepSums,
    TopicCounts,
    add_documents,
)
from topicstream.engines.deviations import excess_of, excess_of_terms, fit_deviations
from topicstream.engines.regimes import (
    HELD,
    PERIODS,
    STATES,
    WEIGHTS,
    find_regimes,
    join_periods,
    move_regimes,
    regime_params,
    spread_coefficients,
)
from topicstream.engines.shapes import BlockShape, Buffer, PriorShape, Shape
from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, Ints, Longs
from topicstream.numeric.kernels.dirichlet import FREE, Pull, exp, logs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.tables.spec import padded, quantum_of

LAMBDA = "lambda"
DEVIATIONS = "lambda_sd"
"""Parameters of an engine: the coefficients, and the deviation of each term's prior."""
FIRST = 20
EVERY = 3
"""The coefficients make ``FIRST`` steps pass after pass, then one in every third pass: with fewer,
held-out perplexity of acl was 0.4 % (2 % where a fifth of a document is read) higher after 40
passes. A step costs 5 to 9 % of a pass."""
WAIT = 2
"""Passes before the first step: random topics do not depend on covariates yet."""
LOWEST = -13.8
HIGHEST = 4.6
"""Logarithms of the least and the largest alpha of a document."""
LEAST_SUM = 1e-3  # least sum of alpha of a document that the bound of b reckons with
CURVED = 0.72
"""exp(y) <= 1 + y + 0.72 y^2 for |y| <= 1."""
ROUNDS = 50
"""Most steps of the conjugate gradients."""
SMALL = 1e-10  # share of the first squared residual that ends the conjugate gradients


@kernel
def fill_priors(
    indptr: Longs, columns: Ints, values: Floats, coefficients: Doubles, topics: int, out: Floats
) -> None:
    """Compute alpha of each distinct row: out[u, k] = exp(x_u lambda_k), 0 in the padding.

    coefficients: float64[F, K]; out: float32[U, >= K].
    """
    eta = np.empty(topics)
    for u in range(len(indptr) - 1):
        eta[:] = 0.0
        for j in range(indptr[u], indptr[u + 1]):
            f = columns[j]
            x = np.float64(values[j])
            for k in range(topics):
                eta[k] += x * coefficients[f, k]
        for k in range(topics):
            out[u, k] = exp(min(max(eta[k], LOWEST), HIGHEST))
        for k in range(topics, out.shape[1]):
            out[u, k] = 0.0


@kernel
def count_topics(ends: Longs, z: Array, theta: Floats) -> None:
    """Count the tokens of each topic in some documents into float32[D, K].

    ends: int64[D + 1], where their tokens begin in z, and the end of the last.
    """
    for d in range(len(ends) - 1):
        theta[d, :] = np.float32(0.0)
        for i in range(ends[d], ends[d + 1]):
            theta[d, z[i]] += np.float32(1.0)


@kernel
def solve_scaled(
    pooled: Doubles, scale: Doubles, ridge: Doubles, right: Doubles, out: Doubles
) -> None:
    """Solve (S_k M S_k + ridge) y = right for all topics by conjugate gradients.

    pooled: float64[F, F], M; scale, right, out: float64[F, K]; ridge: float64[F].
    """
    columns, topics = right.shape
    residual = right.copy()
    precise = np.empty((columns, topics))
    along = np.empty((columns, topics))
    image = np.empty((columns, topics))
    scaled = np.empty((columns, topics))
    before = np.zeros(topics)
    first = np.zeros(topics)
    after = np.zeros(topics)
    curve = np.zeros(topics)
    out[:] = 0.0
    # the preconditioner is the inverse of the diagonal: 1 / (S^2 M_ff + ridge); p = z = P r
    for f in range(columns):
        for k in range(topics):
            precise[f, k] = 1.0 / (scale[f, k] * scale[f, k] * pooled[f, f] + ridge[f])
            along[f, k] = residual[f, k] * precise[f, k]
            before[k] += residual[f, k] * along[f, k]
    first[:] = before
    for _ in range(min(ROUNDS, 2 * columns)):
        # the image of p: q = (S M S + ridge) p, and p q
        for f in range(columns):
            for k in range(topics):
                scaled[f, k] = scale[f, k] * along[f, k]
        curve[:] = 0.0
        for f in range(columns):
            image[f, :] = 0.0
            for e in range(columns):
                m = pooled[f, e]
                if m != 0.0:
                    for k in range(topics):
                        image[f, k] += m * scaled[e, k]
            for k in range(topics):
                image[f, k] = scale[f, k] * image[f, k] + ridge[f] * along[f, k]
                curve[k] += along[f, k] * image[f, k]
        # the step: (r z) / (p q)
        after[:] = 0.0
        going = False
        for k in range(topics):
            # a topic that has its solution stays where it is
            curve[k] = before[k] / curve[k] if before[k] > SMALL * first[k] else 0.0
            going = going or curve[k] > 0.0
        if not going:
            break
        # y += step p,  r -= step q,  and the new r z
        for f in range(columns):
            for k in range(topics):
                out[f, k] += curve[k] * along[f, k]
                residual[f, k] -= curve[k] * image[f, k]
                after[k] += residual[f, k] * residual[f, k] * precise[f, k]
        for k in range(topics):
            # p = z + (new r z / old r z) p
            curve[k] = after[k] / before[k] if before[k] > 0.0 else 0.0
            before[k] = after[k]
        for f in range(columns):
            for k in range(topics):
                along[f, k] = residual[f, k] * precise[f, k] + curve[k] * along[f, k]


def coefficient_means(prior: PriorShape, alpha: np.ndarray) -> np.ndarray:
    """Return the means of the coefficients' prior, float64[F, K]."""
    means = np.zeros((prior.columns, len(alpha)))
    means[0] = logs(alpha)
    return means


def initial_coefficients(prior: PriorShape, alpha: np.ndarray) -> np.ndarray:
    """Return the coefficients that training begins with, float64[F, K]."""
    if prior.begin is not None:
        return np.array(prior.begin, np.float64)
    return coefficient_means(prior, alpha)


def initial_deviations(prior: PriorShape) -> np.ndarray:
    """Return the standard deviations of each term's prior that training begins with."""
    if prior.begin_sd is not None:
        return np.array(prior.begin_sd, np.float64)
    deviations = np.full(len(prior.norms), prior.slope_sd)
    deviations[0] = prior.intercept_sd
    return deviations


def prior_params(prior: PriorShape | None, alpha: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters that covariates add to an engine's."""
    if prior is None:
        return {}
    params = {LAMBDA: initial_coefficients(prior, alpha), DEVIATIONS: initial_deviations(prior)}
    return params | regime_params(prior)


def row_coefficients(
    prior: PriorShape | None, params: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """Return the coefficients of the columns of documents' rows, float64[F', K].

    With regimes a row has a column for each period, and F' exceeds F. None without covariates.
    """
    if prior is None:
        return None
    if prior.regimes is None:
        return params[LAMBDA]
    return spread_coefficients(prior, params[LAMBDA], params[STATES])


def prior_stats(shape: Shape) -> dict[str, int]:
    """Declare the statistics of a visit, none without covariates."""
    if shape.covariates is None:
        return {}
    columns = shape.covariates.columns
    entries = columns * shape.topics
    periods = shape.covariates.periods
    of_periods = {PERIODS: 2 * periods * shape.topics} if periods else {}
    return of_periods | {
        "prior_gradient": entries,
        "prior_curvature": entries,
        "prior_slope": entries,
        "prior_spread": entries,
        "prior_squares": entries,
        "prior_information": entries,
        "prior_pooled": columns * columns,
        "prior_sums": 2 * shape.topics + 2,
    }


def prior_workspace(shape: Shape, block: BlockShape, dtype: str = "float32") -> dict[str, Buffer]:
    """Declare the arrays of a visit that its documents' priors take."""
    prior = shape.covariates
    if prior is None:
        return {}
    rows = prior.most_rows(block.docs)
    return {
        "priors": Buffer((rows, padded(shape.topics)), dtype),
        "covariates": Buffer(block.docs * 3 + rows * (2 + 2 * prior.longest), "int64"),
    }


def fill_alphas(
    prior: PriorShape, rows: CovariateRows, params: Mapping[str, np.ndarray], out: np.ndarray
) -> np.ndarray:
    """Fill ``out`` with alpha of a block's distinct rows under an engine's parameters.

    out: float32[U, >= K], which is returned.
    """
    coefficients = row_coefficients(prior, params)
    assert coefficients is not None
    return block_priors(rows, coefficients, out)


def block_priors(rows: CovariateRows, coefficients: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Fill ``out`` with alpha of a block's distinct rows.

    coefficients: float64[F', K]; out: float32[U, >= K], which is returned.
    """
    topics = coefficients.shape[1]
    fill_priors(rows.indptr, rows.columns, rows.values, coefficients, topics, out)
    return out


def covariate_rows(block: Block) -> CovariateRows:
    """Return the covariates of a block, in a run that has covariates."""
    assert block.covariates is not None, "a block without covariates"
    return block.covariates


def is_counted(pass_number: int, after: int) -> bool:
    """Decide whether a pass counts documents for a step of the coefficients.

    ``after`` is the number of passes before priors are learned.
    """
    since = passes_since(pass_number, after)
    return 0 < since <= FIRST or (since > FIRST and since % EVERY == 0)


def passes_since(pass_number: int, after: int) -> int:
    """Count the passes since the first ``after`` passes, in which no prior is learned."""
    return pass_number - max(after, WAIT)


def passes_for_regimes(after: int) -> int:
    """Return the number of passes after which regimes have coefficients."""
    return max(after, WAIT) + HELD + 1


def count_prior(
    shape: Shape,
    rows: CovariateRows,
    theta: np.ndarray,
    active: np.ndarray | None,
    alphas: np.ndarray,
    stats: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    held: bool = False,
) -> None:
    """Add documents to a block's statistics, which ``round_stats`` completes.

    Parameters
    ----------
    rows
        The documents' covariates.
    theta, active
        Counts of each document's topics, [D, L], and the topics, uint16[D, L]. ``active`` None:
        topic j is column j.
    alphas
        float32[U, >= K], alpha of the distinct rows (``fill_alphas`` with the same ``params``).
    stats
        ``prior_stats`` of the block, which grow.
    held
        Whether the mean of alpha is pulled to its initial value, which takes two more sums.
    """
    prior = shape.covariates
    assert prior is not None
    entries = (prior.columns, shape.topics)
    order = np.argsort(rows.pattern, kind="stable")
    ends = np.cumsum(np.bincount(rows.pattern, minlength=len(rows.indptr) - 1))
    all_topics = np.zeros((len(theta), 0), np.uint16)
    periods = np.full(len(rows.indptr) - 1, -1)
    of_periods = np.zeros((2, 0, shape.topics))
    if prior.regimes is not None:
        rows, periods = join_periods(prior, rows, params[STATES])
        of_periods = stats[PERIODS].reshape(2, prior.periods, shape.topics)
    sums = StepSums(
        stats["prior_gradient"].reshape(entries),
        stats["prior_curvature"].reshape(entries),
        stats["prior_slope"].reshape(entries),
        stats["prior_spread"].reshape(entries),
        stats["prior_squares"].reshape(entries),
        stats["prior_information"].reshape(entries),
        stats["prior_pooled"].reshape(prior.columns, prior.columns),
        stats["prior_sums"],
        of_periods,
    )
    add_documents(
        TopicCounts(theta, all_topics if active is None else active, order, ends),
        DistinctRows(rows.indptr, rows.columns, rows.values, alphas, periods),
        sums,
        MeanWeight(prior.mean_weight, max(shape.length, 1.0)),
        held,
    )


def round_stats(shape: Shape, stats: Mapping[str, np.ndarray]) -> None:
    """Round a block's statistics to quanta, so that the order of blocks does not matter.

    The bounds: a_dk and b_d alpha_dk add up to at most the document's tokens over all topics, a
    document's numbers to at most the norms of all terms, and alpha is bounded.
    """
    prior = shape.covariates
    assert prior is not None
    norm = float(prior.norms.sum())
    tokens = (1.0 + prior.mean_weight) * shape.tokens
    gradients = (1.0 + 1.0 + prior.mean_weight * LONGEST) * LARGEST
    mass = 128.0 * (shape.rows or shape.docs)
    bounds = {
        "prior_gradient": 2.0 * norm * tokens,
        "prior_curvature": norm * norm * tokens,
        "prior_slope": norm * mass,
        "prior_spread": norm * norm * mass,
        "prior_squares": norm * norm * (shape.rows or shape.docs) * gradients**2,
        "prior_information": 4.0 * norm * norm * tokens,
        "prior_pooled": norm * norm * tokens,
        "prior_sums": max(mass, tokens / LEAST_SUM),
        PERIODS: tokens,
    }
    for name, bound in bounds.items():
        if name not in stats:
            continue
        quantum = quantum_of(2.0 * bound)
        figures = stats[name]
        np.divide(figures, quantum, out=figures)
        np.rint(figures, out=figures)
        np.multiply(figures, quantum, out=figures)


def step_coefficients(
    shape: Shape,
    params: dict[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    first_alpha: np.ndarray,
    since: int = FIRST,
    fixed: int = 0,
    pull: Pull = FREE,
) -> dict[str, float]:
    """Make one step of the coefficients, and set alpha to its mean over the documents.

    Nothing happens where no document has been counted. Symbols: the module's docstring.

    Parameters
    ----------
    params
        ``lambda``, its deviations, ``alpha`` and those of regimes change in place.
    stats
        Sums over the documents of the pass (``prior_stats``).
    first_alpha
        float64[K], alpha that training began with: the mean of the intercepts' prior.
    since
        Passes since priors are learned (``passes_since``).
    fixed
        The last topics whose alpha does not change.
    pull
        Holds the mean of alpha over the documents near its initial value. Its rates are per
        document.

    Returns
    -------
    dict
        Figures for the history.
    """
    prior = shape.covariates
    if prior is None or not stats["prior_sums"][-2] > 0:
        return {}
    entries = (prior.columns, shape.topics)
    coefficients = params[LAMBDA]
    deviations = params[DEVIATIONS]
    squares = stats["prior_squares"].reshape(entries)
    information = stats["prior_information"].reshape(entries)
    excess = excess_of_terms(prior, squares, information)
    # regimes are chosen before the step: their sums belong to the present coefficients
    regimes = None
    if prior.regimes is not None:
        regime_columns = prior.term_of == prior.term_of[prior.regimes.first]
        regime_excess = excess_of(regime_columns, squares, information)
        regimes = find_regimes(prior, coefficients, params[STATES], stats[PERIODS], regime_excess)
    # g_k and h_k with the prior of the coefficients
    ridge = (excess / deviations**2)[prior.term_of]
    curvature = stats["prior_curvature"].reshape(entries)
    gradient = stats["prior_gradient"].reshape(entries)
    gradient = gradient - (coefficients - coefficient_means(prior, first_alpha)) * ridge[:, None]
    all_topics = np.cumsum(curvature, axis=1)[:, -1:]
    # the pull on the mean of alpha; its rate depends on the side that the topic is on
    mean, a_sums, (docs, b_sum) = np.split(stats["prior_sums"], [shape.topics, 2 * shape.topics])
    mean = mean / docs
    rate = np.where(a_sums < b_sum * pull.mean, pull.below, pull.above)
    gradient += rate * (pull.mean / mean - 1.0) * stats["prior_slope"].reshape(entries)
    curvature = curvature + rate * stats["prior_spread"].reshape(entries)
    # Newton's step with H_k = S_k M S_k + 1 / s^2
    scale = np.sqrt(np.divide(curvature, all_topics, out=np.zeros(entries), where=all_topics > 0))
    steps = np.empty(entries)
    pooled = stats["prior_pooled"].reshape(prior.columns, prior.columns)
    solve_scaled(pooled, scale, ridge, gradient, steps)
    if prior.learns_sd:
        evidence = information / excess[prior.term_of, None]
        deviations[:] = fit_deviations(prior, deviations, coefficients + steps, evidence)
    steps *= bound_steps(prior, gradient, curvature + ridge[:, None], steps)
    steps[:, shape.topics - fixed :] = 0.0
    if prior.regimes is not None and since <= HELD:
        steps[prior.regimes.columns] = 0.0
    coefficients += steps
    params["alpha"][: shape.topics - fixed] = mean[: shape.topics - fixed]
    if regimes is not None:
        (states, weights) = regimes
        if since <= HELD:
            params[WEIGHTS][:] = weights
        move_regimes(prior, coefficients, params[STATES], states)
    return {
        "alpha_sum": float(params["alpha"].sum()),
        "covariates_moved": float(np.abs(steps).max(initial=0.0)),
    }


def bound_steps(
    prior: PriorShape, gradient: np.ndarray, curvature: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Find the share of each topic's step that cannot lower Q, float64[K], at most 1.

    Where no x_d times the step exceeds 1, Q rises by at least t g'y - CURVED t^2 y' diag(h) y.
    """
    reach = np.zeros(steps.shape[1])
    for term, norm in enumerate(prior.norms.tolist()):
        reach += norm * np.abs(steps[prior.term_of == term]).max(axis=0)
    rise = np.cumsum(gradient * steps, axis=0)[-1]
    fall = CURVED * np.cumsum(curvature * steps**2, axis=0)[-1]
    share = np.divide(rise, fall, out=np.zeros(len(rise)), where=fall > 0)
    return np.asarray(np.clip(np.minimum(share, 1.0 / np.maximum(reach, 1.0)), 0.0, 1.0))
