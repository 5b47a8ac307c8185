"""What a scheduler of another package can rely on, with one that pickles all that it is given."""

from __future__ import annotations

import json
import pickle
from contextlib import contextmanager
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

from topicstream.base import plugins
from topicstream.base.cluster import Cluster, run_task, scheduler_class, threads_of_worker
from topicstream.base.errors import UsageError
from topicstream.base.machine import default_threads
from topicstream.base.memory import FLOOR, MemoryLimit
from topicstream.cli.main import run


class Pickled(Cluster):
    """Workers in this process, to which everything travels as bytes, there and back."""

    number = 2
    tasks = 0

    @classmethod
    @contextmanager
    def connect(cls, scheduler, paths, least):
        yield cls()

    def map(self, work, items):
        sent = pickle.dumps(work)
        for item in items:
            type(self).tasks += 1
            done = run_task(pickle.loads(sent), pickle.loads(pickle.dumps(item)), 1)
            yield pickle.loads(pickle.dumps(done))


@pytest.fixture
def registered(monkeypatch):
    """``--scheduler pickled:...``, beside those that are there."""
    entry = EntryPoint("pickled", f"{__name__}:Pickled", plugins.SCHEDULERS)
    monkeypatch.setattr(plugins, "entry_points", lambda: EntryPoints([entry]))
    for cached in (plugins.installed, plugins.entries, plugins.load):
        cached.cache_clear()
    Pickled.tasks = 0
    yield
    for cached in (plugins.installed, plugins.entries, plugins.load):
        cached.cache_clear()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A store, and models of topics and of clusters."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    subjects = [[f"{name}{i}" for i in range(20)] for name in ("sea", "sky", "farm")]
    lines = [{"id": str(d), "text": " ".join(rng.choice(subjects[d % 3], 30))} for d in range(300)]
    Path("docs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read = ["ingest", "docs.jsonl", "--max-df", "1.0", "--heldout", "20%", "-q"]
    assert run([*read, "--out", "corpus.zarr"]) == 0
    for name, algo in (("model", "bp"), ("clusters", "mixture")):
        train = ["train", "-K", "3", "--passes", "3", "--algo", algo, "--model", name, "-q"]
        assert run(train) == 0
    return tmp_path


@pytest.mark.quick("infer *", "eval --heldout *", "ingest *")
@pytest.mark.parametrize(
    "line",
    [
        "ingest docs.jsonl --max-df 1.0 --heldout 20%",
        "eval --heldout --training --coherence --json",
        "eval --model clusters --heldout --coherence --json",
        "infer corpus.zarr --model model",
        "compare model model --json",
        "sweep -K 2,3 --seeds 1 --passes 3 --json",
    ],
)
def test_verbs_give_the_same_with_all_that_travels_pickled(registered, place, capsys, line):
    verb = line.split()[0]
    suffix = {"ingest": "zarr", "infer": "csv"}.get(verb, "folder")
    results = []
    for name, more in (("one", []), ("two", ["--scheduler", "pickled:2"])):
        out = ["--out", f"{name}.{suffix}"] if verb in ("ingest", "infer", "sweep") else []
        assert run([*line.split(), *out, *more, "-q"]) == 0, capsys.readouterr().err
        printed = capsys.readouterr().out
        if verb == "ingest":
            results.append(
                json.loads(Path(f"{name}.zarr/manifest.json").read_bytes())["fingerprint"]
            )
        elif verb == "infer":
            results.append(Path(f"{name}.csv").read_bytes())
        else:
            results.append(timeless(json.loads(printed)))
    assert Pickled.tasks
    assert results[0] == results[1]


def timeless(record):
    """Drop what the clock decides, and the name of the folder."""
    if isinstance(record, list):
        return [timeless(value) for value in record]
    if not isinstance(record, dict):
        return record
    changing = ("second", "envelope", "out", "peak")
    return {
        name: timeless(value)
        for name, value in record.items()
        if not any(part in name for part in changing)
    }


def test_workers_without_an_executor_do_not_train(registered, place, capsys):
    before = sorted(place.iterdir())
    assert run(["train", "-K", "3", "--model", "m", "--scheduler", "pickled:2", "-q"]) == 2
    assert capsys.readouterr().err == (
        "topics: --scheduler pickled:2: its workers cannot train; leave out --scheduler to train "
        "on this machine\n"
    )
    assert sorted(place.iterdir()) == before


def test_the_text_before_the_colon_names_the_scheduler(registered):
    assert scheduler_class("pickled:2") is Pickled
    for value in ("local:2", "tcp://10.0.0.1:8786", "10.0.0.1:8786", "scheduler.json", "pickled"):
        assert scheduler_class(value).__name__ == "DaskCluster"


@pytest.mark.parametrize(
    ("sizes", "most", "spans"),
    [
        ([1] * 8, 100, [(i, i + 1) for i in range(8)]),  # four tasks for each of two workers
        ([1] * 16, 100, [(i, i + 2) for i in range(0, 16, 2)]),
        ([1] * 40, 2, [(i, i + 2) for i in range(0, 40, 2)]),  # none is larger than asked
        ([0, 0, 0], 5, [(0, 3)]),
        ([], 5, []),
    ],
)
def test_tasks_cover_everything_in_order(sizes, most, spans):
    assert list(Pickled().task_ranges(sizes, most)) == spans


def test_threads_of_a_task_are_as_given_or_those_of_its_worker():
    assert threads_of_worker(None) == default_threads()
    assert run_task(threads_of_worker, None, 7) == 7
    assert run_task(threads_of_worker, 3, 7) == 3
    assert threads_of_worker(None) == default_threads()


def test_workers_share_memory_that_nobody_stated():
    assert Pickled().memory(MemoryLimit(4 << 30, True)) == 4 << 30
    assert Pickled().memory(MemoryLimit(4 << 30, False)) == 2 << 30
    assert Pickled().memory(MemoryLimit(FLOOR, False)) == FLOOR


def test_dask_trains_with_scheduler_alone(place):
    import topicstream

    with pytest.raises(UsageError, match="give the workers with scheduler= instead"):
        topicstream.train("corpus.zarr", "m", topics=3, executor="dask", progress=False)
