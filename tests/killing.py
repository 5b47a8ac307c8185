"""Runs that are killed with SIGKILL at an instant that counts what they do to the disk, not at one
of the clock.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests import ROOT

# One process forks a child a run, so that a run costs its work and not the imports.  The child
# counts what it does to
# the disk and kills itself at a chosen count, before or after the call; it reports its count and
# what it gave at the end.
DRIVER = """
import itertools, json, os, signal, sys
for warm in json.loads(sys.argv[1]):
    work(**warm)  # loads the kernels
for line in sys.stdin:
    kill_at, given = json.loads(line)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        counter = itertools.count(1)
        def counted(call):
            def wrapper(*args, **named):
                if next(counter) == kill_at:  # threads count, too, and none passes an instant \
unseen
                    try:
                        if kill_at % 2:
                            call(*args, **named)
                    finally:  # it may fail, as mkdir does where the folder is there
                        os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **named)
            return wrapper
        for name in ("fsync", "pwrite", "replace", "rename", "symlink", "unlink", "rmdir", \
"ftruncate", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            said = [work(**given), None]
        except BaseException as e:
            said = [None, repr(e)]
        os.write(write, json.dumps([next(counter) - 1, *said]).encode())
        os._exit(0)
    os.close(write)
    said = b""
    while piece := os.read(read, 65536):
        said += piece
    os.close(read)
    print(json.dumps([os.waitpid(pid, 0)[1], json.loads(said) if said else None]), flush=True)
"""


class Killable:
    """A process that runs ``work``, a function that the source text ``code`` defines, as often as
    asked, in a child each.

    warm: arguments of runs made once, beforehand.  Use it as a context.
    """

    def __init__(self, code: str, *warm: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code + DRIVER, json.dumps(warm)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __call__(self, kill_at: int = 0, **given: Any) -> tuple[bool, int, Any]:
        """(killed, count of disk operations, what ``work`` gave); kill_at 0: not at all.

        An exception in it fails.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([kill_at, given]) + "\n")
        self._process.stdin.flush()
        status, said = json.loads(self._process.stdout.readline())
        if status:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            return True, 0, None
        count, gave, failed = said
        assert failed is None, failed
        return False, count, gave

    def __enter__(self) -> Killable:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=600)
