"""Decode buffers: used again only when nobody refers to them."""

from __future__ import annotations

import gc

import numpy as np

from tests.small_store import planted, store
from topicstream.corpus.buffers import Buffers
from topicstream.corpus.format import CELLS


def address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


def test_a_buffer_comes_back_only_when_no_view_of_it_is_left():
    buffers = Buffers()
    first = buffers.take(1, np.int32)
    assert first.shape == (CELLS,) and first.dtype == np.int32
    piece, where = first[100:200], address(first)
    del first
    assert address(buffers.take(1, np.float32)) != where  # the piece is still there
    del piece
    gc.collect()
    assert address(buffers.take(1, np.float32)) == where
    assert buffers.take(3, np.uint32).shape == (3 * CELLS,)
    held = buffers.take(1, np.uint32)
    buffers.release()
    held[:] = 7
    assert (buffers.take(1, np.uint32) is not held) and (held == 7).all()


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
