"""Learned Dirichlet priors of the engines that store messages.

Histograms are summed block by block, and a fixed point is computed at the end of a pass.

The fixed point (numeric/kernels/dirichlet.py) is for whole counts n_dk and phi_wk; messages give
their means. The brackets are concave, the steeper the smaller the prior, so a mean must not be put
in their place: a tenth of a token with prior 0.01 gives 91 where one token in one of ten cases
gives 10, and the priors grow without end. ``expected_rise`` takes their expectation instead.

What is approximate: counts enter through bins a quarter octave wide (four a doubling), each
standing for its middle, so a count is off by at most 12 %, half of it up and half down; counts
below 2^-16 are left out (they add less than 2^-16 / alpha each). The bins let one pass over the
documents serve any number of fixed-point steps. The rows of phi are sampled: one word in 16,
chosen by a hash of its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.engines.base import (
    BlockShape,
    Buffer,
    Engine,
    Out,
    PassEnd,
    Visit,
    option,
    padded,
)
from topicstream.engines.covariates import (
    count_prior,
    covariate_rows,
    fill_alphas,
    is_counted,
    passes_since,
    prior_params,
    prior_stats,
    prior_workspace,
    round_stats,
    step_coefficients,
)
from topicstream.numeric.kernels.arrays import Cells, Doubles, Floats, Int, Ints, Longs
from topicstream.numeric.kernels.dirichlet import Histogram, Pull, Rise, fit_alpha, fit_beta, psi
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits

# bins of counts: four an octave, from 2^LOWEST on. A float32 without its last _SHIFT bits has the
# exponent and two bits of the mantissa, which is the number of its bin plus _FIRST
LOWEST = -16
OCTAVES = 48
BINS = OCTAVES * 4
_SHIFT = 21
_FIRST = (127 + LOWEST) * 4
SAMPLE = np.uint64(16)  # one word in so many is counted
SAYS_LITTLE = 35.0  # tokens of a mean document below which alpha is pulled less from above
REACH = 10.0  # factor of its initial value that a prior stays within, by default
MOST = 30.0  # largest sum of alpha over all topics that a pull holds it at
# parameter: beta of the model, 0 until it is learned. Training needs the larger ``beta``: with this
# one, topics of few documents part too early (docs/internals/decisions/seen-words.md)
SEEN_BETA = "seen_beta"


def bin_values() -> np.ndarray:
    """Compute the count that each bin represents, float64[BINS]."""
    edge = np.arange(BINS + 1)
    low = np.ldexp(1.0 + (edge % 4) / 4.0, LOWEST + edge // 4)
    return (low[:-1] + low[1:]) / 2


@kernel(inline="always")
def bin_of(value: float) -> Int:
    """Find the bin of a float32 > 0, negative below the lowest."""
    upper_bits = np.int64(np.float32(value).view(np.int32)) >> _SHIFT
    return min(upper_bits - _FIRST, BINS - 1)  # type: ignore[return-value]


@kernel
def count_documents(
    theta: Floats, topics: int, active: Any, topic_bins: Doubles, length_bins: Doubles
) -> None:
    """Add the documents to the histograms of topics and lengths.

    topic_bins: float64[K * BINS]; length_bins: float64[BINS].

    theta: counts float32[D, KP], or float32[D, L] of the topics ``active`` (uint16[D, L]; None:
    all).
    """
    for d in range(theta.shape[0]):
        length = 0.0
        for j in range(topics if active is None else theta.shape[1]):
            value = theta[d, j]
            length += value
            k = j if active is None else np.int64(active[d, j])
            if value > 0.0 and k < topics:
                b = bin_of(value)
                if b >= 0:
                    topic_bins[k * BINS + b] += 1.0
        if length > 0.0:
            b = bin_of(length)
            if b >= 0:
                length_bins[b] += 1.0


@kernel
def count_words(
    cells: Cells,
    vocab: Ints,
    base: Floats,
    index: Longs,
    topics: int,
    weight: Doubles,
    row_bins: Doubles,
    sampled: Doubles,
) -> None:
    """Count the rows of phi of a block's sampled words.

    Each is weighted by the share of the word's tokens that lie in the block.

    Over all blocks the shares of a word add up to 1. weight: float64[U] scratch; row_bins:
    float64[BINS]; sampled: float64[1], the (whole and partial) words seen.
    """
    (_, words, counts) = cells
    weight[:] = 0.0
    # x_w, the tokens of each word in the block
    for i in range(len(words)):
        weight[words[i]] += counts[i]
    for u in range(len(vocab)):
        if bits(np.uint64(vocab[u])) % SAMPLE != np.uint64(0):
            continue
        # n_w = sum_k phi_wk, of which the block has the share x_w / n_w
        row = index[u]
        n_w = 0.0
        for k in range(topics):
            n_w += base[row, k]
        if n_w <= 0.0:
            continue
        share = weight[u] / n_w
        sampled[0] += share
        for k in range(topics):
            # phi_wk enters its bin with that weight
            value = base[row, k]
            if value > 0.0:
                b = bin_of(value)
                if b >= 0:
                    row_bins[b] += share


def expected_rise(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute E[psi(n + prior) - psi(prior)] over counts n with the given means.

    A mean does not say how the whole numbers n spread about it. They are taken to spread as little
    as they can, over the two whole numbers next to it. Between these the value is linear, and
    psi(n + 1 + prior) - psi(n + prior) = 1 / (n + prior).

    Parameters
    ----------
    counts
        float64[n], means of counts.
    prior
        float64[..., 1].

    Returns
    -------
    float64[..., n]
    """
    floors = np.floor(counts)
    rise = (counts - floors) / (floors + prior)
    positive = floors > 0.0
    rise[..., positive] += psi(floors[positive] + prior) - psi(prior)
    return np.asarray(rise)


def without_first_tokens(share: float) -> Rise:
    """Build an ``expected_rise`` that leaves out the first token of each word.

    A word is in the vocabulary because it occurs, so its first token says nothing of beta. The
    words of a new document have occurred before. ``share``: words per non-zero count.
    """

    def rise(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
        return expected_rise(counts, prior) - share / prior

    return rise


def document_counts(
    topic_bins: np.ndarray, length_bins: np.ndarray, topics: int
) -> tuple[Histogram, Histogram]:
    """Build the histograms of n_dk and n_d from their bins."""
    times = topic_bins.reshape(topics, BINS)
    values = bin_values()
    used = np.flatnonzero(times.sum(0))
    return Histogram(times[:, used], values[used]), Histogram(length_bins, values)


def pull_by_length(lengths: Histogram, strength: float, mean: float) -> Pull:
    """Compute a gamma prior on alpha with the weight ``strength`` per document.

    A short document says little of alpha. So for topics that ask for less than ``mean`` the rate
    falls with the square of the documents' mean length below SAYS_LITTLE tokens.
    """
    docs = float(lengths.times.sum())
    rate = strength * docs
    share = float((lengths.times * lengths.values).sum()) / max(docs, 1.0) / SAYS_LITTLE
    return Pull(mean, rate, rate * min(1.0, share * share))


def reach_option() -> Any:
    """Create the option ``prior_reach``."""
    text = "With --learn-priors: keep each prior within this factor of its initial value."
    return option(REACH, text, min=1.0, max=1e6, advanced=True, decided=True)


def count_at_bounds(values: np.ndarray, began: float, reach: float) -> int:
    """Count the learned priors that are at a bound.

    ``began`` is their initial value, and ``reach`` the factor of it that bounds them.
    """
    at_low = values <= began / reach * (1 + 1e-9)
    at_high = values >= began * reach * (1 - 1e-9)
    return int((at_low | at_high).sum())


class Learning(Engine):
    """Base class of engines that can learn their priors.

    ``learn_priors`` switches it on, and ``prior_reach`` bounds the priors.

    Attributes
    ----------
    learns_after
        Passes before priors are learned.
    """

    _warned = False  # whether the user was told of priors at a bound
    learns_after = 0

    @property
    def stats(self) -> Mapping[str, int]:
        """Declare loglik and tokens, and the histograms if priors are learned.

        The number of sampled words is among them.
        """
        figures = {**super().stats, **prior_stats(self.shape)}
        if not self.options.learn_priors:
            return figures
        bins = {
            "topic_bins": self.shape.topics * BINS,
            "length_bins": BINS,
            "row_bins": BINS,
            "sampled": 1,
        }
        return {**figures, **bins}

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        weight = {"weight": Buffer(block.words, "float64")} if self.options.learn_priors else {}
        return {**weight, **prior_workspace(self.shape, block)}

    def initial_params(self) -> dict[str, np.ndarray]:
        params = super().initial_params()
        if self.options.learn_priors:
            params[SEEN_BETA] = np.zeros(1)
        return params | prior_params(self.shape.covariates, params["alpha"])

    def model_beta(self, params: Mapping[str, np.ndarray]) -> float:
        seen = float(params[SEEN_BETA][0]) if SEEN_BETA in params else 0.0
        return seen if seen > 0.0 else super().model_beta(params)

    def document_priors(self, visit: Visit, out: Out) -> np.ndarray | None:
        """Return alpha of a block's distinct rows of covariates.

        Returns
        -------
        float32[U, padded(K)], or None without covariates.
        """
        if self.shape.covariates is None:
            return None
        rows = covariate_rows(visit.block)
        shape = (len(rows.indptr) - 1, padded(self.shape.topics))
        return fill_alphas(self.shape.covariates, rows, visit.params, out.array("priors", shape))

    def count_for_priors(
        self,
        visit: Visit,
        theta: np.ndarray,
        out: Out,
        active: np.ndarray | None = None,
        alphas: np.ndarray | None = None,
    ) -> None:
        """Add a block to the histograms, if priors are learned.

        They count the documents' topics (``count_documents``) and the block's share of the sampled
        rows of phi, without the pseudo-counts of seed words.

        Parameters
        ----------
        theta, active
            As of ``count_documents``.
        alphas
            Result of ``document_priors``. With covariates documents count for the coefficients
            instead of the histogram of topics.
        """
        block = visit.block
        if alphas is not None and is_counted(visit.key.pass_number, self.learns_after):
            held = getattr(self.options, "prior_pull", 0.0) > 0.0
            rows = covariate_rows(block)
            count_prior(self.shape, rows, theta, active, alphas, out.stats, visit.params, held)
            round_stats(self.shape, out.stats)
        if not self.options.learn_priors or visit.key.pass_number <= self.learns_after:
            return
        phi = visit.rows["phi"]
        topics = self.shape.topics
        if alphas is None:
            count_documents(
                theta, topics, active, out.stats["topic_bins"], out.stats["length_bins"]
            )
        count_words(
            block.cells,
            block.vocab,
            phi.base,
            phi.counts,
            topics,
            out.array("weight"),
            out.stats["row_bins"],
            out.stats["sampled"],
        )

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        return self.learn(end)

    def learn(self, end: PassEnd, pull: float = 0.0, fixed: int = 0) -> dict[str, float]:
        """Update alpha and beta in place and return figures for the history.

        Nothing happens if priors are not learned, or if no document has been counted.

        Parameters
        ----------
        pull
            Weight per document of the gamma prior that holds alpha near its initial value.
        fixed
            The last topics whose alpha does not change.
        """
        if self.shape.covariates is not None:
            return self._learn_coefficients(end, pull, fixed)
        params = end.params
        stats = end.stats
        if not self.options.learn_priors or not stats["length_bins"].any():
            return {}
        reach = self.options.prior_reach
        first = self.initial_params()
        first_alpha = float(first["alpha"][0])
        first_beta = float(first["beta"][0])
        topics = self.shape.topics
        learned = topics - fixed
        low = np.full(topics, first_alpha / reach)
        high = np.full(topics, first_alpha * reach)
        low[learned:] = first["alpha"][learned:]
        high[learned:] = first["alpha"][learned:]
        counts, lengths = document_counts(stats["topic_bins"], stats["length_bins"], topics)
        pull_alpha = pull_by_length(lengths, pull, min(first_alpha, MOST / topics))
        params["alpha"][:] = fit_alpha(
            params["alpha"], counts, lengths, expected_rise, low, high, pull_alpha
        )
        self._fit_beta(end, first_beta)
        at_bounds = count_at_bounds(params["alpha"][:learned], first_alpha, reach)
        at_bounds += count_at_bounds(params["beta"], first_beta, reach)
        self._warn_of_bounds(end, at_bounds)
        return {
            "alpha_sum": float(params["alpha"].sum()),
            "beta": float(params["beta"][0]),
            "priors_held": at_bounds,
        }

    def _warn_of_bounds(self, end: PassEnd, at_bounds: int) -> None:
        """Say once in a run how many learned priors are at a bound."""
        if not at_bounds or self._warned:
            return
        self._warned = True
        reach = self.options.prior_reach
        priors = "learned prior is" if at_bounds == 1 else "learned priors are"
        # a reach below the default is meant to hold them
        warning = "warning: " if reach >= REACH else ""
        end.say(
            f"{warning}{at_bounds} {priors} at a bound, {reach:g} times above or below its "
            "initial value (--prior-reach)"
        )

    def _learn_coefficients(self, end: PassEnd, pull: float, fixed: int) -> dict[str, float]:
        """Update the coefficients of covariates and beta in place (parameters: ``learn``)."""
        params = end.params
        stats = end.stats
        first = self.initial_params()
        length = self.shape.tokens / max(self.shape.docs, 1) / SAYS_LITTLE
        mean = min(float(first["alpha"][0]), MOST / self.shape.topics)
        pull_alpha = Pull(mean, pull, pull * min(1.0, length**2))
        since = passes_since(end.key.pass_number, self.learns_after)
        figures = step_coefficients(
            self.shape, params, stats, first["alpha"], since, fixed, pull_alpha
        )
        if self.options.learn_priors and stats["sampled"][0] > 0:
            self._fit_beta(end, float(first["beta"][0]))
            figures["beta"] = float(params["beta"][0])
        return figures

    def _fit_beta(self, end: PassEnd, began: float) -> None:
        """Update beta in place, within ``prior_reach`` of its initial value ``began``.

        ``SEEN_BETA`` is fitted to the same counts without the first token of each word. Weighted
        cells have no first token.
        """
        params = end.params
        stats = end.stats
        sampled = float(stats["sampled"][0])
        if sampled <= 0:
            return
        rows = Histogram(stats["row_bins"], bin_values())
        words = self.shape.words
        totals = end.totals["phi"][: self.shape.topics]
        reach = self.options.prior_reach
        low = began / reach
        high = began * reach
        scale = words / sampled
        beta = float(params["beta"][0])
        params["beta"][0] = fit_beta(beta, rows, scale, totals, words, expected_rise, low, high)
        if not self.shape.weighted:
            rise = without_first_tokens(sampled / max(float(rows.times.sum()), 1.0))
            params[SEEN_BETA][0] = fit_beta(beta, rows, scale, totals, words, rise, low, high)
