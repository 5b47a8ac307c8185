"""``show`` of a model of vectors: sizes and spreads of its components.

For image patches, a sheet of their first eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.clusters.images import cosines
from topicstream.addons.clusters.model import GaussianModel
from topicstream.base.errors import UsageError, show_addresses
from topicstream.base.options import option
from topicstream.base.records import Json
from topicstream.base.text import render_each
from topicstream.display.figures import Figure
from topicstream.display.view import ModelView, largest

FIRST = 8  # eigenvectors of a component on the sheet


@dataclass(frozen=True)
class ComponentsView(ModelView, heeds=("words", "topics")):
    """The components of a model of vectors."""

    title: ClassVar[str] = "A model of vectors"
    plot: str | None = option(
        None,
        "For image patches: draw the first eigenvectors of each component as .png, .svg or .pdf.",
        metavar="FILE",
    )
    force: bool = option(False, "Replace an existing figure.")

    def result(self) -> dict[str, Json]:
        """List components, the largest first, or those that the user names.

        Each has number, share, size and the standard deviations along the first eigenvectors (of
        diagonal ones: of the coordinates that vary most).
        """
        opened = GaussianModel(self.model)  # type: ignore[arg-type]
        if self.plot is not None:
            return {"plot": self.plot, "components": self._draw_sheet(opened, self.plot)}
        wrong = [k for k in self.topics or () if not 0 <= k < len(opened.pi)]
        if wrong:
            raise UsageError(f"-k {wrong[0]}: the model has components 0 to {len(opened.pi) - 1}")
        entries = []
        for k in self.topics or largest(opened.sizes, len(opened.sizes)):
            covariance = opened.covariances[k]
            values = np.sort(
                covariance if covariance.ndim == 1 else np.linalg.eigvalsh(covariance)
            )[::-1]
            entries.append(
                {
                    "component": k,
                    "share": float(opened.pi[k]),
                    "size": float(opened.sizes[k]),
                    "deviations": np.sqrt(np.maximum(values[: self.words], 0.0)).tolist(),
                    "mean_length": float(np.linalg.norm(opened.means[k])),
                }
            )
        return {
            "model": show_addresses(str(opened.path)),
            "numbers": opened.n,
            "components": entries,
        }

    def _draw_sheet(self, opened: GaussianModel, path: str) -> int:
        """Draw the first eigenvectors of image patches, and return the number of rows.

        A row a component, with number and share, the largest first.
        """
        if not opened.patches:
            raise UsageError(
                f"--plot {path}: the model's vectors are not image patches (ingest images with "
                f"--patches)"
            )
        figure = Figure(path, "--plot", force=self.force)
        n = opened.patches
        basis = cosines(opened.patches)
        columns = min(FIRST, opened.n)
        order = largest(opened.sizes, len(opened.sizes))
        page = np.full((len(order) * (n + 1) + 1, columns * (n + 1) + 1), 1.0)
        for row, k in enumerate(order):
            covariance = opened.covariances[k]
            vectors = (
                np.eye(opened.n)[np.argsort(covariance)]
                if covariance.ndim == 1
                else np.linalg.eigh(covariance)[1].T
            )
            for column, vector in enumerate(vectors[::-1][:columns]):
                pixels = (vector @ basis).reshape(n, n)
                grey = 0.5 + 0.5 * pixels / max(float(np.abs(pixels).max()), 1e-30)
                page[row * (n + 1) + 1 :, column * (n + 1) + 1 :][:n, :n] = grey
        (axis,) = figure.add_panels(
            1, across=1, size=(1 + 0.05 * page.shape[1], 0.3 + 0.05 * page.shape[0])
        )
        axis.imshow(page, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks(
            [(row + 0.5) * (n + 1) for row in range(len(order))],
            [f"{k}: {100 * opened.pi[k]:.1f} %" for k in order],
        )
        figure.save()
        return len(order)

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        if self.plot is not None:
            return [f"{self.plot}: {result['components']} components"]
        digits = len(str(max(entry["component"] for entry in result["components"])))
        about = [
            {**entry, "spread": " ".join(f"{d:.4g}" for d in entry["deviations"])}
            for entry in result["components"]
        ]
        return render_each(
            f"{{component:>{digits}}} {{share:5.1p}} %  {{size:>10,.0f}} points  |mean| "
            f"{{mean_length:.4g}}  deviations {{spread}}",
            about,
        )
