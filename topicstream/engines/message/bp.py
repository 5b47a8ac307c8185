"""Belief propagation for latent Dirichlet allocation with dense stored messages."""

from __future__ import annotations

from topicstream.engines.message.dense import DenseMessages
from topicstream.engines.message.messages import CELL


class BeliefPropagation(DenseMessages):
    """Each cell's message from all the others: its own, weighted by its count, is taken out of
    theta, phi and lam.
    """

    name = "bp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (7), Fig. 3"
    exclude = CELL
