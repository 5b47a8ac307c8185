"""kill -9 at random instants (of what is done to the disk) of a retrain cycle, then again: the same
published model, and ``current`` is whole at every moment in between. TOPICS_KILLS sets how many
instants (default 8).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from tests.killing import Killable
from tests.retrain_tools import folder, made, write
from topicstream.corpus.reader import Corpus
from topicstream.model.manifest import read_ids
from topicstream.model.topic_model import TopicModel

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("TOPICS_KILLS", "8"))
WORK = """
import io
from topicstream.retraining.retrain import retrain
def work(config):
    return retrain(config, stream=io.StringIO())
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A folder with one version and new, changed files waiting."""
    place = tmp_path_factory.mktemp("before")
    config = folder(place)
    warm = folder(tmp_path_factory.mktemp("warm"))
    with Killable(WORK, {"config": str(config)}, {"config": str(warm)}) as killable:

        def cycle(config, kill_at=0):
            """(killed, count of disk operations, summary)."""
            return killable(kill_at, config=str(config))

        assert cycle(config)[2]["decision"] == "nothing"
        write(place / "raw" / "b.jsonl", made(60, seed=2, prefix="e"))
        yield place, cycle


class Reader(threading.Thread):
    """Opens ``current`` and reads all of it, again and again."""

    def __init__(self, link: Path) -> None:
        super().__init__()
        self.link = link
        self.wanted = True
        self.reads = 0
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
    names = {
        "retrain.toml",
        "raw",
        "corpus.zarr",
        "versions",
        "current",
        "state.json",
        ".lock",
        ".topicstream",
    }
    return sorted({p.name for p in place.iterdir()} - names)


def test_killed_at_random_instants_of_an_update(before, tmp_path):
    place, cycle = before
    shutil.copytree(place, tmp_path / "whole", symlinks=True)
    old = TopicModel.open(place / "current").content_hash()
    _, count, done = cycle(tmp_path / "whole" / "retrain.toml")
    assert (done["decision"], done["published"], done["training"]) == ("update", 2, "warm")
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
                killed, _, _ = cycle(
                    home / "retrain.toml", kill_at=rng.randint(1, count if k == 0 else count // 2)
                )
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
        assert sorted(p.name for p in (home / "versions").iterdir()) == [
            ".topicstream",
            "0001",
            "0002",
        ]
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
