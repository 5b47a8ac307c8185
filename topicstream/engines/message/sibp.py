"""Simplified belief propagation: the same messages without the exclusion, which is smoothed PLSA by
EM.
"""

from __future__ import annotations

from topicstream.engines.message.dense import DenseMessages
from topicstream.engines.message.messages import NOTHING


class SimplifiedBeliefPropagation(DenseMessages):
    """mu ~ theta phi with smoothed sums.

    With ``--schedule sync`` a pass is one turn of the loop of the paper's Fig. 4.
    """

    name = "sibp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (21), Fig. 4"
    exclude = NOTHING
