"""Belief propagation's answer, sharpened: theta_k^power, normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.base.options import option
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.bp import BP


@dataclass(frozen=True)
class SharpOptions:
    """Options of ``topics infer --method sharp``."""

    power: float = option(2.0, "Power of the shares.", min=1, show=True)


class Sharp(Method):
    """The larger the power, the fewer topics a document has."""

    name: ClassVar[str] = "sharp"
    cites: ClassVar[str] = "nobody"
    Options: ClassVar[type] = SharpOptions
    options: SharpOptions

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        self.first = BP(rows)

    def shares(self, docs: Documents) -> np.ndarray:
        shares = self.first.shares(docs) ** np.float32(self.options.power)
        return shares / shares.sum(axis=1, keepdims=True)
