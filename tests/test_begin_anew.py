"""A first `topics train` compiles, and goes on in a process that never held the compiler's memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests.planted import draw, store
from topicstream.errors import Busy, DoesNotFit
from topicstream.files.durable import lock
from topicstream.progress import Shown as Progress
from topicstream.training.loop import train

pytestmark = pytest.mark.slow

PROGRAM = """
import atexit, sys
from topicstream.cli.main import main
atexit.register(lambda: print("with the compiler" if "numba" in sys.modules else "without it"))
main()
"""


@pytest.mark.parametrize("cache", ["empty", "small", "none"])
def test_compiles_once_and_ends(cache, tmp_path):
    """In other processes; by itself, where there is no room for those, and goes on in the same process begun anew; and by itself
    all along where nothing can be kept."""
    _, indptr, words, counts = draw(docs=60, words=80, topics=3, length=40, seed=2)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 80)
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache") if cache != "none" else "/proc/nowhere"
    command = [sys.executable, "-c", PROGRAM, "train", "--mem-limit", "600M" if cache == "small" else "2G", "--corpus", str(corpus), "--model", str(tmp_path / "m"),
               "--algo", "atbp", "-K", "3", "--passes", "2", "--tol", "0", "--threads", "1"]  # fmt: skip
    first = subprocess.run(command, env=env, capture_output=True, text=True)
    assert first.returncode == 0 and "2 passes" in first.stdout, first.stderr
    said = "compiling for this machine, once (about" if cache == "empty" else "compiled in"  # there: by others
    assert first.stderr.count(said) == first.stderr.count("memory plan:") == 1
    assert first.stdout.splitlines()[-1] == ("with the compiler" if cache == "none" else "without it")
    if cache != "none":
        again = subprocess.run([*command, "--force"], env=env, capture_output=True, text=True)
        assert again.returncode == 0 and "compil" not in again.stderr


def test_a_refusal_leaves_nothing_and_takes_nothing(tmp_path):
    _, indptr, words, counts = draw(docs=60, words=80, topics=3, length=40, seed=2)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 80)
    refused = {"algo": "atbp", "topics": 3, "mem_limit": "20M", "progress": Progress(-1)}
    for algo in ("atbp", "auto"):
        with pytest.raises(DoesNotFit):
            train(corpus, tmp_path / "new" / "model", **refused | {"algo": algo})
        assert list((tmp_path / "new").iterdir()) == []
    mine = tmp_path / "model"
    train(corpus, mine, algo="atbp", topics=3, passes=2, tol=0.0, progress=Progress(-1))

    def files() -> dict[str, bytes]:
        return {str(p.relative_to(mine)): p.read_bytes() for p in mine.rglob("*") if p.is_file()}

    before = files()
    with pytest.raises(DoesNotFit):
        train(corpus, mine, force=True, **refused)
    assert files() == before and any(name.startswith("checkpoints") for name in before)


def test_a_lock_that_was_removed_is_taken_anew(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    with pytest.raises(RuntimeError), lock(folder, "testing"):
        raise RuntimeError
    assert list(folder.iterdir()) == []  # it was here before
    held, free = threading.Event(), threading.Event()

    def first() -> None:
        with lock(folder, "testing"):
            held.set()
            free.wait(300)
            (folder / ".lock").unlink()  # as a refusal does, before its lock is let go

    other = threading.Thread(target=first)
    other.start()
    assert held.wait(300)
    with pytest.raises(Busy), lock(folder, "testing"):
        pass
    free.set()
    with lock(folder, "testing", wait=True), pytest.raises(Busy), lock(folder, "testing"):
        pass
    other.join()
