"""What a visit writes and the end of a pass, made for tests that call an engine directly."""

from __future__ import annotations

import numpy as np

from topicstream.engines.base import BlockShape, Key, Out, PassEnd, Phase, Scratch, new_stats


def out_for(engine, block, delta, scratch=None):
    """Where a visit of ``block`` writes; ``delta``: the arrays of dense deltas by name."""
    shape = BlockShape.measure(block)
    state = {name: np.empty(spec.shape(shape), spec.dtype) for name, spec in engine.state.items()}
    return Out(delta, state, new_stats(engine), engine, shape, scratch or Scratch())


def unwritten(block, width):
    """An uninitialised delta of ``phi``: NaN, so that what is not written shows."""
    return {"phi": np.full((block.n_words, width), np.nan, np.float32)}


def pass_end(params, stats, totals, tables=None, number=1, say=lambda line: None):
    """The end of a pass with these sums."""
    return PassEnd(Key(0, number), Phase(), params, stats, totals, tables or {}, say)


class Pieces:
    """A table that can only be read through, in these pieces of rows."""

    def __init__(self, *pieces):
        self._pieces = pieces

    def pieces(self):
        first = 0
        for rows in self._pieces:
            yield first, rows
            first += len(rows)
