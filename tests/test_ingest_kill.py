"""kill -9 at random instants (of what is done to the disk), then the same command again: the same bytes as an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import topicstream
from tests.ingest_tools import cells_by_id, digest, documents, write_jsonl
from topicstream.errors import InputError

ROOT = Path(__file__).resolve().parents[1]

# One process forks a child a run, so that a run costs its work and not the imports.  The child counts what it does to
# the disk and kills itself with SIGKILL at a chosen count, before or after the call; it reports its count at the end.
DRIVER = """
import json, os, signal, sys
import topicstream.ingest.pipeline as p
p.ingest(sys.argv[1:2], sys.argv[2])  # loads the kernels
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
        for name in ("fsync", "pwrite", "replace", "unlink", "rmdir", "ftruncate", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        p.ingest(job["paths"], job["out"], **job["options"])
        os.write(write, b"%d" % count)
        os._exit(0)
    os.close(write)
    said = os.read(read, 100)
    os.close(read)
    print(json.dumps([os.waitpid(pid, 0)[1], int(said or 0)]), flush=True)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    warm = [str(write_jsonl(folder / "a.jsonl", documents(50))), str(folder / "c.zarr")]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *warm], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )

    def run(paths, out, kill_at=0, **options):
        """(killed, count of disk operations)."""
        job = {"paths": paths, "out": str(out), "options": options, "kill_at": kill_at}
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        status, count = json.loads(process.stdout.readline())
        if status:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return bool(status), count

    yield run
    process.stdin.close()
    process.wait(timeout=30)


OPTIONS = {"workers": 2, "min_df": 2, "piece_bytes": 1 << 15, "checkpoint_bytes": 1 << 17, "stopwords": "none"}


def test_killed_at_random_instants_then_resumed(tmp_path, driver):
    docs = documents(1500, seed=7)
    docs += [{**d, "text": "changed " + d["text"]} for d in docs[50:90]]
    source = [str(write_jsonl(tmp_path / "a.jsonl", docs))]
    _, count = driver(source, tmp_path / "whole.zarr", **OPTIONS)
    expected = digest(tmp_path / "whole.zarr")
    rng = random.Random(11)
    kills = stores = resumed = 0
    while kills < 20:
        out, wip = tmp_path / f"{stores}.zarr", tmp_path / f"{stores}.zarr.wip"
        stores += 1
        for _ in range(3):
            killed, _ = driver(source, out, kill_at=rng.randint(1, count), **OPTIONS)
            if not killed:
                break
            kills += 1
            assert out.exists() == (out / "manifest.json").exists()  # never half a store
            if (wip / "state.json").exists():
                resumed += json.loads((wip / "state.json").read_text())["pieces"] > 0
            elif out.exists():
                break
        if (wip / "state.json").exists() or not out.exists():
            assert driver(source, out, **OPTIONS)[0] is False
        assert digest(out) == expected
    assert resumed >= 3


def test_an_append_killed_leaves_the_old_store(tmp_path, driver):
    one, two = documents(300, seed=1), documents(600, seed=2, prefix="e")
    a, b = (str(write_jsonl(tmp_path / f"{n}.jsonl", d)) for n, d in (("a", one), ("b", two)))
    more = {"append": True, "grow_vocab": True, **OPTIONS}
    del more["stopwords"]
    for name in ("whole", "killed"):
        driver([a], tmp_path / f"{name}.zarr", **OPTIONS)
    before = cells_by_id(tmp_path / "killed.zarr")
    _, count = driver([b], tmp_path / "whole.zarr", **more)
    after = cells_by_id(tmp_path / "whole.zarr")
    rng = random.Random(3)
    for k in range(6):
        killed, _ = driver([b], tmp_path / "killed.zarr", kill_at=rng.randint(k * count // 8, count), **more)
        if not killed:
            break
        assert cells_by_id(tmp_path / "killed.zarr") in (before, after)
    else:
        assert driver([b], tmp_path / "killed.zarr", **more)[0] is False
    assert digest(tmp_path / "killed.zarr") == digest(tmp_path / "whole.zarr")


def test_a_changed_input_or_other_options_are_refused(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(600, seed=7))
    good = source.read_text()
    source.write_text(good + "{broken\n")
    out = tmp_path / "c.zarr"
    options = {**OPTIONS, "checkpoint_bytes": 1 << 15}
    with pytest.raises(InputError, match=r"a\.jsonl:601"):
        topicstream.ingest(source, out, **options)
    state = json.loads((tmp_path / "c.zarr.wip" / "state.json").read_text())
    assert state["pieces"] > 2 and not state["done"]
    with pytest.raises(InputError, match="other options"):
        topicstream.ingest(source, out, **{**options, "stopwords": "english"})
    source.write_text(good.replace('"d1"', '"dd"', 1))
    with pytest.raises(InputError, match="the input has changed"):
        topicstream.ingest(source, out, **options)
    source.write_text(good)
    assert topicstream.ingest(source, out, **options)["documents"] == 600
    assert topicstream.ingest(source, tmp_path / "d.zarr", **options)["documents"] == 600
    assert digest(out) == digest(tmp_path / "d.zarr")
