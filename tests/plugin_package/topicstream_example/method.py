"""Belief propagation's answer, sharpened: theta_k^power, normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.bp import BP
from topicstream.options import option


@dataclass(frozen=True)
class SharpOptions:
    """What ``topics infer --method sharp`` offers beside the options of our methods."""

    power: float = option(2.0, "sharp: power of the shares", min=1)


class Sharp(Method):
    """The larger the power, the fewer topics a document has."""

    name: ClassVar[str] = "sharp"
    cites: ClassVar[str] = "nobody"
    Options: ClassVar[type | None] = SharpOptions

    def __init__(self, rows: TopicRows, *, power: float = 2.0) -> None:
        self.rows, self.power, self.first = rows, power, BP(rows)

    def shares(self, docs: Documents) -> np.ndarray:
        shares = self.first.shares(docs) ** np.float32(self.power)
        return shares / shares.sum(axis=1, keepdims=True)
