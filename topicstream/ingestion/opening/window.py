"""Bytes of history that the decoder of a compressed file keeps in memory, by the file's first bytes.

xz: The .xz File Format 1.2.1, sections 3.1 (block header) and 5.3.1 (LZMA2); zstd: RFC 8878, section 3.1.1.1.
"""

from __future__ import annotations

HEADER = 64
"""First bytes that are looked at."""
UNASKED = 16 << 20
"""What is kept without asking the memory limit: xz -7, zstd -21."""
MOST = 128 << 20
"""What is kept where there is no limit to ask, and all that Arrow lets zstd keep."""


def window_of(kind: str, head: bytes) -> int:
    """Bytes, 0 where the head says nothing of it; ``kind``: xz or zst."""
    try:
        return _xz(head) if kind == "xz" else _zstd(head) if kind == "zst" else 0
    except IndexError:  # cut short
        return 0


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, and where the next begins."""
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _xz(head: bytes) -> int:
    flags, at, found = head[13], 14, 0
    for bit in (0x40, 0x80):  # compressed and uncompressed size
        if flags & bit:
            at = _number(head, at)[1]
    for _ in range((flags & 3) + 1):
        kind, at = _number(head, at)
        size, at = _number(head, at)
        if kind == 0x21 and size == 1:
            bits = head[at]
            found = max(found, 0xFFFFFFFF if bits >= 40 else (2 | bits & 1) << (bits // 2 + 11))
        at += size
    return found


def _zstd(head: bytes) -> int:
    about = head[4]
    if not about & 0x20:
        base = 1 << (10 + (head[5] >> 3))
        return base + base // 8 * (head[5] & 7)
    at = 5 + (0, 1, 2, 4)[about & 3]  # one segment: the whole content, whose size stands behind the dictionary's id
    size = (1, 2, 4, 8)[about >> 6]
    return int.from_bytes(head[at : at + size], "little") + (256 if size == 2 else 0)
