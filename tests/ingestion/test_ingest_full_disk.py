"""A disk that fills up at any stage: code 5, one line, the old store as it was, and the same
command carries on.
"""

from __future__ import annotations

import os
import subprocess

import pytest

import topicstream
from tests.ingest_tools import cells_by_id, documents, write_jsonl
from topicstream.cli.main import run
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus

pytestmark = pytest.mark.slow


@pytest.fixture
def small(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("cannot mount a small tmpfs here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def held(store):
    """What a reader finds, checksums verified."""
    assert not list(verify(Corpus.open(store)))
    return Corpus.open(store).fingerprint, cells_by_id(store)


def test_a_full_disk_leaves_the_old_store(small, tmp_path, capsys):
    write_jsonl(tmp_path / "a.jsonl", documents(60))
    write_jsonl(tmp_path / "b.jsonl", documents(400, seed=2, prefix="b"))
    out = small / "c.zarr"
    topicstream.ingest(tmp_path / "a.jsonl", out, min_df=1, max_df=1.0)
    before = held(out)
    again = ["ingest", str(tmp_path / "b.jsonl"), "--out", str(out), "--min-df", "1", "-q"]
    failed = 0
    for room in (1_000, 12_000, 40_000, 90_000, 150_000, 200_000):
        for how in ("--append", "--force"):
            free = os.statvfs(small)
            (small / "ballast").write_bytes(bytes(max(0, free.f_bavail * free.f_bsize - room)))
            capsys.readouterr()
            code = run([*again, how])
            said = capsys.readouterr().err
            (small / "ballast").unlink()
            if code == 0:  # enough after all
                assert failed >= 4
                return
            failed += 1
            assert code == 5, (room, how, said)
            assert len(said.strip().splitlines()) == 1 and "space" in said, said
            assert held(out) == before, (room, how)
            subprocess.run(["rm", "-rf", str(small / "c.zarr.wip")], check=True)
    assert run([*again, "--append"]) == 0
    assert held(out) != before
