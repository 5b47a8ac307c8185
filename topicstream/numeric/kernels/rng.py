"""Counter-based random numbers, keyed by seed, pass and global document number.

The generator is SplitMix64 (Steele, Lea & Flood 2014). A stream is one uint64 state: ``step``
advances it, and ``bits`` turns it into a random number. A document's draws depend on its key alone,
never on the thread, the block or other documents.
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels.arrays import Int
from topicstream.numeric.kernels.jit import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)
_S11 = np.uint64(11)


@kernel(inline="always")
def bits(state: int) -> Int:
    """Mix the bits of a state (the SplitMix64 finaliser): uint64 -> uint64."""
    z = np.uint64(state)
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@kernel(inline="always")
def step(state: int) -> Int:
    """Compute the next state of a stream."""
    return np.uint64(state) + GOLDEN


@kernel
def stream(seed: int, pass_number: int, document: int) -> int:
    """Compute the first state of the stream of (seed, pass, document).

    All are integers >= 0.
    """
    s = bits(np.uint64(seed) + GOLDEN)
    s = bits(s ^ (np.uint64(pass_number) + GOLDEN) * _M1)
    return bits(s ^ (np.uint64(document) + GOLDEN) * _M2)  # type: ignore[no-any-return]


@kernel(inline="always")
def uniform(word: int) -> float:
    """Convert 64 bits to a float64 in [0, 1) with 53 bits."""
    return float(np.uint64(word) >> _S11) * (1.0 / 9007199254740992.0)


@kernel(inline="always")
def below(word: int, n: int) -> Int:
    """Convert 64 bits to an integer in [0, n), n < 2**32.

    The bias is below n / 2**32.
    """
    return np.int64(((np.uint64(word) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
