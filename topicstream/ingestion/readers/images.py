"""Images as vectors: grey squares of N x N pixels on a grid, 0 to 1, without their mean (extra ``images``: Pillow).

A square without its mean has N^2 - 1 numbers: its products with the orthonormal cosines of two dimensions, but for the constant
one.  Lengths and angles are those of the pixels, so densities are too, in the space that the squares fill.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from topicstream.errors import UsageError
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.npy import names_of, vectors_run
from topicstream.kernels.cosines import cosines
from topicstream.tokens.documents import CountRun

MOST_BYTES = 256 << 20
MOST_PIXELS = 1 << 26


class Images:
    name = "images"
    kind = "counts"
    about = "images, cut into patches (--patches)"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        if not options.patches:
            raise UsageError(f"{source.name}: an image; --patches 8 cuts it into squares of 8 pixels")
        return names_of(options.patches**2 - 1)

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        source.encoding = "utf-8"  # bytes as they are
        data = source.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadFile(source.name, 0, f"an image of more than {MOST_BYTES >> 20} MB")
        yield Piece(source.name, source.key, data)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        n, rejects = int(options.patches or 0), Rejects()
        pixels = _grey(piece, rejects)
        if min(pixels.shape) < n:
            if not rejects.records:
                size = f"{pixels.shape[1]} x {pixels.shape[0]}"
                rejects.add(piece.name, 0, f"an image of {size} pixels, smaller than a patch")
            return vectors_run(np.zeros((0, n * n - 1)), piece, rejects), rejects
        step = options.stride or max(1, n // 2)
        views = np.lib.stride_tricks.sliding_window_view(pixels, (n, n))[::step, ::step]
        squares = views.reshape(-1, n * n).astype(np.float64)
        # the same bits whatever products NumPy's library makes of it in how many threads
        return vectors_run(np.einsum("dp,np->dn", squares, cosines(n)), piece, rejects), rejects


def _grey(piece: Piece, rejects: Rejects) -> np.ndarray:
    """float32[height, width] in 0..1; nothing, and a reject, where it is no image."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(f"{piece.name}: images need Pillow; pip install 'topicstream[images]'") from None
    try:
        with Image.open(io.BytesIO(piece.data)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels are too many")
            found = np.asarray(image.convert("L"), np.float32)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
        rejects.add(piece.name, 0, f"not an image that can be read ({e})")
        return np.zeros((0, 0), np.float32)
    return found / np.float32(255)


READER = Images()
