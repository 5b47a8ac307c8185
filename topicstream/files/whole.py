"""Whole arrays to and from a place in a file."""

from __future__ import annotations

import os

import numpy as np

from topicstream.errors import StoreError


def write_all(fd: int, array: np.ndarray, offset: int) -> None:
    """pwrite the whole array."""
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.pwrite(fd, view[: 1 << 26], offset)
        view, offset = view[n:], offset + n


def read_all(fd: int, array: np.ndarray, offset: int, what: str) -> None:
    """pread into the whole array; StoreError when the file ends before."""
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.preadv(fd, [view[: 1 << 26]], offset)
        if n == 0:
            raise StoreError(f"{what} is shorter than recorded; start again from an older checkpoint")
        view, offset = view[n:], offset + n
