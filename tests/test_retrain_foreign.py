"""What users keep in and near the folder of a retrain stays: raw files above all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import topicstream
from topicstream.cli.main import run

CONFIG = 'folder = "."\nraw = {raw}\n[ingest]\nmin_df = 1\n[train]\ntopics = 2\npasses = 2\n[gate]\ntolerance = 9.0\n[publish]\nkeep = 2\n'


def add(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(name))
    lines = [json.dumps({"id": f"{name}{i}", "text": " ".join(f"w{n}" for n in rng.integers(0, 40, 30))}) for i in range(30)]
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "retrain.toml").write_text(CONFIG.format(raw='"raw"'))
    return tmp_path


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "raw", ["incoming", "incoming/new", "raw/../incoming/new", "versions/mine", "runs", "corpus.zarr/x", "..", "linked"]
)
def test_raw_files_never_lie_in_a_folder_of_ours(home, raw, capsys):
    place = home / "incoming" / "new"
    kept = add(place, "mine")
    (home / "raw").mkdir()
    (home / "linked").symlink_to(place)
    (home / "retrain.toml").write_text(CONFIG.format(raw=json.dumps(raw)))
    before = kept.read_bytes()
    assert run(["retrain", "--config", "retrain.toml"]) == 2
    assert "raw = " in capsys.readouterr().err
    assert kept.read_bytes() == before


def test_raw_files_may_not_lie_in_a_store_or_a_model(home, capsys):
    add(home / "raw", "a")
    assert run(["ingest", "raw", "--out", "other.zarr", "--min-df", "1", "-q"]) == 0
    mine = add(home / "other.zarr" / "mine", "b")
    (home / "retrain.toml").write_text(CONFIG.format(raw='"other.zarr/mine"'))
    assert run(["retrain", "--config", "retrain.toml"]) == 2
    assert "a corpus store" in capsys.readouterr().err and mine.exists()


@pytest.mark.parametrize("name", ["new/notes.txt", "changed/a.jsonl", "new/deep/er.bin", "measured.zarr/mine.txt"])
def test_what_lies_among_the_copies_stops_the_cycle_and_stays(home, name, capsys):
    add(home / "raw", "a")
    assert run(["retrain", "--config", "retrain.toml"]) == 0
    path = home / "incoming" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    add(home / "raw", "bb")
    capsys.readouterr()
    assert run(["retrain", "--config", "retrain.toml"]) != 0
    assert "incoming" in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", [".0003.tmp", ".0001.old", "notes"])
def test_what_lies_among_the_versions_stays(home, name):
    add(home / "raw", "a")
    assert run(["retrain", "--config", "retrain.toml"]) == 0
    path = home / "versions" / name / "mine.txt"
    path.parent.mkdir()
    path.write_text("mine")
    for i in range(2, 6):
        add(home / "raw", "b" * i)
        run(["retrain", "--config", "retrain.toml", "--full"])
        assert path.read_text() == "mine"


def test_a_nul_in_the_configuration_is_one_line(home, capsys):
    (home / "retrain.toml").write_text(CONFIG.format(raw='"raw\\u0000x"'))
    assert run(["retrain", "--config", "retrain.toml"]) == 2
    said = capsys.readouterr().err
    assert "NUL" in said and "internal" not in said


def test_update_does_not_replace_another_model(home, capsys):
    add(home / "raw", "a")
    assert run(["ingest", "raw", "--out", "c.zarr", "--min-df", "1", "-q"]) == 0
    for name, topics in (("one", 3), ("two", 2)):
        topicstream.train("c.zarr", name, topics=topics, passes=2, progress=False)
    before = files_below(home / "two")
    assert run(["update", "--corpus", "c.zarr", "--model", "one", "--out", "two"]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert files_below(home / "two").keys() == before.keys()
    assert files_below(home / "two")["manifest.json"] == before["manifest.json"]
