"""``topics show --sizes``: the topics by their shares of the tokens, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from topicstream.base.options import option
from topicstream.base.text import render_each
from topicstream.display.view import ModelView, largest


@dataclass(frozen=True)
class Sizes(ModelView, heeds=("words",)):
    """Sizes of topics."""

    title: ClassVar[str] = "Sizes of topics (--sizes)"
    sizes: bool = option(
        False, "the topics by their shares of the tokens, as bars; -n says how many"
    )
    width: int = option(40, "characters of the longest bar", min=1, show=True)

    def result(self) -> dict[str, Any]:
        shares = self.shown.model.shares
        rows = [
            {**self.shown.entry(k), "share": float(shares[k])} for k in largest(shares, self.words)
        ]
        return {"topics": rows}

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        most = max(row["share"] for row in result["topics"])
        bars = [
            {**row, "bar": "#" * round(self.width * row["share"] / most)}
            for row in result["topics"]
        ]
        return render_each("{topic:>4} {share:5.1p} %  {bar}[ {label}]", bars)
