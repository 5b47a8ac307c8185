"""kill -9 at random instants, then the same command again: the same bytes as an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import topicstream
from tests.ingest_tools import cells_by_id, digest, documents, write_jsonl
from topicstream.errors import InputError

ROOT = Path(__file__).resolve().parents[1]

# One process forks a child a run, so that a run costs its work and not the imports; the child kills itself.
DRIVER = """
import json, os, signal, sys, threading, time
import topicstream.ingest.pipeline as p
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        if job["kill_after"] is not None:
            def die():
                time.sleep(job["kill_after"])
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Thread(target=die, daemon=True).start()
        p.ingest(job["paths"], job["out"], **job["options"])
        os._exit(0)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def driver():
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )

    def run(paths, out, kill_after=None, **options):
        job = {"paths": paths, "out": str(out), "options": options, "kill_after": kill_after}
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    yield run
    process.stdin.close()
    process.wait(timeout=30)


OPTIONS = {"workers": 2, "min_df": 2, "piece_bytes": 1 << 15, "checkpoint_bytes": 1 << 17, "stopwords": "none"}


def test_killed_at_random_instants_then_resumed(tmp_path, driver):
    docs = documents(1500, seed=7)
    docs += [{**d, "text": "changed " + d["text"]} for d in docs[50:90]]
    source = [str(write_jsonl(tmp_path / "a.jsonl", docs))]
    assert driver(source, tmp_path / "whole.zarr", **OPTIONS) == 0
    expected = digest(tmp_path / "whole.zarr")
    began = time.monotonic()
    assert driver(source, tmp_path / "again.zarr", **OPTIONS) == 0
    seconds = time.monotonic() - began
    rng = random.Random(11)
    kills = stores = resumed = 0
    while kills < 20:
        assert stores < 20, f"{kills} kills in {stores} stores"
        out, wip = tmp_path / f"{stores}.zarr", tmp_path / f"{stores}.zarr.wip"
        stores += 1
        for _ in range(4):
            status = driver(source, out, kill_after=rng.uniform(0.0, 0.9 * seconds), **OPTIONS)
            if status == 0:
                break
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            kills += 1
            assert out.exists() == (out / "manifest.json").exists()  # never half a store
            if (wip / "state.json").exists():
                resumed += json.loads((wip / "state.json").read_text())["pieces"] > 0
            elif out.exists():
                break
        if wip.exists() or not out.exists():
            assert driver(source, out, **OPTIONS) == 0
        assert digest(out) == expected
        assert not wip.exists()
    assert resumed >= 3


def test_an_append_killed_leaves_the_old_store(tmp_path, driver):
    one, two = documents(300, seed=1), documents(600, seed=2, prefix="e")
    a, b = (str(write_jsonl(tmp_path / f"{n}.jsonl", d)) for n, d in (("a", one), ("b", two)))
    more = {"append": True, "grow_vocab": True, **OPTIONS}
    del more["stopwords"]
    for name in ("whole", "killed"):
        assert driver([a], tmp_path / f"{name}.zarr", **OPTIONS) == 0
    before = cells_by_id(tmp_path / "killed.zarr")
    began = time.monotonic()
    assert driver([b], tmp_path / "whole.zarr", **more) == 0
    seconds = time.monotonic() - began
    after = cells_by_id(tmp_path / "whole.zarr")
    rng = random.Random(3)
    for _ in range(5):
        status = driver([b], tmp_path / "killed.zarr", kill_after=rng.uniform(0.2, 0.95) * seconds, **more)
        if status == 0:
            break
        assert cells_by_id(tmp_path / "killed.zarr") in (before, after)
    else:
        assert driver([b], tmp_path / "killed.zarr", **more) == 0
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
