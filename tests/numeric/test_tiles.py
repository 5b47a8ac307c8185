"""Tiles of sixteen cells: turning, selection with ties by both ways, sums, what leaves, against
plain NumPy.
"""

import numpy as np
import pytest

from topicstream.engines.variational import tiles
from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels import simd as lanes
from topicstream.numeric.kernels.jit import kernel


def aligned(n):
    raw = np.zeros(n + 16, np.float32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + n]


class Document:
    """Buffers of a document of ``cells`` cells over ``topics`` topics; weights drawn from few
    values where ``ties``.
    """

    def __init__(self, cells, topics, ties, seed=0):
        rng = np.random.default_rng(seed)
        self.cells = cells
        self.topics = topics
        self.width = -(-topics // 16) * 16
        self.e = np.zeros((40, self.width), np.float32)
        draw = rng.integers(0, 5, (40, topics)) / 4 if ties else rng.gamma(0.2, 1.0, (40, topics))
        self.e[:, :topics] = draw
        self.words = rng.integers(0, 40, cells).astype(np.int32)
        self.own, self.kept = (aligned((cells + 32) * self.width + 256) for _ in range(2))
        self.x = aligned(cells + 32)
        self.z = aligned(cells + 32)
        self.x[:cells] = rng.integers(1, 5, cells)
        self.t = aligned(self.width + 16)
        self.t[:topics] = rng.integers(1, 3, topics) if ties else rng.gamma(0.5, 1.0, topics)
        self.acc = aligned(35 * (self.width + 16))
        self.best = aligned(256)
        self.n = np.zeros(self.width)
        self.rows = np.zeros(16, np.int64)
        self.picks = np.zeros(2 * self.width, np.int64)

    def take(self, stays):
        """``tiles.take`` of some topics."""
        padded = np.zeros(self.width, np.int64)
        padded[: len(stays)] = stays
        return tiles.take(padded, len(stays), self.picks)

    def fill(self, stays):
        sixteens = self.take(stays)
        e, words, picks, own, rows = self.at("e", "words", "picks", "own", "rows")
        topics = tiles.TileTopics(picks, sixteens, len(stays))
        tiles.fill(e, self.width, words, self.cells, topics, own, rows)

    @property
    def places(self):
        return tiles.Places(*self.at("own", "kept", "t", "x", "z", "acc", "best", "n"))

    def at(self, *names):
        return (getattr(self, name).ctypes.data for name in names)

    def weights(self):
        return self.e[self.words, : self.topics] * self.t[: self.topics]

    def kept_rows(self):
        flat = self.kept[: -(-self.cells // 16) * 16 * self.topics]
        return (
            flat.reshape(-1, self.topics, 16)
            .transpose(0, 2, 1)
            .reshape(-1, self.topics)[: self.cells]
        )


def chosen(weights, most):
    """The ``most`` largest of each row, the first of equal ones, zeros left out."""
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    out = np.zeros(weights.shape, bool)
    np.put_along_axis(out, order, True, axis=1)
    return out & (weights > 0)


@kernel
def turn_square(rows, out):
    """out = rows transposed, 16 x 16."""
    r = pointers.address_of(rows)
    o = pointers.address_of(out)
    lanes.transpose(
        o,
        pointers.load(r, 0),
        pointers.load(r, 16),
        pointers.load(r, 32),
        pointers.load(r, 48),
        pointers.load(r, 64),
        pointers.load(r, 80),
        pointers.load(r, 96),
        pointers.load(r, 112),
        pointers.load(r, 128),
        pointers.load(r, 144),
        pointers.load(r, 160),
        pointers.load(r, 176),
        pointers.load(r, 192),
        pointers.load(r, 208),
        pointers.load(r, 224),
        pointers.load(r, 240),
    )


def test_a_square_is_turned():
    square = np.arange(256, dtype=np.float32).reshape(16, 16)
    out = np.zeros((16, 16), np.float32)
    turn_square(square, out)
    np.testing.assert_array_equal(out, square.T)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("cells", [1, 16, 37, 48])
@pytest.mark.parametrize("most", [1, 3, 8, 9, 20, 60])
def test_selection_sums_and_reweighting(most, cells, ties):
    d = Document(cells, 53, ties)
    d.fill(np.arange(53))
    some = tiles.iterate(cells, d.topics, most, True, d.places)
    w = d.weights()
    keep = chosen(w, most)
    np.testing.assert_array_equal(d.kept_rows(), np.where(keep, d.e[d.words, : d.topics], 0))
    z = np.where(keep, w, 0).sum(1, dtype=np.float64)
    assert some == bool((z <= 1e-20).any())
    np.testing.assert_allclose(d.z[:cells], z, rtol=1e-5)
    share = np.divide(d.x[:cells], z, out=np.zeros(cells), where=z > 1e-20)
    np.testing.assert_allclose(d.n[: d.topics], share @ np.where(keep, w, 0), rtol=1e-4, atol=1e-5)
    d.t[: d.topics] *= np.linspace(0.5, 2.0, d.topics, dtype=np.float32)
    tiles.iterate(cells, d.topics, most, False, d.places)
    np.testing.assert_allclose(d.z[:cells], np.where(keep, d.weights(), 0).sum(1), rtol=1e-5)


@pytest.mark.parametrize("topics", [np.arange(70), np.array([0, 15, 16, 63]), np.array([50, 69])])
def test_tiles_are_filled_with_the_topics_that_stay(topics):
    d = Document(37, 70, False, 4)
    d.fill(topics)
    rows = (
        d.own[: 48 * len(topics)]
        .reshape(3, len(topics), 16)
        .transpose(0, 2, 1)
        .reshape(48, len(topics))
    )
    np.testing.assert_array_equal(rows[:37], d.e[d.words][:, topics])
    assert d.take(topics) == len(set(topics // 16))
    np.testing.assert_array_equal(d.own[48 * len(topics) : 48 * len(topics) + 256], 0)


def test_shares_by_row():
    d = Document(20, 21, False, 5)
    d.fill(np.arange(21))
    tiles.iterate(20, 21, 4, True, d.places)
    tiles.shares(21, d.kept, d.t, d.x, d.z, 1, d.acc)
    w = np.where(chosen(d.weights(), 4), d.weights(), 0)
    want = (d.x[:20, None] * w / w.sum(1, keepdims=True))[16:]
    np.testing.assert_allclose(d.acc[: 16 * 32].reshape(16, 32)[:4, :21], want, rtol=1e-5)
