"""Kernels compiled ahead of a command, in processes of their own.

The compiler leaves one to two hundred megabytes behind in the process that it ran in, which the memory limit of a command
has no room for.  So a command that would have to compile first lets other processes do a tiny job of the same kind, which
leave its kernels in the cache, and loads them from there.  Where the limit has room and there is a second processor, two do
the same job from both ends; what one compiles, the other waits for.  Such a process begins anew when it has grown to
``MOST`` bytes: with the command that waits it stays within the smallest limit that a command takes.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from topicstream import machine
from topicstream.files import owned
from topicstream.files.ownership import claim
from topicstream.kernels import cache as kernels
from topicstream.kernels import direct, lazy

PACKAGE = Path(__file__).parents[1]
INSIDE = "TOPICSTREAM_WARMING"
"""Set in a process that compiles, to how often it began: it needs no other."""
TOGETHER = "TOPICSTREAM_WARMING_TOGETHER"
"""Set in those to the folder in which they tell each other what each compiles."""
BACK = "TOPICSTREAM_WARMING_BACK"
"""Set in the one that does the job from its other end."""
MOST = 320 << 20
LEAST, ROOM = 2 * MOST, 3 * MOST
"""Memory limits with room for one and for two of them, and for what waits."""
_ROUNDS = 64


def possible(limit: int) -> bool:
    """Whether another process could compile for this one and those after it, within so many bytes."""
    alone = os.environ.get(INSIDE) or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or not sys.executable
    return not alone and limit >= LEAST and kernels.folders()[0].writable()


def prepare(job: str, sources: Sequence[str], seconds: int, say: Callable[[str], None], limit: int) -> bool:
    """See that the kernels of ``job`` are in the cache, and say whether they are; ``say`` is told before there is a wait.

    job      module (and arguments) that does a tiny job: ``python -m JOB FOLDER``, with scratch of its own, under ``leave``
    sources  folders of the package whose source its kernels follow from;  seconds: what it takes two processes, about
    limit    bytes that this process and those may take together

    Nothing is done where they are there already or nobody else could compile them (each command compiles for itself then).
    A failure is no error: what is missing is compiled when it is called.
    """
    if os.environ.get(INSIDE):
        return False
    name = f"topicstream.ready.{job.replace(' ', '.')}-{_key(tuple(sources))}.nbc"
    if any(folder.read(name) is not None for folder in kernels.folders()):
        return True
    done = possible(max(limit, LEAST)) and _compile(job.split(), seconds, say, limit)
    if done:
        kernels.folders()[0].write(name, b"ready")
    return done


@contextmanager
def elsewhere(job: Sequence[str], seconds: int, say: Callable[[str], None], limit: int) -> Iterator[None]:
    """Within, the first kernel that is missing has ``job`` done (see ``prepare``), which leaves it in the cache, and all others
    that it runs."""
    if possible(limit):
        lazy.when_missing = lambda: _compile(job, seconds, say, limit)
    try:
        yield
    finally:
        lazy.when_missing = None


def _compile(job: Sequence[str], seconds: int, say: Callable[[str], None], limit: int) -> bool:
    both = limit >= ROOM and machine.default_threads() > 1
    say(f"compiling for this machine, once (about {seconds if both else 2 * seconds} s)")
    with ExitStack() as stack:
        children = [stack.enter_context(Child(job))]
        if both:
            children.append(stack.enter_context(Child(job, children[0].folder.name)))
        return all([child.process.wait() == 0 for child in children])


class Child:
    """A process that does a job, with a folder; both are gone behind the ``with``, and when this process is killed."""

    def __init__(self, job: Sequence[str], beside: str = "") -> None:
        """``beside``: the folder of the one that does the same job, of which this one does the last part first."""
        self.folder = tempfile.TemporaryDirectory(prefix="topicstream-warm-")
        claim(self.folder.name, "scratch")
        path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", *job, self.folder.name],  # -P: nothing is imported from where the user is
            env={**os.environ, INSIDE: "1", TOGETHER: beside or self.folder.name, BACK: "1" if beside else "", "PYTHONPATH": path},
            stdin=subprocess.PIPE,  # which ends with this process, however it ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        with self.process:
            self.folder.cleanup()


@cache
def _key(sources: tuple[str, ...]) -> str:
    """What the kernels follow from, at little cost: source, libraries, processor."""
    content = hashlib.sha256(repr((direct.versions(), direct.processor())).encode())
    for folder in sources:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            content.update(f"{path.relative_to(PACKAGE)}\n".encode() + path.read_bytes())
    return content.hexdigest()[:32]


def _opened(path: str) -> int:
    with suppress(FileExistsError):
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def leave(*parts: Callable[[Path], None], folder: str) -> None:
    """Do the parts of the tiny job, or, of two processes that do it, those of the second: the last first.  The process begins
    anew when something was compiled and it has grown too large for more.  When the one that waits for it is killed, it ends
    too, and takes the folder with it."""

    held: dict[str, int] = {}

    def claim_kernel(name: str) -> bool:
        with suppress(OSError):
            held[name] = fd = _opened(f"{os.environ[TOGETHER]}/{name}")
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(fd, fcntl.LOCK_EX)
                os.close(held.pop(name))
                return True
        return False

    def kept(name: str) -> None:
        with suppress(KeyError):
            os.close(held.pop(name))
        if machine.resident_bytes() <= MOST:
            return
        gc.collect()
        machine.trim()
        if machine.resident_bytes() > MOST:
            begun = int(os.environ[INSIDE])
            if begun == _ROUNDS:
                os._exit(1)
            os.environ[INSIDE] = str(begun + 1)
            os.execv(sys.executable, sys.orig_argv)

    from topicstream.kernels import compiler

    def orphaned() -> None:
        while os.read(0, 1):
            pass
        alone.set()
        signal.pthread_kill(main, signal.SIGTERM)

    alone, main = threading.Event(), threading.get_ident()
    compiler.claim, compiler.after_save = claim_kernel, kept
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    gc.disable()  # it takes a fourth of the time; what it would free is looked at when there is too much
    try:
        threading.Thread(target=orphaned, daemon=True).start()  # within: who waits may have gone before this began
        for part in reversed(parts) if os.environ.get(BACK) else parts:
            part(Path(tempfile.mkdtemp(dir=folder)))
    finally:
        for _ in range(20 if alone.is_set() else 0):
            with suppress(OSError):  # the other may be making a claim in it
                owned.remove(folder, "scratch")
                break
            time.sleep(0.1)
