"""CVB0: belief propagation over tokens instead of cells."""

from __future__ import annotations

from dataclasses import replace

from topicstream.engines.message.dense import DenseMessages
from topicstream.engines.message.messages import TOKEN


class ZeroOrderCollapsedVariational(DenseMessages):
    """Each token's message from all others.  The tokens of a cell share one message (they differ
    only by the order of
    update), so one of the cell's x tokens is left out of the sums, which weight it by x."""

    name = "cvb0"
    cites = "Asuncion et al. 2009 via Zeng, Cheung & Liu 2013, section 2.5, eq. (23)"
    exclude = TOKEN
    about = replace(DenseMessages.about, real_cells=False)
