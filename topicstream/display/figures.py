"""Figures by matplotlib (extra ``plot``): where they go, checked before any work, and the same
bytes for the same figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topicstream.base.errors import TopicsError, UsageError
from topicstream.base.files.outputs import check_output, written

METADATA: dict[str, Any] = {
    ".svg": {"Creator": "topicstream", "Date": None},
    ".png": {"Software": "topicstream"},
    ".pdf": {"Creator": "topicstream", "CreationDate": None},
}


class Figure:
    """A figure and its place.

    Parameters
    ----------
    path
        Where it goes: ``.svg``, ``.png`` or ``.pdf``.
    option
        What names the place, for messages.
    force
        Replace a figure of ours that is there.

    Raises
    ------
    UsageError, TopicsError, NotOurs
        Where nothing can be written there, or matplotlib is missing.
    """

    def __init__(self, path: str | Path, option: str, *, force: bool) -> None:
        self.path = Path(path)
        self._option = option
        self._force = force
        if self.path.suffix not in METADATA:
            raise UsageError(f"{option} {path}: the name must end in {', '.join(METADATA)}")
        check_output(self.path, option, force=force)
        try:
            import matplotlib
        except ImportError:
            raise TopicsError(
                f"{option} needs matplotlib: pip install 'topicstream[plot]'"
            ) from None
        matplotlib.use("Agg")
        matplotlib.rcParams.update(
            {"svg.hashsalt": "topics", "svg.fonttype": "none", "font.size": 8}
        )
        self._figure: Any = None

    def panels(self, number: int, across: int, size: tuple[float, float] = (4, 2.4)) -> list[Any]:
        """Axes of so many panels, in rows of ``across``; size: of one, in inches."""
        from matplotlib import pyplot

        across = min(across, number)
        down = -(-number // across)
        figsize = (size[0] * across, size[1] * down)
        self._figure, axes = pyplot.subplots(
            down, across, figsize=figsize, squeeze=False, layout="constrained"
        )
        for axis in axes.flat:
            axis.spines[["top", "right"]].set_visible(False)
        for axis in axes.flat[number:]:
            axis.set_axis_off()
        return list(axes.flat[:number])

    def ticks(self, axis: Any, kind: str) -> None:
        """Few ticks below a panel: at whole dates (``date``), at whole numbers (``whole``) or at
        any.
        """
        if kind == "date":
            from matplotlib import dates

            locator = dates.AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
            formatter = dates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
            axis.xaxis.set(major_locator=locator, major_formatter=formatter)
        else:
            axis.locator_params(axis="x", nbins=5, integer=kind == "whole")

    @staticmethod
    def text(text: str) -> str:
        """Text of others, in which a dollar sign begins no formula."""
        return text.replace("$", r"\$")

    def titled(self, axis: Any, title: str) -> None:
        """Put a title above a panel."""
        axis.set_title(self.text(title), loc="left", fontsize=8)

    def save(self, label: str = "", *, across: bool = False) -> None:
        """Write the figure, with a label of its vertical axes; ``across``: of its
        horizontal ones.
        """
        from matplotlib import pyplot

        (self._figure.supxlabel if across else self._figure.supylabel)(label, fontsize=8)
        with written(self.path, force=self._force, option=self._option) as file:
            self._figure.savefig(
                file, format=self.path.suffix[1:], dpi=120, metadata=METADATA[self.path.suffix]
            )
        pyplot.close(self._figure)
