"""Commands that write two files: both are new, or both are as they were."""

from __future__ import annotations

import pytest

from tests.report_store import made, planted_model
from topicstream.base import system
from topicstream.cli.main import run


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    corpus, _ = made(folder, 300)
    planted_model(corpus, folder / "model")
    return folder


COMMANDS = {
    "show --intrusion words --out {0}/a.csv": "--seed 3",
    "show --intrusion words --out {0}/a.html": "--seed 3",
    "show --table {0}/a.csv --correlations {0}/b.csv": "-k 0,1",
    "show --over-time --out {0}/a.csv --plot {0}/b.svg": "-k 0,1",
    "show --by party --out {0}/a.csv --plot {0}/b.svg": "-k 0,1",
    "effects party --out {0}/a.csv --plot {0}/b.svg": "-k 0,1",
}
"""Each with options that change both files."""


@pytest.mark.quick("show --intrusion *", "show --table *", "effects *")
@pytest.mark.parametrize("line", COMMANDS)
def test_two_files_are_of_one_run(home, tmp_path, monkeypatch, line):
    paths = ["--model", f"{home}/model", "--corpus", f"{home}/corpus.zarr"]
    args = [*line.format(tmp_path).split(), *paths]
    again = [*args, *COMMANDS[line].split(), "--force"]
    assert run(args) == 0
    earlier = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(earlier) == 2
    flush = system.flush
    flushed = []

    def fail(descriptor):
        flushed.append(descriptor)
        if len(flushed) == 2:
            raise OSError(28, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(system, "flush", fail)
    assert run(again) == 5
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == earlier
    monkeypatch.undo()
    assert run(again) == 0
    later = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert later.keys() == earlier.keys()
    assert all(later[name] != earlier[name] for name in earlier)
