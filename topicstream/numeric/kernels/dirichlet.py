"""Branch-free exp, log, digamma and log-gamma, and sums of x log y.

Loops over arrays of them become SIMD code.

numba has no vector mathematics library to call, and a call a lane costs ten times the arithmetic.
Here every function is straight-line code of its argument (bits are cut and glued for exponents),
for positive arguments. Every processor computes the same bits: a product that is added to something
is fused with the addition by name (``fma64``), and nothing else is.

    digamma(x) = log z - 1/(2z) - sum_n B_2n / (2n z^2n) - sum_{i<8} 1/(x+i),      z = x + 8
    lgamma(x)  = (z - 1/2) log z - z + log(2 pi)/2 + sum_n B_2n / (2n (2n-1) z^(2n-1)) - log
    prod_{i<8} (x+i)

(asymptotic series and recurrence: Abramowitz & Stegun 6.3.5, 6.3.18, 6.1.41). The eight factors
pair up: (x+i)(x+7-i) = u + c_i with u = x (x+7) and c = 0, 6, 10, 12, so the sum of reciprocals
takes one division.

float64: digamma and lgamma within 1e-12 of SciPy's (relative, or absolute 1e-13 near their zeros)
for 1e-8 <= x <= 1e15. float32: ``exp_digamma32`` within 4e-6 (1 + 0.1 / x) relative for 1e-3 <= x
<= 1e9; values below 1e-37 are 0.

Dirichlet priors fitted to histograms of counts: Minka's fixed point for the Dirichlet-multinomial
(Estimating a Dirichlet distribution, 2000, eq. 55).

    alpha_k <- alpha_k * sum_d [psi(n_dk + alpha_k) - psi(alpha_k)] / sum_d [psi(n_d + A) - psi(A)],
    A = sum alpha
    beta    <- beta * sum_w,k [psi(n_wk + beta) - psi(beta)] / (W sum_k [psi(n_k + W beta) - psi(W
            beta)])

The brackets are a function of values and prior: exact for whole counts (here), an expectation for
the means that messages give (engines/message/priors.py).

Dirichlet priors of whole counts: their likelihood, and the histograms that they are fitted to
(dirichlet_fit.py).

The word-topic counts come as an exact histogram (the packed table's). Document counts below 16 have
a bin each; above, bins are a quarter octave wide and a count of topics stands at the bin's middle,
a document's length at the mean length in its bin.

    topic_bins  float64[K * BINS]  documents by n_dk, topic after topic
    lengths     float64[2 * BINS]  documents by n_d, then the sums of their n_d
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Doubles, Float, Int, Longs
from topicstream.numeric.kernels.intrinsics import polynomial
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import fma32, fma64, get
from topicstream.numeric.kernels.sums import sum_doubles

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # ln 2 to 32 bits, then the rest: n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_LN2 = 0.6931471805599453
_HALF_LOG_2PI = 0.9189385332046727
_SQRT2 = 1.4142135623730951
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
_ONE_BITS = np.int64(0x3FF0000000000000)

_F = np.float32
_LOG2E32 = _F(1.4426950408889634)
_LN2_HIGH32 = _F(0.693145751953125)
_LN2_LOW32 = _F(1.4286068203094172e-06)

# e^r;  (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, whole and half;  the series of digamma and
# lgamma in 1/z^2, over it and times z
_exp = polynomial("float64", *(1.0 / math.factorial(n) for n in range(13, -1, -1)))
_exp32 = polynomial("float32", *(1.0 / math.factorial(n) for n in range(7, -1, -1)))
_log = polynomial("float64", *(2.0 / n for n in range(21, 2, -2)))
_half_log = polynomial("float64", *(1.0 / n for n in range(17, 2, -2)))
_product = polynomial("float64", 1.0, 28.0, 252.0, 720.0)  # of (u + c_i) / u, and its slope in u
_slope = polynomial("float64", 4.0, 84.0, 504.0, 720.0)
_digamma = polynomial("float64", 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
_trigamma = polynomial("float64", 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
_digamma32 = polynomial("float32", 1 / 252, -1 / 120, 1 / 12)
_lgamma = polynomial("float64", -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

_scalar = kernel(forceinline=True)


@_scalar
def exp(y: float) -> float:
    """Compute e**y of a float64.

    |relative error| < 4e-16 * (1 + |y| / 16); 0 below -708, capped at 709.
    """
    y_ = min(max(y, -708.5), 709.0)
    n = np.floor(fma64(y_, _LOG2E, 0.5))
    r = fma64(-n, _LN2_LOW, fma64(-n, _LN2_HIGH, y_))
    two_n = np.int64((np.int64(n) + 1023) << 52).view(np.float64)
    return _exp(r) * two_n if y > -708.0 else 0.0


@_scalar
def log(x: float) -> float:
    """Compute the natural logarithm of a positive normal float64.

    Of 0 it is -inf.

    The error is below 1e-16 + 2e-16 |log x|.
    """
    b = np.float64(x).view(np.int64)
    e = (b >> 52) - 1023
    m = np.int64((b & _MANTISSA) | _ONE_BITS).view(np.float64)
    up = m > _SQRT2
    m = m * 0.5 if up else m
    e = e + 1 if up else e
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    n = np.float64(e)
    rest = fma64(2.0, s, fma64(s * q, _log(q), n * _LN2_LOW))
    return fma64(n, _LN2_HIGH, rest) if x > 0.0 else -np.inf


@_scalar
def _below(x: float) -> float:
    """Compute digamma(x) - log(x + 8) for x > 0."""
    z = x + 8.0
    w = 1.0 / z
    u = x * (x + 7.0)
    q = _product(u)
    dq = _slope(u)
    # far out the recurrence is only eight times 1/x; the quotient must not overflow
    shift = fma64(2.0, x, 7.0) * dq / (u * q) if x < 1e15 else 8.0 * w
    v = w * w
    return -(fma64(_digamma(v), v, 0.5 * w) + shift)  # type: ignore[no-any-return]


@_scalar
def digamma(x: float) -> float:
    """Compute psi(x) = d/dx log Gamma(x) of a float64 x > 0."""
    return log(x + 8.0) + _below(x)  # type: ignore[no-any-return]


@_scalar
def trigamma(x: float) -> float:
    """Compute psi'(x) of a float64 x > 0, within 1e-9 (relative)."""
    z = x + 8.0
    w = 1.0 / z
    v = w * w
    shift = 0.0
    for i in range(8):
        t = x + i
        shift += 1.0 / (t * t)
    return fma64(w * v, _trigamma(v), fma64(0.5, v, w)) + shift  # type: ignore[no-any-return]


@_scalar
def exp_digamma(x: float) -> float:
    """Compute exp(psi(x)) of a float64 x > 0.

    It takes one exponential and no logarithm. The result is 0 for x below about 0.0014.
    """
    return (x + 8.0) * exp(_below(x))  # type: ignore[no-any-return]


@_scalar
def lgamma(x: float) -> float:
    """Compute log Gamma(x) of a float64 x > 0 (up to 1e38)."""
    z = x + 8.0
    w = 1.0 / z
    u = x * (x + 7.0)
    # the two largest factors apart, or the product of eight overflows where x passes 1e38
    low = log(u) + log((u + 6.0) * (u + 10.0)) + log(u + 12.0)
    whole = fma64(z - 0.5, log(z), -z) + _HALF_LOG_2PI
    return fma64(_lgamma(w * w), w, whole) - low  # type: ignore[no-any-return]


@_scalar
def exp32(y: float) -> Float:
    """Compute e**y of a float32 y <= 88, or 0 below -86.

    The relative error is below 3e-7.
    """
    y_ = max(_F(y), _F(-87.0))
    n = np.floor(fma32(y_, _LOG2E32, _F(0.5)))
    r = fma32(-n, _LN2_LOW32, fma32(-n, _LN2_HIGH32, y_))
    two_n = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _exp32(r) * two_n if y > _F(-86.0) else _F(0.0)


@_scalar
def exp_digamma32(x: float) -> float:
    """Compute exp(psi(x)) in float32 arithmetic.

    It shifts by four instead of eight. The result is 0 where psi(x) < -86, x below 0.0117.
    """
    z = x + _F(4.0)
    w = _F(1.0) / z
    v = w * w
    u = x * (x + _F(3.0))
    up = fma32(_F(2.0), x, _F(3.0)) * fma32(_F(2.0), u, _F(2.0))
    shift = up / (u * (u + _F(2.0)))
    return z * exp32(-(fma32(_digamma32(v), v, _F(0.5) * w) + shift))  # type: ignore[no-any-return]


@kernel
def _digammas(x: Doubles, out: Doubles) -> None:
    for i in range(len(x)):
        out[i] = digamma(x[i])


@kernel
def _logs(x: Doubles, out: Doubles) -> None:
    for i in range(len(x)):
        out[i] = log(x[i])


@kernel
def _lgammas(x: Doubles, out: Doubles) -> None:
    for i in range(len(x)):
        out[i] = lgamma(x[i])


def _each(function: Callable[[np.ndarray, np.ndarray], None], x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x, np.float64).ravel()
    out = np.empty_like(flat)
    function(flat, out)
    return out.reshape(np.shape(x))


def psi(x: np.ndarray) -> np.ndarray:
    """Compute digamma of each entry, float64."""
    return _each(_digammas, x)


def logs(x: np.ndarray) -> np.ndarray:
    """Compute the natural logarithm of each entry, float64.

    The bits are the same on every processor.
    """
    return _each(_logs, x)


def exponential(y: float) -> float:
    """Compute e**y of one number, inf from 709 on.

    The bits are the same on every processor.
    """
    if y <= 709.0:
        return float(exp(y))
    return math.inf if y > 709.0 else math.nan


def log_gamma(x: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the gamma function of each entry, float64."""
    return _each(_lgammas, x)


@kernel
def sum_x_log(s: Doubles, counts: Array, first: int, n: int, whole: float, own: float) -> float:
    """Sum x log(s[i] / (whole - own x)) over cells, in nats.

    The sum is over i < n, x = counts[first + i].

    s: float64[>= n] positive and normal: normalisers of a document's cells, overwritten by the
    terms of the sum; whole: float64, the mass that the topics' weights add up to; own: 1.0 where
    the cell's own tokens had been taken out of them, else 0.0.

    log(s / w) = e ln 2 + 2 atanh(z), z = (t - w) / (t + w) with t = s / 2^e near w. The bits of s
    and w, subtracted, are about 2^52 log2(s / w), off by 9 % of 2^52 at most: |z| <= 0.2; the odd
    series is cut after z^17, error below 1e-13. Straight arithmetic on bits and one division, so
    LLVM vectorises the loop.
    """
    for i in range(n):
        x = np.float64(get(counts, first + i))
        w = fma64(-own, x, whole)
        b = np.float64(s[i]).view(np.int64)
        # the bits of 1 less those of sqrt(1/2) move the cut between two exponents there
        e = (b - np.float64(w).view(np.int64) + 0x00095F619980C433) >> 52
        t = np.int64(b - (e << 52)).view(np.float64)
        z = (t - w) / (t + w)
        q = z * z
        s[i] = x * fma64(np.float64(e), _LN2, 2.0 * fma64(z * q, _half_log(q), z))
    return sum_doubles(s, n)  # type: ignore[no-any-return]


STEPS = 20
Rise = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Histogram(NamedTuple):
    """The number of ``times`` that counts of ``values`` occurred.

    times: float64[n], or [K, n] of each topic; values: float64[n].
    """

    times: np.ndarray
    values: np.ndarray


class Pull(NamedTuple):
    """A gamma prior on every alpha_k with this ``mean``.

    It has one rate for entries that ask for more, and one for less.
    """

    mean: float = 0.0
    above: float = 0.0
    below: float = 0.0


FREE = Pull()


def digamma_rise(values: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute psi(values + prior) - psi(prior)."""
    return np.asarray(psi(values + prior) - psi(prior))


def fit_alpha(
    alpha: np.ndarray,
    topics: Histogram,
    lengths: Histogram,
    rise: Rise,
    low: float | np.ndarray,
    high: float | np.ndarray,
    pull: Pull = FREE,
) -> np.ndarray:
    """Fit alpha, float64[K], by up to 20 fixed-point steps within [low, high].

    topics, lengths: documents by n_dk and by n_d. pull: the maximum of the posterior adds rate *
    mean above and rate below.
    """
    alpha = alpha.copy()
    for _ in range(STEPS):
        below = float((lengths.times * rise(lengths.values, np.array([alpha.sum()]))).sum())
        if below <= 0:
            break
        own = alpha * (topics.times * rise(topics.values, alpha[:, None])).sum(1)
        rate = np.where(own < below * pull.mean, pull.below, pull.above)
        new = np.clip((own + rate * pull.mean) / (below + rate), low, high)
        done = bool(np.abs(new - alpha).max() <= 1e-4 * alpha.max())
        alpha = new
        if done:
            break
    return alpha


def fit_beta(
    beta: float,
    counts: Histogram,
    scale: float,
    n_k: np.ndarray,
    words: int,
    rise: Rise,
    low: float,
    high: float,
) -> float:
    """Fit beta by up to 20 fixed-point steps within [low, high].

    counts: words by n_wk, ``scale`` times as many in all; n_k: float64[K].
    """
    for _ in range(STEPS):
        above = float((counts.times * rise(counts.values, np.array([beta]))).sum()) * scale
        mass = np.array([words * beta])
        below = words * float((psi(n_k + mass) - psi(mass)).sum())
        if below <= 0:
            break
        new = float(np.clip(beta * above / below, low, high))
        done = abs(new - beta) <= 1e-4 * beta
        beta = new
        if done:
            break
    return beta


EXACT = 16
BINS = EXACT + 4 * 20


@kernel(inline="always")
def count_bin(n: float) -> Int:
    """Find the bin of a whole count n >= 1."""
    if n < EXACT:
        return np.int64(n)
    b = np.int64(np.float64(n).view(np.int64) >> 50) - ((np.int64(1023) + 4) << 2)
    return min(EXACT + b, np.int64(BINS - 1))


def bin_values() -> np.ndarray:
    """Compute the count that each bin represents, float64[BINS]."""
    i = np.arange(BINS + 1 - EXACT)
    edge = np.ldexp(1.0 + (i % 4) / 4.0, 4 + i // 4)
    return np.concatenate((np.arange(EXACT), (edge[:-1] + edge[1:] - 1.0) / 2))


@kernel
def close_document(
    topics: Longs,
    n_topics: int,
    n_td: Longs,
    n_d: int,
    alpha: Doubles,
    alpha_sum: float,
    topic_bins: Doubles,
    lengths: Doubles,
) -> float:
    """Compute log p(z of one document) and add its counts to the histograms.

    It is the log of the Dirichlet-multinomial, in nats.

    topics: int64[>= n_topics], the document's topics; n_td: int64[K]; topic_bins may be empty (then
    only lengths).
    """
    product = 1.0
    loglik = lgamma(alpha_sum) - lgamma(alpha_sum + n_d)
    for j in range(n_topics):
        t = topics[j]
        n = n_td[t]
        a = alpha[t]
        if n <= EXACT:
            for i in range(n):
                product *= a + i
        else:
            loglik += lgamma(a + n) - lgamma(a)
        if product > 1e250 or product < 1e-250:
            loglik += log(product)
            product = 1.0
        if len(topic_bins) > 0:
            topic_bins[t * BINS + count_bin(n)] += 1.0
    b = count_bin(n_d)
    lengths[b] += 1.0
    lengths[BINS + b] += n_d
    return loglik + log(product)  # type: ignore[no-any-return]


def words_loglik(
    beta: float, counts: np.ndarray, times: np.ndarray, n_k: np.ndarray, words: int
) -> float:
    """Compute log p(w | z) in nats.

    counts, times: histogram of the non-zero n_wk; n_k: float64[K], their sums.
    """
    mass = np.array([words * beta])
    rows = (times * (log_gamma(counts + beta) - log_gamma(np.array([beta])))).sum()
    return float(rows + (log_gamma(mass) - log_gamma(mass + n_k)).sum())


def topic_counts(bins: np.ndarray, topics: int) -> Histogram:
    """Build the histogram of n_dk from ``topic_bins``."""
    times = bins.reshape(topics, BINS)
    used = np.flatnonzero(times.sum(0))
    return Histogram(times[:, used], bin_values()[used])


def length_counts(lengths: np.ndarray) -> Histogram:
    """Build the histogram of n_d from ``lengths``, with mean lengths as values."""
    held = np.flatnonzero(lengths[:BINS])
    return Histogram(lengths[held], lengths[BINS + held] / lengths[held])
