"""Images as vectors: grey squares of N x N pixels on a grid, 0 to 1, without their mean (extra ``images``: Pillow).

A square without its mean has N^2 - 1 numbers: its products with the orthonormal cosines of two dimensions, but for the constant
one.  Lengths and angles are those of the pixels, so densities are too, in the space that the squares fill.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from topicstream.errors import DoesNotFit, UsageError, one_line
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import most_records
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.npy import names_of, vectors_run
from topicstream.kernels.cosines import cosines
from topicstream.tokens.documents import CountRun

FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is read of what Pillow knows: for EPS it would run Ghostscript on a stranger's program, others it reads in part."""
MOST_BYTES = 256 << 20
MOST_PIXELS, SPARE_PIXELS, PIXELS_OF_BYTE = 1 << 26, 1 << 22, 1 << 11
"""Pixels of an image; of one of a few bytes; that a byte may stand for (formats end in blanks where their data do)."""


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
        n, step = _sides(options)
        rejects = Rejects()
        pixels = _grey(data, source, options, rejects)
        if not rejects.records and min(pixels.shape) < n:
            size = f"{pixels.shape[1]} x {pixels.shape[0]}"
            rejects.add(source.name, 0, f"an image of {size} pixels, smaller than a patch")
        if rejects.records:
            yield Piece(source.name, source.key, b"", rejects=tuple(rejects.records))
            return
        down, across = ((side - n) // step + 1 for side in pixels.shape)
        most = max(1, min(most_records(options), options.piece_bytes // (32 * n * n)))  # squares, and their numbers twice
        wide = min(across, most)
        high = max(1, most // across)
        for row in range(0, down, high):
            for column in range(0, across, wide):
                rows, columns = (slice(at * step, (min(at + size, whole) - 1) * step + n)
                                 for at, size, whole in ((row, high, down), (column, wide, across)))  # fmt: skip
                part = pixels[rows, columns]
                yield Piece(source.name, source.key, part.tobytes(), record=row * across + column, about=part.shape)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        n, step = _sides(options)
        rejects = Rejects()
        if not piece.data:
            return vectors_run(np.zeros((0, n * n - 1)), piece, rejects), rejects
        pixels = np.frombuffer(piece.data, np.uint8).reshape(piece.about).astype(np.float32) / np.float32(255)
        views = np.lib.stride_tricks.sliding_window_view(pixels, (n, n))[::step, ::step]
        squares = views.reshape(-1, n * n).astype(np.float64)
        # the same bits whatever products NumPy's library makes of it in how many threads
        return vectors_run(np.einsum("dp,np->dn", squares, cosines(n)), piece, rejects), rejects


def _sides(options: ReadOptions) -> tuple[int, int]:
    """Pixels of a square's side, and from one square to the next."""
    n = int(options.patches or 0)
    return n, options.stride or max(1, n // 2)


def _grey(data: bytes, source: Source, options: ReadOptions, rejects: Rejects) -> np.ndarray:
    """uint8[height, width]; nothing, and a reject, where it is no image."""
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(f"{source.name}: images need Pillow; pip install 'topicstream[images]'") from None
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data), formats=FORMATS) as image:
            pixels = image.width * image.height
            if pixels > min(MOST_PIXELS, SPARE_PIXELS + PIXELS_OF_BYTE * len(data)):
                raise ValueError(f"{image.width} x {image.height} pixels are too many for {len(data)} bytes")
            if options.room is not None and 6 * pixels > options.piece_bytes:
                options.room.ask(6 * pixels, f"{source.name}: an image of {image.width} x {image.height} pixels")
            return np.asarray(image.convert("L"), np.uint8)
    except (DoesNotFit, MemoryError):
        raise
    except Exception as e:  # Pillow raises whatever comes of a damaged file
        rejects.add(source.name, 0, f"not an image that can be read ({one_line(e).partition(' <')[0]})")
        return np.zeros((0, 0), np.uint8)


READER = Images()
