"""Inputs of scripts/campaigns/fuzz_campaign.py: a target with its seeds, and how a seed is mutated."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

NUMBERS = [b"0", b"-1", b"1", b"4294967296", b"9223372036854775808", b"99999999999999999999999", b"1e309", b"nan", b"0.5", b"",
           b"2147483647", b"2147483648", b"-9223372036854775808", b"00000000000000000000001", b"1_000"]  # fmt: skip
BYTES = [b"\x00", b"\xff", b"\n", b"\r", b"\r\n", b" ", b"\t", b'"', b"'", b",", b":", b"{", b"}", b"[", b"]", b"\\", b"<", b">", b"&",
         b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", "\u2028".encode(), "\U0001f600".encode()]  # fmt: skip


def mutate(rng: random.Random, seeds: list[bytes], words: list[bytes], most: int = 1 << 16) -> bytes:
    """A seed with one to eight changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        n = len(data)
        at = rng.randrange(n + 1)
        kind = rng.randrange(10)
        if kind == 0 and n:
            for _flip in range(rng.choice((1, 1, 2, 8))):
                data[rng.randrange(n)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + rng.choice((0, 1, 1, 4))] = rng.choice(BYTES)
        elif kind == 2:
            data[at : at + rng.choice((0, 0, 4, 12))] = rng.choice(words) if words else b""
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 8, 64, 1024))]
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            part = bytes(data[at : at + rng.choice((1, 4, 32, 256))])
            data[at:at] = part * rng.choice((1, 2, 16, 200))
        elif kind == 6:
            other = rng.choice(seeds)
            a = rng.randrange(len(other) + 1)
            data[at : at + rng.choice((0, 8, 128))] = other[a : a + rng.choice((8, 64, 512))]
        elif kind == 7:
            found = list(re.finditer(rb"-?\d+", bytes(data[: 1 << 14])))
            if found:
                where = rng.choice(found)
                data[where.start() : where.end()] = rng.choice(NUMBERS)
        elif kind == 8 and n >= 8:
            at = rng.randrange(n - 7)
            data[at : at + 4] = struct.pack(
                "<I", rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32)))
            )
        else:
            lines = bytes(data).split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            data = bytearray(b"\n".join(lines))
        del data[most:]
    return bytes(data)


# -- what is fuzzed ---------------------------------------------------------------------------------------------------
@dataclass
class Target:
    """seeds; words of the format; ``run(data, rng)`` answers or raises; ``change`` mutates in another way."""

    name: str
    seeds: list[bytes]
    words: list[bytes]
    run: Callable[[bytes, random.Random], None]
    change: Callable[[random.Random], bytes] | None = None

    def input(self, seed: int, i: int) -> tuple[bytes, random.Random]:
        """Input number i, and the random numbers for the rest of it."""
        rng = random.Random(f"{self.name} {seed} {i}")
        return (self.change(rng) if self.change else mutate(rng, self.seeds, self.words)), rng
