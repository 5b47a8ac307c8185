"""Kernels compiled ahead of a command, in a process of their own.

The compiler leaves one to two hundred megabytes behind in the process that it ran in, which the memory limit of a command
has no room for.  So a command that would have to compile first lets another process do a tiny job of the same kind, which
leaves its kernels in the cache, and loads them from there.  Such a process ends when it has grown to ``MOST`` bytes, and
another carries on: both together stay within the smallest limit that a command takes.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from topicstream import machine
from topicstream.files import owned
from topicstream.files.ownership import claim
from topicstream.kernels import cache as kernels
from topicstream.kernels import direct

PACKAGE = Path(__file__).parents[1]
INSIDE = "TOPICSTREAM_WARMING"
"""Set in the process that compiles: it needs no other."""
MOST = 320 << 20
AGAIN = 75  # the exit code that asks for another process
_ROUNDS = 64


def prepare(job: str, sources: Sequence[str], seconds: int, say: Callable[[str], None]) -> bool:
    """See that the kernels of ``job`` are in the cache, and say whether they are; ``say`` is told before there is a wait.

    job      module (and arguments) that does a tiny job: ``python -m JOB FOLDER``, with scratch of its own, under ``leave``
    sources  folders of the package whose source its kernels follow from;  seconds: what it takes, about

    Nothing is done where they are there already, where the cache cannot be written (each command compiles for itself then)
    or where no other process of this Python can be started.  A failure is no error: what is missing is compiled when it is
    called.
    """
    if os.environ.get(INSIDE) or not sys.executable or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    name = f"topicstream.ready.{job.replace(' ', '.')}-{_key(tuple(sources))}.nbc"
    if any(folder.read(name) is not None for folder in kernels.folders()):
        return True
    if not kernels.folders()[0].writable():
        return False
    say(f"compiling for this machine, once (about {seconds} s)")
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory(prefix="topicstream-warm-") as scratch:
            claim(scratch, "scratch")
            with subprocess.Popen(
                [sys.executable, "-P", "-m", *job.split(), scratch],  # -P: nothing is imported from where the user is
                env={**os.environ, INSIDE: "1", "PYTHONPATH": path},
                stdin=subprocess.PIPE,  # which ends with this process, however it ends
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as child:
                try:
                    code = child.wait()
                finally:  # a signal, too
                    child.kill()
        if code == 0:
            kernels.folders()[0].write(name, b"ready")
        if code != AGAIN:
            return code == 0
    return False


@cache
def _key(sources: tuple[str, ...]) -> str:
    """What the kernels follow from, at little cost: source, libraries, processor."""
    content = hashlib.sha256(repr((direct.versions(), direct.processor())).encode())
    for folder in sources:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            content.update(f"{path.relative_to(PACKAGE)}\n".encode() + path.read_bytes())
    return content.hexdigest()[:32]


def leave(job: Callable[[Path], None], folder: str) -> None:
    """Do the tiny job; exit ``AGAIN`` when something was compiled and this process has grown too large for more.  When the
    process that waits for it is killed, it ends too, and takes the folder with it."""

    def full() -> None:
        if machine.resident_bytes() > MOST:
            os._exit(AGAIN)

    from topicstream.kernels import compiler

    def orphaned() -> None:
        while os.read(0, 1):
            pass
        alone.set()
        signal.pthread_kill(main, signal.SIGTERM)

    alone, main = threading.Event(), threading.get_ident()
    compiler.after_save = full
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=orphaned, daemon=True).start()
    try:
        job(Path(folder))
    finally:
        if alone.is_set():
            owned.remove(folder, "scratch")
