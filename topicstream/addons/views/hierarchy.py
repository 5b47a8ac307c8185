"""Topics joined step by step: their merge hierarchy, or the groups that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.base.errors import UsageError
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.base.text import wrapped
from topicstream.display import geometry
from topicstream.display.view import ModelView
from topicstream.model.topic_kinds import BACKGROUND


def tree_lines(result: dict[str, Any]) -> list[str]:
    """Draw the tree for a terminal, the root on top."""
    merges = result["merges"]
    first_merge = result["first_merge"]
    root = first_merge + len(merges) - 1 if merges else result["ids"][0]
    out: list[str] = []
    stack = [(root, "", "")]
    while stack:
        node, head, below = stack.pop()
        if node < first_merge:
            out.append(f"{head}{node} {result['labels'][str(node)]}")
            continue
        step = merges[node - first_merge]
        out.append(f"{head}┐ {step['height']:.2f}")
        stack.append((step["right"], below + "└─", below + "  "))
        stack.append((step["left"], below + "├─", below + "│ "))
    return out


def cluster_lines(result: dict[str, Any], width: int | None) -> list[str]:
    """Format the clusters as ``topics edit --merge`` takes them.

    Each has the names of its first topics.
    """
    out = []
    for cluster in result["clusters"]:
        names = "; ".join(result["labels"][str(i)] for i in cluster[:4])
        head = f"{','.join(map(str, cluster)):24} "
        # longer lists of numbers run over
        out += wrapped(head, names, width) if len(head) == 25 else [head + names]
    return out


@dataclass(frozen=True)
class TreeView(ModelView, heeds=()):
    """The hierarchy of topics."""

    title: ClassVar[str] = "Hierarchy of topics (--tree, --reduce-to)"
    tree: bool = option(False, "Print the hierarchy of topics, merge by merge.")
    reduce_to: int | None = option(
        None, "Cut the tree into N groups of topics.", min=1, metavar="N"
    )

    def result(self) -> dict[str, Json]:
        """Compute the topics' merge hierarchy and, with ``reduce_to``, its clusters.

        By Ward's linkage of Hellinger distances. A background is no topic to join, so it is left
        out.

        Returns
        -------
        dict
            ``topics`` (ids as they lie under the tree), ``labels``, ``merges`` (left, right,
            height: topics, or earlier merges, which are numbered from ``first_merge`` on), and
            ``clusters``: lists of ids, as ``topics edit --merge`` takes them.
        """
        model = self.shown.model
        joined = [k for k, kind in enumerate(model.kinds) if kind != BACKGROUND]
        ids = [self.shown.view.ids[k] for k in joined]
        names = [self.shown.names[k] for k in joined]
        sizes = model.sizes[joined]
        if self.reduce_to is not None and not 1 <= self.reduce_to <= len(ids):
            raise UsageError(f"--reduce-to {self.reduce_to}: give a number in 1..{len(ids)}")
        tree = geometry.tree(geometry.gram(model)[np.ix_(joined, joined)], sizes)
        first_merge = max(self.shown.view.ids) + 1
        numbers = np.concatenate([ids, first_merge + np.arange(len(tree.left))])
        merges = zip(
            numbers[tree.left].tolist(),
            numbers[tree.right].tolist(),
            tree.height.tolist(),
            strict=True,
        )
        out: dict[str, Any] = {
            "topics": [ids[k] for k in tree.order.tolist()],
            "labels": dict(zip(map(str, ids), names, strict=True)),
            "merges": [
                {"left": left, "right": right, "height": height} for left, right, height in merges
            ],
            "first_merge": first_merge,
            "ids": ids,
        }
        if self.reduce_to is not None:
            size = dict(zip(ids, sizes.tolist(), strict=True))
            clusters = [
                sorted((ids[k] for k in c), key=lambda i: (-size[i], i))
                for c in tree.cut(self.reduce_to)
            ]
            out["clusters"] = sorted(clusters, key=lambda c: (-sum(size[i] for i in c), c[0]))
        return out

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        return tree_lines(result) if self.reduce_to is None else cluster_lines(result, width)
