"""kill -9 at random instants (of what is done to the disk) of a retrain cycle, then again: the same published model, and
``current`` is whole at every moment in between.  TOPICS_KILLS sets how many instants (default 8)."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.retrain_tools import folder, made, write
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel
from topicstream.retrain.align import read_ids

ROOT = Path(__file__).resolve().parents[1]
KILLS = int(os.environ.get("TOPICS_KILLS", "8"))

# One process forks a child a cycle, so that a cycle costs its work and not the imports.  The child counts what it does to
# the disk and kills itself with SIGKILL at a chosen count, before or after the call; it reports its count at the end.
DRIVER = """
import io, json, os, signal, sys
from topicstream.retrain.cycle import retrain
for warm in sys.argv[1:]:
    retrain(warm, stream=io.StringIO())  # loads the kernels
for line in sys.stdin:
    job = json.loads(line)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        count = 0
        def counted(call):
            def wrapper(*args, **named):
                global count
                count += 1
                if count == job["kill_at"]:
                    if count % 2:
                        call(*args, **named)
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **named)
            return wrapper
        for name in ("fsync", "pwrite", "replace", "rename", "symlink", "unlink", "rmdir", "ftruncate", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            found = retrain(job["config"], stream=io.StringIO())
            os.write(write, json.dumps([count, found]).encode())
        except BaseException as e:
            os.write(write, json.dumps([count, repr(e)]).encode())
        os._exit(0)
    os.close(write)
    said = b""
    while piece := os.read(read, 65536):
        said += piece
    os.close(read)
    print(json.dumps([os.waitpid(pid, 0)[1], json.loads(said) if said else None]), flush=True)
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A folder with one version and new, changed files waiting."""
    place = tmp_path_factory.mktemp("before")
    config = folder(place)
    first = tmp_path_factory.mktemp("warm")
    warm = folder(first)
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(config), str(warm)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip

    def cycle(config, kill_at=0):
        """(killed, count of disk operations, summary)."""
        process.stdin.write(json.dumps({"config": str(config), "kill_at": kill_at}) + "\n")
        process.stdin.flush()
        status, said = json.loads(process.stdout.readline())
        if status:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            return True, 0, None
        assert isinstance(said[1], dict), said[1]
        return False, said[0], said[1]

    assert cycle(config)[2]["decision"] == "nothing"
    write(place / "raw" / "b.jsonl", made(60, seed=2, prefix="e"))
    yield place, cycle
    process.stdin.close()
    process.wait(timeout=30)


class Reader(threading.Thread):
    """Opens ``current`` and reads all of it, again and again."""

    def __init__(self, link: Path) -> None:
        super().__init__()
        self.link, self.wanted, self.reads = link, True, 0
        self.hashes: set[str] = set()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        while self.wanted:
            try:
                self.hashes.add(TopicModel.open(self.link, memory_limit=0).content_hash())
                self.reads += 1
            except BaseException as e:
                self.errors.append(e)
                return


def result(place: Path):
    model = TopicModel.open(place / "current")
    state = json.loads((place / "state.json").read_text())
    return (
        model.content_hash(),
        read_ids(place / "current", 4),
        Corpus.open(place / "corpus.zarr").fingerprint,
        state["files"],
    )


def left_over(place: Path) -> list[str]:
    names = {"retrain.toml", "raw", "corpus.zarr", "versions", "runs", "current", "state.json", ".lock"}
    return sorted({p.name for p in place.iterdir()} - names)


def test_killed_at_random_instants_of_an_update(before, tmp_path):
    place, cycle = before
    shutil.copytree(place, tmp_path / "whole", symlinks=True)
    old = TopicModel.open(place / "current").content_hash()
    _, count, done = cycle(tmp_path / "whole" / "retrain.toml")
    assert (done["decision"], done["published"], done["training"]) == ("update", 2, "carried")
    expected = result(tmp_path / "whole")
    rng = random.Random(int(os.environ.get("TOPICS_SEED", "17")))
    kills = copies = 0
    while kills < KILLS:
        home = tmp_path / f"{copies}"
        shutil.copytree(place, home, symlinks=True)
        copies += 1
        reader = Reader(home / "current")
        reader.start()
        try:
            for k in range(2):
                killed, _, _ = cycle(home / "retrain.toml", kill_at=rng.randint(1, count if k == 0 else count // 2))
                if not killed:
                    break
                kills += 1
                assert TopicModel.open(home / "current").content_hash() in (old, expected[0])
            cycle(home / "retrain.toml")
        finally:
            reader.wanted = False
            reader.join()
        assert not reader.errors, reader.errors
        assert reader.reads > 0 and reader.hashes <= {old, expected[0]}
        assert result(home) == expected
        assert left_over(home) == []
        assert sorted(p.name for p in (home / "versions").iterdir()) == ["0001", "0002"]
        assert cycle(home / "retrain.toml")[2]["decision"] == "nothing"
        shutil.rmtree(home)


def test_killed_in_the_first_cycle(before, tmp_path):
    _, cycle = before
    folder(tmp_path / "whole")
    _, count, done = cycle(tmp_path / "whole" / "retrain.toml")
    assert done["published"] == 1
    expected = result(tmp_path / "whole")
    rng = random.Random(3)
    for i in range(max(3, KILLS // 3)):
        config = folder(tmp_path / f"{i}")
        # the same times as the whole one's raw files: the state lists them
        for path in (tmp_path / "whole" / "raw").iterdir():
            shutil.copystat(path, tmp_path / f"{i}" / "raw" / path.name)
        cycle(config, kill_at=rng.randint(1, count))
        if (tmp_path / f"{i}" / "current").is_symlink():
            assert TopicModel.open(tmp_path / f"{i}" / "current").content_hash() == expected[0]
        cycle(config)
        assert result(tmp_path / f"{i}") == expected
        assert left_over(tmp_path / f"{i}") == []
