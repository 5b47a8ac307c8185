"""Damage to the cache of compiled kernels: every command goes on, with the same result and one line about it.

    python scripts/campaigns/cache_campaign.py [--only KIND ...]

A store is ingested with a cache of its own; then, for each kind of damage, the cache is restored, damaged and the command
run twice.  It holds when both exit 0 with the same store, the first says one line (none where nothing of the cache is lost),
and the second says nothing where the damage could be mended.  Prints a Markdown table; exit 1 when one did not hold.
Kinds that need root (another owner, a full disk of its own) are left out, and named, where the user is not root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

Change = Callable[[Path], object]
FEW = ("to_gaps", "_count_byte", "_hash")  # kernels that compile in a moment


@dataclass
class Kind:
    """``each`` damages one file (``only``: whose name holds that), ``whole`` the folder; ``says``: what the line begins with; ``mended``: by the first run."""

    each: Change | None = None
    only: str = ""
    whole: Change | None = None
    every: bool = False
    says: str = "note"
    mended: bool = True
    root: bool = False
    room: int | None = None


def flip(path: Path, at: Callable[[int], int], bits: int = 1) -> None:
    data, rng = bytearray(path.read_bytes()), random.Random(path.name)
    for _ in range(bits):
        data[at(len(data)) if bits == 1 else rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def tail_of_zeros(path: Path) -> None:
    data = path.read_bytes()
    keep = max(0, len(data) - 4096)
    path.write_bytes(data[:keep] + bytes(len(data) - keep))


def other_kernel(path: Path) -> None:
    others = [p for p in sorted(path.parent.glob("*.nbc")) if p.name != path.name]
    shutil.copy2(others[0], path)


def no_code(path: Path) -> None:
    """A file that fits its checksum and holds something else."""
    from topicstream.kernels.cache_folder import KernelFolder

    KernelFolder(path.parent).write(path.name, b"\x80\x04K\x01.")


def and_the_checksum(path: Path, change: Change) -> None:
    """The body changed, and a bit of the checksum in its head."""
    change(path)
    flip(path, lambda n: 9)


def fitting(path: Path, change: Callable[[bytes], bytes]) -> None:
    """The body changed, and the checksum made to fit."""
    from topicstream.kernels.cache_folder import HEAD, KernelFolder

    KernelFolder(path.parent).write(path.name, change(path.read_bytes()[HEAD:]))


def at_the_elf(body: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The object code changed, behind what says how to call it."""
    head = 4 + int.from_bytes(body[:4], "little")
    return body[:head] + change(body[head:])


def replaced(path: Path, by: Change) -> None:
    path.unlink()
    by(path)


def file_for_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def small_disk(folder: Path) -> None:
    """A disk of its own of 64 kB over an empty folder."""
    shutil.rmtree(folder)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "none", str(folder)], check=True)


def read_only(folder: Path) -> None:
    """An empty disk that cannot be written."""
    shutil.rmtree(folder)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k,mode=755", "none", str(folder)], check=True)


KINDS = {
    "no bytes, every file": Kind(lambda p: p.write_bytes(b""), every=True),
    "no bytes": Kind(lambda p: p.write_bytes(b"")),
    "one byte": Kind(lambda p: p.write_bytes(p.read_bytes()[:1])),
    "cut in the head": Kind(lambda p: p.write_bytes(p.read_bytes()[:9])),
    "cut behind the head": Kind(lambda p: p.write_bytes(p.read_bytes()[:16])),
    "cut in half": Kind(lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2])),
    "last byte lost": Kind(lambda p: p.write_bytes(p.read_bytes()[:-1])),
    "a byte more": Kind(lambda p: p.write_bytes(p.read_bytes() + b"\n")),
    "zeros": Kind(lambda p: p.write_bytes(bytes(p.stat().st_size))),
    "last page zeros": Kind(tail_of_zeros),
    "a bit of the magic": Kind(lambda p: flip(p, lambda n: 3)),
    "a bit of the checksum": Kind(lambda p: flip(p, lambda n: 9)),
    "a bit of the pickle's head": Kind(lambda p: flip(p, lambda n: 17)),
    "a bit in the middle": Kind(lambda p: flip(p, lambda n: n // 2)),
    "the last bit": Kind(lambda p: flip(p, lambda n: n - 1)),
    "a thousand bits, every file": Kind(lambda p: flip(p, lambda n: 0, 1000), every=True),
    "another kernel's file": Kind(other_kernel),
    "a fitting checksum, no code": Kind(no_code),
    "object code lost": Kind(lambda p: p.unlink(), only=".code-", says=""),
    "object code, every file lost": Kind(lambda p: p.unlink(), only=".code-", every=True, says=""),
    "object code, cut in half": Kind(lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), only=".code-"),
    "object code, a bit in the middle": Kind(lambda p: flip(p, lambda n: n // 2), only=".code-"),
    "object code cut, and a bit of the checksum": Kind(
        lambda p: and_the_checksum(p, lambda q: q.write_bytes(q.read_bytes()[:-99])), only=".code-"
    ),
    "object code, a bit, and a bit of the checksum": Kind(
        lambda p: and_the_checksum(p, lambda q: flip(q, lambda n: n // 2)), only=".code-"
    ),
    "object code of no bytes, a fitting checksum": Kind(lambda p: fitting(p, lambda b: b""), only=".code-", says=""),
    "object code of one byte, a fitting checksum": Kind(lambda p: fitting(p, lambda b: b"{"), only=".code-"),
    "no object code behind the head, a fitting checksum": Kind(
        lambda p: fitting(p, lambda b: at_the_elf(b, lambda e: b"")), only=".code-"
    ),
    "object code cut in half, a fitting checksum": Kind(
        lambda p: fitting(p, lambda b: at_the_elf(b, lambda e: e[: len(e) // 2])), only=".code-"
    ),
    "numba's half lost": Kind(lambda p: p.unlink(), only="!.code-", says=""),
    "object code that others may write": Kind(lambda p: p.chmod(0o666), only=".code-"),
    "object code that a group may write": Kind(
        lambda p: (os.chown(p, -1, 12345), p.chmod(0o664)), only=".code-", root=True
    ),
    "another user's object code": Kind(lambda p: os.chown(p, 12345, -1), only=".code-", root=True),
    "a folder that a group may write": Kind(
        whole=lambda p: (os.chown(p, -1, 12345), p.chmod(0o775)), says="warning", mended=False, root=True
    ),
    "text": Kind(lambda p: p.write_text("not code\n" * 100)),
    "a folder in its place": Kind(lambda p: replaced(p, lambda q: q.mkdir())),
    "a fifo in its place": Kind(lambda p: replaced(p, os.mkfifo)),
    "a dangling link": Kind(lambda p: replaced(p, lambda q: q.symlink_to("nowhere"))),
    "a link to /dev/zero": Kind(lambda p: replaced(p, lambda q: q.symlink_to("/dev/zero"))),
    "a file that others may write": Kind(lambda p: p.chmod(0o666)),
    "files gone": Kind(lambda p: p.unlink(), says=""),
    "folder gone": Kind(whole=shutil.rmtree, says=""),
    "a file in the folder's place": Kind(whole=file_for_folder, says="warning", mended=False),
    "a folder that others may write": Kind(whole=lambda p: p.chmod(0o777), says="warning", mended=False),
    "a folder above that others may write": Kind(whole=lambda p: p.parent.chmod(0o777), says="warning", mended=False),
    "no room (limit on a file's size)": Kind(
        lambda p: p.unlink(), every=True, says="warning", mended=False, room=1 << 16
    ),
    "another user's file": Kind(lambda p: os.chown(p, 12345, -1), root=True),
    "another user's folder": Kind(whole=lambda p: os.chown(p, 12345, -1), says="warning", mended=False, root=True),
    "a full disk": Kind(whole=small_disk, says="warning", mended=False, root=True),
    "a disk that cannot be written": Kind(whole=read_only, says="warning", mended=False, root=True),
}


def ingest(place: Path, room: int | None = None) -> tuple[int, list[str], str]:
    """Exit code, lines about the cache, fingerprint of the store."""
    out = place / "store.zarr"
    command = [sys.executable, "-m", "topicstream.cli.main", "ingest", str(place / "in.ldac"), "--format", "ldac", "--out",
               str(out), "--min-df", "1", "--heldout", "0", "--force", "-q"]  # fmt: skip

    def limit() -> None:
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    # compiled within the command: the process ahead of it would compile what other formats need, too
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(place / "cache"), "TOPICSTREAM_WARMING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=limit, timeout=600)
    lines = [line for line in done.stderr.splitlines() if "cache" in line or "kernels" in line]
    mark = json.loads((out / "manifest.json").read_text())["fingerprint"] if done.returncode == 0 else ""
    if done.returncode != 0:
        lines.append(done.stderr.strip()[-200:])
    return done.returncode, lines, mark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="kinds whose name begins so")
    parser.add_argument(
        "--begin", type=Path, help="a cache (NUMBA_CACHE_DIR) to begin with: nothing is compiled at first"
    )
    args = parser.parse_args()
    rows, failed, left_out = [], 0, []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "in.ldac").write_text("3 0:1 1:2 2:1\n2 0:1 2:4\n" * 20)
        folder = place / "cache" / "topicstream" / "kernels"
        if args.begin is not None:
            folder.mkdir(parents=True)
            for path in (args.begin / "topicstream" / "kernels").glob(
                "topicstream.[ckit]*.nbc"
            ):  # corpus, kernels, ingestion, tokens
                if "inference" not in path.name and "training" not in path.name:
                    shutil.copy(path, folder)
        code, lines, wanted = ingest(place)
        if code != 0 or lines or not list(folder.glob("*.nbc")):
            raise SystemExit(f"the first run does not work: {lines}")
        shutil.copytree(place / "cache", place / "whole", symlinks=True)
        for name, kind in KINDS.items():
            if args.only and not any(name.startswith(o) for o in args.only):
                continue
            if kind.root and os.geteuid() != 0:
                left_out.append(name)
                continue
            shutil.rmtree(place / "cache", ignore_errors=True)
            shutil.copytree(place / "whole", place / "cache")
            if kind.each is not None:
                for path in sorted(folder.glob("*.nbc")):
                    chosen = kind.every or any(f".{few}-" in path.name or f".{few}.code-" in path.name for few in FEW)
                    if chosen and (kind.only.lstrip("!") in path.name) != kind.only.startswith("!"):
                        kind.each(path)
            began, held = time.monotonic(), False
            try:
                if kind.whole is not None:
                    kind.whole(folder)
                first = ingest(place, kind.room)
                again = ingest(place, kind.room)
                held = first[0] == again[0] == 0 and first[2] == again[2] == wanted
                held = held and [f"topics: {kind.says}:" in line for line in first[1]] == [True] * bool(kind.says)
                held = held and (not again[1] if kind.mended else len(again[1]) == 1)
                told = (first[1] or ["nothing"])[0].replace(str(place), "")[:110]
            except (OSError, subprocess.SubprocessError) as e:
                told = f"{type(e).__name__}: {e}"
            finally:
                if "disk" in name:
                    subprocess.run(["umount", str(folder)], check=False, capture_output=True)
            failed += not held
            rows.append([name, "goes on" if held else "FAILED", told, f"{time.monotonic() - began:.1f}"])
            print("| " + " | ".join(rows[-1]) + " |", file=sys.stderr, flush=True)
    heading(
        "Damage to the kernel cache", f"{len(rows)} kinds, {failed} failed.  Left out: {', '.join(left_out) or 'none'}."
    )
    table(["damage", "outcome", "the first run says", "seconds of both"], rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
