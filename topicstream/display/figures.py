"""Figures drawn by matplotlib (extra ``plot``), the same bytes for the same data."""

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
    """A figure and the file that it is saved to.

    The file is checked when the object is made, before any work is done for the figure.

    Parameters
    ----------
    path
        The file, a ``.svg``, ``.png`` or ``.pdf``.
    option
        The option that names the file, for messages.
    force
        Replace an earlier figure.

    Raises
    ------
    UsageError, NotOurs
        If the file cannot be written.
    TopicsError
        If matplotlib is missing.
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

    def add_panels(
        self, number: int, across: int, size: tuple[float, float] = (4, 2.4)
    ) -> list[Any]:
        """Add ``number`` panels in rows of ``across``, and return their axes.

        Parameters
        ----------
        number, across
            Panels in all and in a row.
        size
            Width and height of a panel, in inches.
        """
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

    def set_ticks(self, axis: Any, kind: str) -> None:
        """Put a few ticks below a panel.

        Parameters
        ----------
        axis
            The panel.
        kind
            ``date``: at whole dates. ``whole``: at whole numbers. Any other: at any number.
        """
        if kind == "date":
            from matplotlib import dates

            locator = dates.AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
            formatter = dates.ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
            axis.xaxis.set(major_locator=locator, major_formatter=formatter)
        else:
            axis.locator_params(axis="x", nbins=5, integer=kind == "whole")

    @staticmethod
    def escape_formulas(text: str) -> str:
        """Escape dollar signs, which begin a formula."""
        return text.replace("$", r"\$")

    def set_title(self, axis: Any, title: str) -> None:
        """Put a title above a panel."""
        axis.set_title(self.escape_formulas(title), loc="left", fontsize=8)

    def save(self, label: str = "", *, across: bool = False) -> None:
        """Write the figure, its vertical axes (``across``: the horizontal ones) labelled."""
        from matplotlib import pyplot

        set_label = self._figure.supxlabel if across else self._figure.supylabel
        set_label(label, fontsize=8)
        with written(self.path, force=self._force, option=self._option) as file:
            self._figure.savefig(
                file, format=self.path.suffix[1:], dpi=120, metadata=METADATA[self.path.suffix]
            )
        pyplot.close(self._figure)
