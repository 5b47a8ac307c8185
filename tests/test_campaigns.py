"""The campaigns of scripts/ in short: every fault, every fuzzed reader and opener, a few runs in a cgroup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cgroup import memory_cgroup

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[1] / "scripts" / "campaigns"


def campaign(name: str, *args: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """The script's end, and the rows of its table."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}_campaign.py"), *args], capture_output=True, text=True, check=False
    )
    rows = [
        [c.strip() for c in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("| ")
    ]
    return done, rows[1:]


def test_fuzz():
    done, rows = campaign("fuzz", "--inputs", "40", "--seed", "11", "--hang", "100")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert len(rows) >= 40 and all(row[1] == "40" for row in rows)
    assert sum(int(row[2]) for row in rows) > 300 and sum(int(row[3]) for row in rows) > 300  # both ends are met


def test_faults_in_the_files_of_a_corpus_and_of_a_run():
    jobs = ["info --verify (corpus)", "info --verify (model)", "train, going on", "show --docs"]
    done, rows = campaign("fault", "--flips", "1", "--only", "flips", "schema", "--commands", *jobs)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert sum(int(row[3]) for row in rows) > 40


def test_read_only_folders_and_full_disks():
    done, rows = campaign("fault", "--only", "read-only", "full-disk")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert len(rows) == 2 or "skipped" in done.stderr


def test_foreign_files_and_folders():
    words = ["d.wip", "the corpus", "m.update", "hard link", "topics-2", "train: folders of theirs"]
    done, rows = campaign("foreign", "--only", *words)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert len(rows) >= 12 and all(row[1] == "nothing lost" for row in rows)


def test_memory():
    with memory_cgroup(1 << 30):
        pass  # skips where none can be made
    done, rows = campaign(
        "memory", "--cells", "3e5", "--only", "atbp", "gs", "--topics", "10", "100", "--limits", "260M", "512M"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert len(rows) == 8
    for engine, topics, limit, outcome, *_ in rows:
        assert outcome.startswith("finished") or (limit == "260M" and outcome.startswith("refused")), (
            engine,
            topics,
            outcome,
        )


@pytest.mark.parametrize("name", ["foreign", "fuzz", "fault", "memory"])
def test_the_campaigns_say_what_they_do(name):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}_campaign.py"), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "exit 1" in done.stdout
