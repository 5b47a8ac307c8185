"""Somebody's files and folders in the way of every command: nothing of theirs is lost, whatever
``--force`` says.

Each case puts things of others into a place with an input, two stores, a model and the folder of a
retrain, runs a command, and compares every byte. A refusal changes nothing at all and is one line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

import topicstream
from tests import few_quick
from tests.ingest_tools import documents, write_jsonl
from topicstream.base.files.inventory import unlisted_paths
from topicstream.base.files.marker import MARK
from topicstream.cli.main import run
from topicstream.retraining import cycle

TRAIN = "train --corpus s.zarr --algo bp -K 3 --passes 2 --tol 0 --threads 1 --model"
UPDATE = "update --corpus s.zarr --passes 1 --model m"
INGEST = "ingest in.jsonl --out"
INFER = "infer in.jsonl --model m -o"
RETRAIN = "retrain --config home/retrain.toml"
CONFIG = """
raw = "raw"
[ingest]
stopwords = "none"
min_df = 1
[train]
algo = "bp"
topics = 3
passes = 1
update_passes = 1
tol = 0.0
[gate]
tolerance = 9.0
topics = false
[publish]
keep = 2
"""
APP = '{"name": "an app", "version": "1.0"}'
SCHEMA_1 = '{"schema": 1, "kind": "model"}'


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """in.jsonl, other.jsonl, s.zarr, h.zarr (with held-out documents), m, phi.parquet, home (of a
    retrain, one cycle done).
    """
    folder = tmp_path_factory.mktemp("foreign")
    before = os.getcwd()
    os.chdir(folder)
    write_jsonl(Path("in.jsonl"), documents(80))
    write_jsonl(Path("other.jsonl"), documents(20, seed=3, prefix="e"))
    write_jsonl(Path("home-a.jsonl"), documents(60, seed=4, prefix="r"))
    Path("home/raw").mkdir(parents=True)
    shutil.move("home-a.jsonl", "home/raw/a.jsonl")
    Path("home/retrain.toml").write_text(CONFIG)
    for line in (
        f"{INGEST} s.zarr --heldout 0",
        f"{INGEST} h.zarr --heldout 20%",
        f"{TRAIN} m",
        RETRAIN,
        "export --model m --out phi.parquet",
    ):
        assert run([*line.split(), "-q"]) == 0, line
    os.chdir(before)
    return folder


@pytest.fixture
def place(template, tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "place"
    shutil.copytree(template, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


def tree() -> dict[str, str]:
    """Path -> link target or sha256 of all that is there but locks, marks and empty folders."""
    found = {}
    for path in sorted(Path().rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file() and path.name not in (".lock", MARK):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.exists() and not path.is_dir() and not path.is_file():
            found[str(path)] = "special"
    return found


def put(thing: str) -> None:
    """``a/`` a folder with work in it, ``a`` a file, ``a=text``, ``a->b`` a link, ``a<-b`` a copy,
    ``!name`` a step below.
    """
    if thing.startswith("!"):
        STEPS[thing[1:]]()
    elif "->" in thing:
        name, target = thing.split("->")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, name)
    elif "<-" in thing:
        name, source = thing.split("<-")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, name)
    elif thing.endswith("/"):
        (Path(thing) / "thesis").mkdir(parents=True)
        (Path(thing) / "thesis" / "chapter.tex").write_text("years of work")
        (Path(thing) / "notes.txt").write_text("mine")
    else:
        name, _, text = thing.partition("=")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text or "mine")


def grown() -> None:
    """An update has work to do."""
    assert (
        run([*["ingest", "other.jsonl", "--out", "s.zarr", "--append", "--grow-vocab"], "-q"]) == 0
    )


def manifest(name: str, **changes: object) -> None:
    """Another manifest; without changes: a torn one."""
    path = Path(name, "manifest.json")
    value = {k: v for k, v in json.loads(path.read_text()).items() if k != "checksum"}
    path.write_text(json.dumps(value | changes) if changes else path.read_text()[:99])


STEPS = {
    "grown": grown,
    "newer store": lambda: manifest("s.zarr", schema=2),
    "newer model": lambda: manifest("m", schema=2),
    "torn store": lambda: manifest("s.zarr"),
    "torn model": lambda: manifest("m"),
    "hard link": lambda: os.link("in.jsonl", "same.jsonl"),
    "fifo": lambda: os.mkfifo("a.csv"),
    "sweep": lambda: run([*f"{SWEEP} -K 2 --out w".split(), "-q"]),
    "more raw": lambda: write_jsonl(Path("home/raw/b.jsonl"), documents(30, seed=5, prefix="s")),
}
SWEEP = "sweep --corpus h.zarr --seeds 1 --algo bp --passes 1"
SHOW = "show --model m --corpus s.zarr --by source"

REFUSED = [  # what lies in the way, the command
    ("d.wip/", f"{INGEST} d"),
    ("d.wip/", f"{INGEST} d --force"),
    ("d.wip", f"{INGEST} d --force"),
    ("proj/; d.wip->proj", f"{INGEST} d --force"),
    ("proj/", f"{INGEST} proj"),
    ("proj/", f"{INGEST} proj --force"),
    (f"proj/; proj/manifest.json={APP}", f"{INGEST} proj --force"),
    ("link->s.zarr", f"{INGEST} link --force"),
    ("", f"{INGEST} m --force"),
    ("", f"{INGEST} . --force"),
    ("", f"{INGEST} in.jsonl --force"),
    ("!newer store", f"{INGEST} s.zarr --force"),
    ("!torn store", f"{INGEST} s.zarr --force"),
    ("raw/; raw/in.jsonl<-in.jsonl", "ingest raw --out raw --force"),
    ("raw/; raw/in.jsonl<-in.jsonl", "ingest raw --out raw/c.zarr --force"),
    ("s.zarr/mine/", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/README", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/.axes-mine/", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/docs/part-00001.parquet", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/train/words/c/99/", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/vocab-old.parquet", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/mine->../in.jsonl", "ingest other.jsonl --out s.zarr --force"),
    ("s.zarr/mine<-m", "ingest other.jsonl --out s.zarr --force"),
    ("proj/", f"{TRAIN} proj"),
    (f"proj/manifest.json={APP}; proj/vocab.parquet", f"{TRAIN} proj --force"),
    ("", f"{TRAIN} s.zarr --force"),
    ("", f"{TRAIN} s.zarr/m"),
    ("", f"{TRAIN} . --force"),
    ("!newer model", f"{TRAIN} m --force"),
    ("!torn model", f"{TRAIN} m --force"),
    ("m/work/mine/", f"{TRAIN} m --force"),
    ("m/work/results.rows", f"{TRAIN} m --force"),
    ("m/checkpoints/000001-000000.bak/", f"{TRAIN} m --force"),
    ("!grown; home2/", f"{UPDATE} --out home2 --force"),
    ("!grown", f"{UPDATE} --out s.zarr --force"),
    ("!grown; m.update/", f"{UPDATE} --force"),
    ("!grown; m.update<-m", f"{UPDATE} --force"),
    ("!grown; m/checkpoints/mine/", UPDATE),
    ("!grown; two<-m; two/notes.txt", f"{UPDATE} --out two --force"),
    ("a.csv=id,x\n1,2\n", f"{INFER} a.csv"),
    ('a.jsonl={"id": 1, "text": "mine", "topics": [1]}\n', f"{INFER} a.jsonl"),
    ("a.parquet<-s.zarr/vocab.parquet", f"{INFER} a.parquet"),
    ("", f"{INFER} in.jsonl --force"),
    ("!hard link", f"{INFER} same.jsonl --force"),
    ("notes.txt; a.csv->notes.txt", f"{INFER} a.csv --force"),
    ("", f"{INFER} s.zarr/a.csv"),
    ("raw/in.jsonl<-in.jsonl", "infer raw --model m -o raw/a.csv"),
    ("a.csv", f"{SHOW} --out a.csv"),
    ("!fifo", f"{SHOW} --out a.csv --force"),
    ("a.csv/", f"{SHOW} --out a.csv --force"),
    ("a.csv=question,mine\n1,2\n", "show --model m --intrusion words --out a.csv"),
    ("", "show --model m --corpus s.zarr --theta s.zarr/vocab.parquet --force"),
    ("a.html=<html>mine</html>", "report m --no-corpus --out a.html"),
    ("a.parquet", "export --model m --out a.parquet"),
    ("", "export --model m --out m/a.parquet"),
    ("proj/topic-keys.txt", "export --model m --format mallet --out proj --force"),
    ("a.prom", f"{TRAIN} m2 --metrics a.prom"),
    ("proj/", "import phi.parquet --model proj --force"),
    ("m/mine/; m/topics/mine", "import phi.parquet --model m --force"),
    ("w/", f"{SWEEP} -K 2 --out w"),
    ("!sweep; w/runs/bp-k3-s0/", f"{SWEEP} -K 3 --out w"),
    ("notes.txt; m/edits.jsonl->../notes.txt", "edit m --label 0=x"),
    ("m/edits.jsonl/", "edit m --label 0=x"),
    (
        "fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/incoming/",
        "retrain --config fresh/retrain.toml",
    ),
    (
        "fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/versions/",
        "retrain --config fresh/retrain.toml",
    ),
    (
        "fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/corpus.zarr/",
        "retrain --config fresh/retrain.toml",
    ),
    (
        "fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/corpus.zarr.wip/",
        "retrain --config fresh/retrain.toml",
    ),
    (
        f"fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/state.json={APP}",
        "retrain --config fresh/retrain.toml",
    ),
    (
        "fresh/retrain.toml<-home/retrain.toml; fresh/raw<-home/raw; fresh/current/",
        "retrain --config fresh/retrain.toml",
    ),
    ("fresh/versions/0001/; fresh/versions/0002/", "rollback fresh"),
    *(
        (f"!more raw; home/{folder}/; home/{folder}/{mine}", RETRAIN)
        for folder in ("incoming", "runs", "corpus.zarr.wip")
        for mine in (f"manifest.json={SCHEMA_1}", "vocab.parquet", f"state.json={SCHEMA_1}")
    ),
    *(
        (f"proj/; proj/{name}={SCHEMA_1}", f"{command} proj --force")
        for name in ("manifest.json", "training.json", "state.json")
        for command in (INGEST, TRAIN)
    ),
    ("!more raw; home/runs/mine/", f"{RETRAIN} --full"),
    ("!more raw; home/incoming/new/notes.txt", RETRAIN),
    ("!more raw; home/incoming/changed/a.jsonl", RETRAIN),
    ("!more raw; home/incoming/new/deep/er.bin", RETRAIN),
    ("!more raw; home/incoming/measured.zarr/mine.txt", RETRAIN),
    (
        'home/incoming/new/b.jsonl<-other.jsonl; home/mine.toml=raw = "incoming/new"',
        "retrain --config home/mine.toml",
    ),
    (
        'home/incoming/new/b.jsonl<-other.jsonl; home/mine.toml=raw = "raw/../incoming/new"',
        "retrain --config home/mine.toml",
    ),
    (
        "home/incoming/new/b.jsonl<-other.jsonl; home/raw2->incoming/new; home/mine.toml=raw = "
        '"raw2"',
        "retrain --config home/mine.toml",
    ),
    (
        'home/runs/b.jsonl<-other.jsonl; home/mine.toml=raw = "runs"',
        "retrain --config home/mine.toml",
    ),
    (
        's.zarr/mine/b.jsonl<-other.jsonl; home/mine.toml=raw = "../s.zarr/mine"',
        "retrain --config home/mine.toml",
    ),
    ('home/mine.toml=raw = ".."', "retrain --config home/mine.toml"),
    ('home/mine.toml=raw = "raw\\u0000x"', "retrain --config home/mine.toml"),
]

DONE = [  # what stays while the command does its work
    ("s.zarr/mine/; s.zarr/docs/mine/", "ingest other.jsonl --out s.zarr --append"),
    (
        "s.zarr/vocab-mine.parquet; s.zarr/train/words/c/99/",
        "ingest other.jsonl --out s.zarr --append",
    ),
    ("s.zarr/.axes-mine/", "ingest other.jsonl --out s.zarr --append"),
    ("m/mine/; m/work/mine/; m/checkpoints/mine/", f"{TRAIN} m --passes 3"),
    ("m/topics-2/", f"{TRAIN} m --passes 3"),
    (".a.csv.tmp; .a.csv.99.tmp; .a.csv.mine.tmp", f"{INFER} a.csv"),
    ("!grown; s.zarr/mine/; s.zarr/train-9/", "compact s.zarr"),
    ("s.zarr/mine/; m/mine/; m/work/mine/", "forget d3 --corpus s.zarr --model m"),
    ("m/classifier-mine/", "classifier --model m --corpus h.zarr --passes 1"),
    ("home/.notes.7.tmp; home/.x.tmp.d/; !more raw", RETRAIN),
    ("!more raw; home/versions/.0002.tmp/", f"{RETRAIN} --full"),
    ("!more raw; home/versions/.0001.old/; home/versions/notes/", f"{RETRAIN} --full"),
]


def test_every_file_that_commands_make_is_listed(place):
    grown()
    for line in (
        f"{TRAIN} m --passes 3 --force",
        "train --corpus s.zarr --algo gs -K 3 --passes 2 --model g",
        f"{TRAIN} m --passes 4",
        "compact s.zarr",
        "classifier --model m --corpus h.zarr --passes 1",
        "edit m --label 0=x",
    ):
        assert run([*line.split(), "-q"]) == 0, line
    folders = [mark.parent for mark in Path().rglob(MARK)]
    assert len(folders) > 7
    assert [
        path for folder in folders if folder.name != "home" for path in unlisted_paths(folder)
    ] == []


def prepared(things: str) -> set[str]:
    """Put things of others; their paths."""
    foreign: set[str] = set()
    for thing in filter(None, things.split("; ")):
        before = set(tree())
        put(thing)
        if not thing.startswith("!"):
            foreign |= set(tree()) - before
    return foreign


@pytest.mark.parametrize(("things", "command"), few_quick(REFUSED, REFUSED[::3]))
def test_a_command_is_refused_in_one_line_and_changes_nothing(place, capsys, things, command):
    prepared(things)
    before = tree()
    capsys.readouterr()
    assert run([*command.split(), "-q"]) in (1, 2, 3)
    lines = capsys.readouterr().err.strip().splitlines()
    assert tree() == before
    assert len(lines) == 1 or lines[0].startswith("Usage:")
    assert "internal" not in lines[-1]


@pytest.mark.parametrize(("things", "command"), few_quick(DONE, DONE[::3]))
def test_a_command_does_its_work_beside_what_is_not_ours(place, things, command):
    foreign = prepared(things)
    before = tree()
    assert run([*command.split(), "-q"]) == 0
    now = tree()
    assert {name: now.get(name) for name in foreign} == {name: before[name] for name in foreign}


def test_what_others_put_into_a_model_goes_over_into_its_update(place):
    grown()
    put("m/mine/")
    put("m/README")
    assert run([*UPDATE.split(), "-q"]) == 0
    assert Path("m/README").read_text() == "mine" and Path("m/mine/thesis/chapter.tex").exists()
    assert not Path("m.update").exists()


def test_an_update_that_was_killed_after_the_exchange(place, monkeypatch):
    grown()
    with monkeypatch.context() as patch:
        patch.setattr("topicstream.retraining.update._remove_replaced", lambda run, model: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            topicstream.update("s.zarr", "m", passes=1, progress=False)
    put("m.update/notes.txt")
    assert topicstream.update("s.zarr", "m", progress=False).how == "nothing"
    assert not Path("m.update").exists() and Path("m/notes.txt").read_text() == "mine"


def test_an_update_does_not_replace_another_model_without_force(place, capsys):
    grown()
    put("two<-m")
    manifest("two", created="another day")
    capsys.readouterr()
    assert run([*f"{UPDATE} --out two".split(), "-q"]) == 1
    assert "--force replaces it" in capsys.readouterr().err


def test_a_folder_that_takes_the_name_of_a_version_meanwhile_is_not_published(
    place, monkeypatch, capsys
):
    put("!more raw")
    judge = cycle.judge
    with monkeypatch.context() as patch:
        patch.setattr(cycle, "judge", lambda *given: (put("home/versions/0002/"), judge(*given))[1])
        assert run([*RETRAIN.split(), "-q"]) == 3
    assert "home/versions/0002: is in the way" in capsys.readouterr().err
    assert (
        os.readlink("home/current") == "versions/0001"
        and Path("home/versions/0002/notes.txt").exists()
    )
    shutil.move("home/versions/0002", "theirs")
    assert run([*RETRAIN.split(), "-q"]) == 0
    assert (
        os.readlink("home/current") == "versions/0002"
        and topicstream.TopicModel.open("home/current").n_topics == 3
    )


def test_an_empty_folder_outlives_a_refusal(place):
    os.mkdir("empty", 0o750)
    for name in ("empty", "new"):
        assert (
            run(
                [
                    "train",
                    "--corpus",
                    "s.zarr",
                    "--model",
                    name,
                    "-K",
                    "3",
                    "--mem-limit",
                    "40M",
                    "-q",
                ]
            )
            == 5
        )
    assert (
        os.stat("empty").st_mode & 0o777 == 0o750
        and not os.listdir("empty")
        and not os.path.exists("new")
    )


OUTPUTS = {
    "a.csv": INFER,
    "a.jsonl": INFER,
    "a.parquet": INFER,
    "table.csv": f"{SHOW} --out",
    "scores.jsonl": "eval --model m --corpus h.zarr --heldout --per-document",
    "page.html": "report m --no-corpus -o",
    "phi.parquet": "export --model m -o",
    "vis.json": "export --model m --format pyldavis -o",
    "mallet": "export --model m --format mallet -o",
    "run.prom": f"{TRAIN} m --metrics",
}


@pytest.mark.parametrize("out", OUTPUTS)
def test_force_replaces_what_we_wrote(place, out):
    force = [] if out == "run.prom" else ["--force"]
    for _ in range(2):
        assert run([*OUTPUTS[out].split(), out, *force, "-q"]) == 0
    assert not list(Path().glob(".*.tmp"))
    if force:
        assert run([*OUTPUTS[out].split(), out, "-q"]) == 1
    for inside in ("s.zarr", "m"):
        assert run([*OUTPUTS[out].split(), f"{inside}/{out}", *force, "-q"]) in (2, 3)
