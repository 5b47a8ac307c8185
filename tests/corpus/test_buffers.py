"""Decode buffers: used again only when nobody refers to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.small_store import planted, store
from topicstream.corpus.format import CELLS
from topicstream.corpus.grid import Buffers


def address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


def test_a_buffer_comes_back_only_when_it_was_given_back():
    buffers = Buffers()
    first = buffers.take(1, np.int32)
    assert first.shape == (CELLS,) and first.dtype == np.int32
    where = address(first)
    assert address(buffers.take(1, np.float32)) != where
    buffers.give_back(first)
    again = buffers.take(1, np.float32)
    assert address(again) == where and again.dtype == np.float32
    assert buffers.take(3, np.uint32).shape == (3 * CELLS,)
    buffers.give_back(again)
    buffers.release()
    again[:] = 7
    other = buffers.take(1, np.float32)
    other[:] = 0
    assert (again == 7).all()


def test_many_threads_never_share_a_buffer():
    """Views are kept alive while others decode: nothing rests on reference counts."""
    buffers, wrong = Buffers(), []

    def work(number: int) -> None:
        for _ in range(50):
            held = [buffers.take(1, np.uint32) for _ in range(3)]
            views = [h[10:200] for h in held]
            for i, view in enumerate(views):
                view[:] = number * 3 + i
            del held[1]  # a buffer that is not given back is not lent again, while a view of it lives or after
            for i, view in enumerate(views):
                if (view != number * 3 + i).any():
                    wrong.append(number)
            for h in held:
                buffers.give_back(h)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not wrong


def test_a_decoded_block_gives_its_buffers_back_once(tmp_path):
    counts, _ = planted(3, 90, 40, 4)
    corpus = store(tmp_path / "c.zarr", counts, counts[:0], blocks=3)
    raw = corpus.decode(0)
    before = raw.counts.copy()
    raw.close()
    raw.close()
    again, other = corpus.decode(0), corpus.decode(0)
    assert address(again.counts) != address(other.counts)
    np.testing.assert_array_equal(again.counts, before)
    np.testing.assert_array_equal(other.counts, before)


def test_blocks_that_are_kept_keep_their_values(tmp_path):
    counts, _ = planted(3, 90, 40, 4)
    corpus = store(tmp_path / "c.zarr", counts, counts[:0], blocks=6)
    for prefetch in (0, 2):
        kept = list(corpus.blocks(grid=corpus.grid(cells=200), prefetch=prefetch))
        again = list(corpus.blocks(grid=corpus.grid(cells=200), prefetch=prefetch))
        dense = np.zeros_like(counts)
        for blocks in (kept, again):
            dense[:] = 0
            for block in blocks:
                for d in range(len(block.indptr) - 1):
                    cells = slice(block.indptr[d], block.indptr[d + 1])
                    dense[block.first_doc + d, block.vocab[block.words[cells]]] = block.counts[cells]
            np.testing.assert_array_equal(dense, counts)
