"""kill -9 at any instant of training: the run that is carried on ends in the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkpoint_bits import content_hash

from tests.planted import draw, store
from topicstream.base.errors import TopicsError
from topicstream.base.files.durable import read_json, write_json
from topicstream.base.progress import Shown as Progress
from topicstream.training.loop import train
from topicstream.training.state import checkpoint as saving
from topicstream.training.state import record
from topicstream.training.state.checkpoint import list_checkpoints
from topicstream.training.state.memory import BlockMemory, Memories

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    _, indptr, words, counts = draw(docs=3000, words=800, topics=8, length=120, seed=11)
    return store(
        tmp_path_factory.mktemp("kill") / "corpus.zarr", indptr, words, counts, 800, heldout=100
    )


def command(corpus: Path, model: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(model),
        "-K",
        "40",
        "--passes",
        "12",
        "--tol",
        "0",
        "--threads",
        "2",
        "--block-cells",
        "9000",
        "--seed",
        "4",
        "--checkpoint-minutes",
        "0.001",
        *more,
    ]


def wait_for(path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.002)


def wait_for_run(process: subprocess.Popen, model: Path) -> None:
    """Until the run has written its record, or is over."""
    record = model / "training.json"
    before = record.stat().st_mtime_ns if record.exists() else 0
    end = time.monotonic() + 600
    while time.monotonic() < end and process.poll() is None:
        if record.exists() and record.stat().st_mtime_ns != before:
            return
        time.sleep(0.005)


def test_kill_9_at_twenty_instants(corpus, tmp_path):
    whole = tmp_path / "whole"
    subprocess.run(command(corpus, whole), check=True, capture_output=True)
    expected = content_hash(whole)
    # the instants lie between the record (written before the start) and the end, as the undisturbed
    # run's clock had them
    length = (whole / "finished.json").stat().st_mtime - (whole / "training.json").stat().st_mtime
    rng = random.Random(5)
    model = tmp_path / "model"
    kills = 0
    for _ in range(100):
        if kills == 20:
            break
        process = subprocess.Popen(
            command(corpus, model), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_run(process, model)
        try:
            process.wait(rng.uniform(0.0, 0.6) * length)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        else:
            length *= 0.7  # the machine is faster than it was
        if (model / "finished.json").exists():
            assert content_hash(model) == expected
            shutil.rmtree(model)
    assert kills == 20
    done = subprocess.run(command(corpus, model), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert content_hash(model) == expected


@pytest.mark.parametrize("name", ["gs", "sparselda"])
def test_kill_9_with_packed_tables_on_disk(corpus, tmp_path, name):
    """Killed in the middle of writing rows in place: nothing of that is taken up again."""
    more = ["--algo", name, "--tables", "disk", "--passes", "8", "--round-blocks", "2"]
    whole = tmp_path / "whole"
    model = tmp_path / "model"
    subprocess.run(
        command(corpus, whole, *more, "--tables", "memory"), check=True, capture_output=True
    )
    length = (whole / "finished.json").stat().st_mtime - (whole / "training.json").stat().st_mtime
    rng = random.Random(7)
    for _ in range(5):
        process = subprocess.Popen(
            command(corpus, model, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for_run(process, model)
        try:
            process.wait(rng.uniform(0.1, 0.6) * length)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    done = subprocess.run(command(corpus, model, *more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert content_hash(model) == content_hash(whole)


def test_a_damaged_checkpoint_is_named(corpus, tmp_path):
    model = tmp_path / "model"
    subprocess.run(command(corpus, model), check=True, capture_output=True)
    rows = next((list_checkpoints(model / "checkpoints")[-1]).glob("*.rows"))
    data = bytearray(rows.read_bytes())
    data[len(data) // 2] ^= 1
    rows.write_bytes(bytes(data))
    done = subprocess.run(command(corpus, model, "--passes", "14"), capture_output=True, text=True)
    assert done.returncode == 3
    assert rows.name in done.stderr and "checksum" in done.stderr


def test_block_memory_that_was_altered_is_named(corpus, tmp_path):
    model = tmp_path / "model"
    subprocess.run(command(corpus, model), check=True, capture_output=True)
    memory = next((model / "work").glob("memory-*.bin"))
    with open(memory, "r+b") as f:
        f.seek(os.path.getsize(memory) // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    done = subprocess.run(command(corpus, model, "--passes", "14"), capture_output=True, text=True)
    assert done.returncode == 3
    assert "memory of block" in done.stderr


def test_a_second_training_on_one_model_exits_4(corpus, tmp_path):
    model = tmp_path / "model"
    first = subprocess.Popen(
        command(corpus, model, "--passes", "1000000"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(model / "history.jsonl", 600)
        second = subprocess.run(command(corpus, model), capture_output=True, text=True)
        assert second.returncode == 4
        assert "another process is training" in second.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(600) == 143


def test_a_full_disk_leaves_the_last_checkpoint(corpus, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(small)], capture_output=True
    )
    if made.returncode:
        pytest.skip("cannot mount a small tmpfs here")
    try:
        model = small / "model"
        subprocess.run(
            command(corpus, model, "--algo", "atbp", "--passes", "2"),
            check=True,
            capture_output=True,
        )
        expected = content_hash(model)
        free = os.statvfs(small)
        (small / "ballast").write_bytes(bytes(max(0, free.f_bavail * free.f_bsize - 20000)))
        done = subprocess.run(
            command(corpus, model, "--algo", "atbp", "--passes", "6"),
            capture_output=True,
            text=True,
        )
        assert done.returncode in (1, 5), done.stderr
        assert done.stderr.strip().splitlines()[-1].startswith("topics: ")
        assert content_hash(model) == expected
        (small / "ballast").unlink()
        done = subprocess.run(
            command(corpus, model, "--algo", "atbp", "--passes", "3"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["umount", str(small)], check=False)


def test_a_run_whose_record_lacks_an_option_is_not_resumed(corpus, tmp_path):
    settings = {"algo": "sparse-bp", "topics": 16, "tol": 0, "threads": 2, "progress": Progress(-1)}
    train(corpus, tmp_path / "m", **settings, passes=2)
    record = tmp_path / "m" / "training.json"
    before = read_json(record)
    del before["options"]["step"]
    write_json(record, before)
    with pytest.raises(TopicsError, match=r"--step unknown -> 1\.8\."):
        train(corpus, tmp_path / "m", **settings, passes=3)
    assert (tmp_path / "m" / "manifest.json").exists()


def test_block_memory_is_written_over_a_file_that_nothing_needs(corpus, tmp_path, monkeypatch):
    created = []
    make = BlockMemory.__init__

    def counted(self, *given, create, **settings):
        created.append(create)
        make(self, *given, create=create, **settings)

    monkeypatch.setattr(BlockMemory, "__init__", counted)
    monkeypatch.setattr(saving, "SHARE", 1e9)
    given = {
        "algo": "sparse-bp",
        "topics": 20,
        "tol": 0.0,
        "block_cells": 9000,
        "threads": 2,
        "passes": 12,
    }
    train(corpus, tmp_path / "over", **given, progress=Progress(-1))
    assert created.count(False) >= 3
    assert len(list((tmp_path / "over" / "work").glob("memory-*.bin"))) == 1
    monkeypatch.setattr(BlockMemory, "__init__", make)
    monkeypatch.setattr(Memories, "list_unneeded", lambda self, needed: [])
    train(corpus, tmp_path / "new", **given, progress=Progress(-1))
    monkeypatch.undo()
    assert content_hash(tmp_path / "over") == content_hash(tmp_path / "new")
    train(corpus, tmp_path / "over", **{**given, "passes": 14}, progress=Progress(-1))
    train(corpus, tmp_path / "new", **{**given, "passes": 14}, progress=Progress(-1))
    assert content_hash(tmp_path / "over") == content_hash(tmp_path / "new")


def test_a_run_may_take_what_it_has_taken_already(tmp_path, monkeypatch):
    monkeypatch.setattr(record.shutil, "disk_usage", lambda place: SimpleNamespace(free=1000))
    assert record.free_disk(tmp_path / "model") == 1000
    for name in ("work", "checkpoints"):
        (tmp_path / "model" / name).mkdir(parents=True)
    state = tmp_path / "model" / "work" / "memory-000001.bin"
    with open(state, "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    assert record.free_disk(tmp_path / "model") == 1000 + 512 * state.stat().st_blocks > 1 << 20
