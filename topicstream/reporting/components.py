"""``show`` of a model of vectors: sizes and spreads of its components; of image patches, a sheet of their first eigenvectors."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import UsageError
from topicstream.files.outputs import written
from topicstream.kernels.cosines import cosines
from topicstream.model.gaussians import GaussianModel

FIRST = 8  # eigenvectors of a component on the sheet


def show_components(model: str | Path, *, words: int = 4, topics: list[int] | None = None) -> dict[str, Any]:
    """Components, the largest first, or those asked for: number, share, size, standard deviations along the first
    eigenvectors (of diagonal ones: of the coordinates that vary most)."""
    opened = GaussianModel(model)
    if wrong := [k for k in topics or () if not 0 <= k < len(opened.pi)]:
        raise UsageError(f"-k {wrong[0]}: the model has components 0 to {len(opened.pi) - 1}")
    order = topics if topics else np.argsort(-opened.sizes, kind="stable").tolist()
    entries = []
    for k in order:
        found = opened.covariances[k]
        values = np.sort(found if found.ndim == 1 else np.linalg.eigvalsh(found))[::-1]
        entries.append(
            {
                "component": int(k),
                "share": float(opened.pi[k]),
                "size": float(opened.sizes[k]),
                "deviations": np.sqrt(np.maximum(values[:words], 0.0)).tolist(),
                "mean_length": float(np.linalg.norm(opened.means[k])),
            }
        )
    return {"model": str(opened.path), "numbers": opened.n, "components": entries}


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    wide = len(str(max(e["component"] for e in result["components"])))
    return [
        f"{e['component']:>{wide}} {100 * e['share']:5.1f} %  {e['size']:>10,.0f} points  |mean| {e['mean_length']:.4g}  "
        f"deviations {' '.join(f'{d:.4g}' for d in e['deviations'])}"
        for e in result["components"]
    ]


def sheet(model: str | Path, path: str | Path, *, force: bool = False) -> int:
    """Write the first eigenvectors of every component of image patches as a grey .png or .svg (with the components' numbers
    and shares), a row a component, the largest first; how many rows."""
    opened, target = GaussianModel(model), Path(path)
    if not opened.patches:
        raise UsageError(f"--plot {path}: the model's vectors are no image patches (ingest images with --patches)")
    if target.suffix not in (".png", ".svg"):
        raise UsageError(f"--plot {path}: the sheet of a model of patches is a .png or an .svg")
    n, basis = opened.patches, cosines(opened.patches)
    order, many = np.argsort(-opened.sizes, kind="stable"), min(FIRST, opened.n)
    page = np.full((len(order) * (n + 1) + 1, many * (n + 1) + 1), 255, np.uint8)
    for row, k in enumerate(order.tolist()):
        found = opened.covariances[k]
        vectors = np.eye(opened.n)[np.argsort(found)] if found.ndim == 1 else np.linalg.eigh(found)[1].T
        for column, vector in enumerate(vectors[::-1][:many]):
            pixels = (vector @ basis).reshape(n, n)
            grey = 127.5 + 127.5 * pixels / max(float(np.abs(pixels).max()), 1e-30)
            page[row * (n + 1) + 1 :, column * (n + 1) + 1 :][:n, :n] = grey.round().astype(np.uint8)
    with written(target, force=force, option="--plot", inputs=[opened.path]) as f:
        if target.suffix == ".png":
            f.write(png(np.kron(page, np.ones((4, 4), np.uint8))))
        else:
            f.write(svg(page, [f"{k}: {100 * opened.pi[k]:.1f} %" for k in order.tolist()]).encode())
    return len(order)


def svg(page: np.ndarray, titles: list[str]) -> str:
    """A grey page with a title beside each row of it."""
    (height, width), data = page.shape, base64.b64encode(png(page)).decode()
    step, left, scale = (height - 1) / len(titles), 24, 4
    texts = "".join(
        f'<text x="{left - 1}" y="{row * step + 0.5 * step + 1.5:.2f}">{title}</text>'
        for row, title in enumerate(titles)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scale * (left + width)}" height="{scale * height}" '
        f'viewBox="0 0 {left + width} {height}" font-family="sans-serif" font-size="4" text-anchor="end">{texts}'
        f'<image x="{left}" width="{width}" height="{height}" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/></svg>\n'
    )


def png(pixels: np.ndarray) -> bytes:
    """uint8[height, width] as a grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
