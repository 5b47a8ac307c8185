"""The reader of images: grey squares of N x N pixels, without their mean.

They lie on a grid, and pixels are 0 to 1. It needs the extra ``images`` (Pillow).

A square without its mean has N^2 - 1 numbers: its products with the orthonormal cosines of two
dimensions, but for the constant one. Lengths and angles are those of the pixels, so densities are
too, in the space that the squares fill.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from functools import cache

import numpy as np
import pyarrow as pa

from topicstream.base.errors import DoesNotFit, UsageError, one_line
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.vectors import coordinate_names, rows_at_once, vector_batch

FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are read. Pillow knows more, but runs Ghostscript on EPS and reads some in part."""
MOST_BYTES = 256 << 20
MOST_PIXELS = 1 << 26


class Images(Reader):
    """Reader of images, which it cuts into patches: a dense row a patch."""

    name = "images"
    kind = "counts"
    about = "images, cut into patches (--patches)"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        if not options.patches:
            raise UsageError(
                f"{source.name}: is an image; --patches 8 cuts it into squares of 8 x 8 pixels"
            )
        n = options.patches
        source.words = coordinate_names(options.patches**2 - 1)
        step = options.stride or max(1, n // 2)
        try:
            pixels = _read_grey(source, options)
        except ImportError:
            raise UsageError(
                f"{source.name}: images need Pillow; pip install 'topicstream[images]'"
            ) from None
        except (DoesNotFit, BadFile, MemoryError):
            raise
        except Exception as e:  # Pillow raises whatever comes of a damaged file
            source.reject(0, f"not an image that can be read ({one_line(e).partition(' <')[0]})")
            return
        if min(pixels.shape) < n:
            source.reject(
                0, f"an image of {pixels.shape[1]} x {pixels.shape[0]} pixels, smaller than a patch"
            )
            return
        views = np.lib.stride_tricks.sliding_window_view(pixels, (n, n))[::step, ::step]
        down, across = views.shape[:2]
        most = rows_at_once(options, n * n)
        for first in range(0, down * across, most):
            numbers = np.arange(first, min(first + most, down * across))
            squares = views[numbers // across, numbers % across].reshape(-1, n * n).astype(
                np.float32
            ) / np.float32(255)
            # the same bits whatever products NumPy's library makes of it in how many threads
            x = np.einsum("dp,np->dn", squares.astype(np.float64), cosines(n))
            yield vector_batch(source, x, numbers)


def _read_grey(source: Source, options: ReadOptions) -> np.ndarray:
    """Read grey pixels from 0 to 255, uint8[height, width], or float32 of an image of 16 bits.

    Raises
    ------
    Exception
        Any error of Pillow.
    """
    from PIL import Image  # optional

    data = source.as_bytes().read(MOST_BYTES)
    with (
        warnings.catch_warnings(action="ignore"),
        Image.open(io.BytesIO(data), formats=FORMATS) as image,
    ):
        pixels = image.width * image.height
        if pixels > MOST_PIXELS:
            raise ValueError(f"{image.width} x {image.height} pixels are too many")
        if options.room is not None and 6 * pixels > options.piece_bytes:
            options.room.check(
                6 * pixels, f"{source.name}: an image of {image.width} x {image.height} pixels"
            )
        if image.mode in ("I", "F"):
            raise ValueError(
                "pixels of 32 bits, whose range is not known; save it with 8 or 16 bits"
            )
        # as microscopes write them; Pillow would cut them off at 255
        if image.mode.startswith("I;16"):
            return np.asarray(image, np.float32) / np.float32(257)
        return np.asarray(image.convert("L"), np.uint8)


@cache
def cosines(n: int) -> np.ndarray:
    """Build the basis of patches, float64[n^2 - 1, n^2].

    Orthonormal cosines of two dimensions (DCT-II) over n x n pixels, without the constant.
    """
    k = np.arange(n)
    cosine = np.cos(np.pi * (k[None, :] + 0.5) * k[:, None] / n) * np.sqrt(2.0 / n)
    cosine[0] /= np.sqrt(2.0)
    basis = np.kron(cosine, cosine)[1:]
    basis.flags.writeable = False
    return basis


READER = Images()
