"""Verbs on a Dask cluster (``ingest``, ``infer``, ``eval``, ``compare``, ``sweep``): the bytes of
one machine, or a line that says why not.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.listening import Listening
from topicstream.addons.cluster import scheduler
from topicstream.addons.cluster.scheduler import DaskCluster
from topicstream.base.errors import DoesNotFit, TopicsError, UsageError, WorkersLost
from topicstream.base.memory import MemoryLimit
from topicstream.cli.main import run
from topicstream.evaluation import memory, visiting
from topicstream.ingestion.pipeline import ingest

distributed = pytest.importorskip("distributed")

WORDS = [
    "river",
    "water",
    "stone",
    "forest",
    "night",
    "music",
    "song",
    "piano",
    "market",
    "price",
    "bank",
    "trade",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A store of 9,000 documents (two batches) and a model of it."""
    folder = tmp_path_factory.mktemp("cluster")
    draw = random.Random(1)
    texts = (
        " ".join(draw.choices(WORDS[4 * (n % 3) : 4 * (n % 3) + 4] + WORDS[:2], k=8))
        for n in range(9000)
    )
    (folder / "d.jsonl").write_text(
        "".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts))
    )
    assert (
        run(
            [
                "ingest",
                str(folder / "d.jsonl"),
                "--out",
                str(folder / "c.zarr"),
                "--heldout",
                "5%",
                "-q",
            ]
        )
        == 0
    )
    command = [
        "train",
        "--corpus",
        str(folder / "c.zarr"),
        "--model",
        str(folder / "m"),
        "-K",
        "3",
        "--passes",
        "3",
        "-q",
    ]
    assert run(command) == 0
    return folder


def test_infer_writes_the_same_file(here, cluster, capsys):
    command = ["infer", str(here / "c.zarr"), "--model", str(here / "m")]
    for name in ("one.parquet", "one.csv"):
        assert run([*command, "--out", str(here / name)]) == 0
        other = here / name.replace("one", "two")
        assert run([*command, "--out", str(other), "--scheduler", cluster]) == 0
        assert other.read_bytes() == (here / name).read_bytes()
    assert not [p for p in here.iterdir() if p.name.startswith(".topics-infer-")]
    capsys.readouterr()


def test_eval_gives_the_same_figures(here, cluster, monkeypatch, capsys):
    monkeypatch.setattr(visiting, "CELLS_OF_TASK", 1)
    monkeypatch.setattr(memory, "BLOCK_CELLS", 1 << 12)
    command = ["eval", "--model", str(here / "m"), "--corpus", str(here / "c.zarr"), "--json"]
    for what in (
        [],
        ["--training", "--whole"],
        ["--heldout", str(here / "c.zarr"), "--fold-in", "vb"],
    ):
        results = []
        for extra in ([], ["--scheduler", cluster]):
            assert run([*command, *what, *extra]) == 0
            results.append(capsys.readouterr().out)
        assert results[0] == results[1] and "perplexity" in results[0]
    for name, extra in (("one", []), ("two", ["--scheduler", cluster])):
        assert (
            run([*command, "--heldout", "--per-document", str(here / f"{name}.docs.csv"), *extra])
            == 0
        )
    assert (here / "one.docs.csv").read_bytes() == (here / "two.docs.csv").read_bytes()
    capsys.readouterr()


@pytest.mark.product
def test_eval_of_clusters_and_of_a_sample_gives_the_same_figures(here, cluster, tmp_path, capsys):
    train = ["train", "--corpus", str(here / "c.zarr"), "-K", "3", "--passes", "3", "-q"]
    for name, more in (("clusters", ["--algo", "mixture"]), ("sample", ["--sample", "50%"])):
        assert run([*train, "--model", str(tmp_path / name), *more]) == 0
        capsys.readouterr()
        command = [
            "eval",
            "--model",
            str(tmp_path / name),
            "--corpus",
            str(here / "c.zarr"),
            "--training",
            "--heldout",
            "--json",
        ]
        results = []
        for extra in ([], ["--scheduler", cluster]):
            assert run([*command, *extra]) == 0
            results.append(capsys.readouterr().out)
        assert results[0] == results[1], name


def test_compare_gives_the_same_figures(here, cluster, tmp_path, capsys):
    train = ["train", "--corpus", str(here / "c.zarr"), "-K", "4", "--passes", "2", "-q"]
    assert run([*train, "--model", str(tmp_path / "other")]) == 0
    results = []
    for extra in ([], ["--scheduler", cluster]):
        capsys.readouterr()
        assert run(["compare", str(here / "m"), str(tmp_path / "other"), "--json", *extra]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A relative folder of files of JSON lines, one of which is compressed."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(2)
    Path("in").mkdir()
    for n in range(9):
        texts = [" ".join(draw.choices(WORDS[n % 3 :], k=9)) for _ in range(300)]
        lines = "".join(
            json.dumps({"id": f"{n}-{i}", "text": text, "day": str(n)}) + "\n"
            for i, text in enumerate(texts)
        )
        with gzip.open("in/4.jsonl.gz", "wt") if n == 4 else open(f"in/{n}.jsonl", "w") as file:
            file.write(lines)
    return Path("in")


def contents(store):
    """Every file of a store, but for where its input lay."""
    return {
        p.relative_to(store): p.read_bytes()
        for p in store.rglob("*")
        if p.is_file() and p.name != ".inputs.json"
    }


class StopAfter(Listening):
    """Ends an ingest once so many bytes are read, as a kill would."""

    def __init__(self, read):
        super().__init__()
        self.read = read

    def step(self, what, done=0, total=None, unit="", documents=0):
        if what == "reading" and done > self.read:
            raise KeyboardInterrupt


def test_ingest_makes_the_same_store(files, cluster, capsys):
    command = ["ingest", "in", "--meta", "day", "--heldout", "5%"]
    assert run([*command, "--out", "one.zarr"]) == 0
    assert run([*command, "--out", "two.zarr", "--scheduler", cluster]) == 0
    one, two = (
        text.split("MB/s")[0].rsplit(";", 1)[0]
        for text in capsys.readouterr().out.split("two.zarr")
    )
    assert one.replace("one.zarr", "") == two
    assert contents(Path("one.zarr")) == contents(Path("two.zarr"))
    assert not [p for p in Path().iterdir() if ".wip" in p.name]


@pytest.mark.quick("*out")
@pytest.mark.parametrize(
    "there", [(True, False), (False, True), (True, True)], ids=["out", "back", "stays"]
)
@pytest.mark.product
def test_an_ingest_moves_between_one_machine_and_a_cluster(files, cluster, there):
    given = {"min_df": 1, "heldout": 0, "progress": False, "piece_bytes": 1 << 13}
    ingest(files, "whole.zarr", **given)
    first, then = ({"scheduler": cluster} if is_there else {} for is_there in there)
    size = sum(p.stat().st_size for p in files.iterdir())
    with pytest.raises(KeyboardInterrupt):
        ingest(
            files,
            "c.zarr",
            **{**given, "progress": StopAfter(size // 2)},
            **first,
            checkpoint_bytes=1,
        )
    told = Listening()
    ingest(files, "c.zarr", **{**given, "progress": told}, **then)
    assert any("resuming after" in line for line in told.said)
    assert contents(Path("c.zarr")) == contents(Path("whole.zarr"))


def test_what_workers_cannot_read_is_refused(files, cluster, capsys):
    assert run(["ingest", "-", "--out", "c.zarr", "--scheduler", cluster]) == 2
    assert "workers read files and folders" in capsys.readouterr().err
    (files / "7.jsonl").write_text("{broken\n")
    messages = []
    for extra in ([], ["--scheduler", cluster]):
        assert run(["ingest", "in", "--out", "c.zarr", "--force", *extra]) == 3
        messages.append(capsys.readouterr().err)
    assert messages[0] == messages[1] and "in/7.jsonl:1" in messages[0]


def when(seconds):
    """When a task ran, by the clock of its process."""
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def test_a_worker_does_one_task_at_a_time():
    options = {
        "n_workers": 1,
        "threads_per_worker": 3,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    with (
        distributed.LocalCluster(**options, processes=False) as made,
        distributed.Client(made) as client,
    ):
        ran = sorted(DaskCluster(client).map(when, [0.02] * 6))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ran))


def test_tasks_without_a_worker_end_in_a_line(monkeypatch):
    monkeypatch.setattr(scheduler, "LOOK", 0.2)
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    with (
        distributed.LocalCluster(**options, processes=False) as made,
        distributed.Client(made) as client,
    ):
        cluster = DaskCluster(client)
        client.retire_workers(list(cluster.machines), close_workers=True, remove=True)
        with pytest.raises(TopicsError, match="no worker is left"):
            list(cluster.map(when, [0.02]))


@pytest.mark.product
def test_sweep_trains_the_same_models(here, cluster, tmp_path, capsys):
    command = [
        "sweep",
        "--corpus",
        str(here / "c.zarr"),
        "-K",
        "2,3",
        "--seeds",
        "1",
        "--passes",
        "2",
        "--json",
    ]
    results = []
    for name, extra in (("one", []), ("two", ["--scheduler", cluster])):
        assert run([*command, "--out", str(tmp_path / name), *extra]) == 0
        rows = json.loads(capsys.readouterr().out)["runs"]
        results.append([{k: v for k, v in row.items() if k != "seconds"} for row in rows])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ("local:x", 2, "give a number of processes"),
        ("tcp://127.0.0.1:9", 1, "no scheduler answers there"),
        ("nonsense", 2, "not an address"),
        ("no.json", 3, "not a scheduler's file"),
        ("tls://127.0.0.1:9", 2, "speaks TLS, and Dask has no certificates here"),
    ],
)
@pytest.mark.quick("nonsense*", "no.json*")
def test_a_scheduler_that_is_none_is_refused(here, given, code, message, monkeypatch, capsys):
    monkeypatch.setattr(scheduler, "PATIENCE", 1.0)
    out = here / "refused.csv"
    assert (
        run(
            [
                "infer",
                str(here / "c.zarr"),
                "--model",
                str(here / "m"),
                "--out",
                str(out),
                "--scheduler",
                given,
            ]
        )
        == code
    )
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize("verb", ["classifier", "report"])
def test_a_command_of_one_machine_says_so(verb, capsys):
    assert run([verb, "--scheduler", "local:2"]) == 2
    assert f"`topics {verb}` runs on this machine alone" in capsys.readouterr().err


def test_documents_that_workers_cannot_read_are_refused(here, cluster, capsys):
    command = ["infer", "--model", str(here / "m"), "--scheduler", cluster]
    assert run([*command, str(here / "d.jsonl"), "--out", str(here / "x.csv")]) == 2
    assert "run `topics ingest`" in capsys.readouterr().err
    assert run([*command, str(here / "c.zarr")]) == 2
    assert "give --out FILE" in capsys.readouterr().err
    command = ["eval", "--model", str(here / "m"), "--scheduler", cluster]
    assert run([*command, "--heldout", str(here / "d.jsonl")]) == 2
    assert "run `topics ingest`" in capsys.readouterr().err


def fake(raises=None, limit=0, paths=(), **given):
    """A cluster of one worker, which is asked with this version and arithmetic, or raises an error;
    another one does not answer.
    """

    async def set_resources(**resources):
        assert resources == scheduler.RESOURCE

    class Client:
        gone = False

        def wait_for_workers(self, count, timeout):
            pass

        def scheduler_info(self, n_workers):
            return (
                {} if self.gone else {"workers": {"tcp://10.0.0.1:1": {}, "tcp://10.0.0.2:1": {}}}
            )

        async def run(self, function, version, arithmetic, paths, workers):
            if workers == ["tcp://10.0.0.2:1"]:
                raise TimeoutError
            if raises is not None:
                raise raises
            worker = SimpleNamespace(
                contact_address=workers[0],
                set_resources=set_resources,
                status=distributed.Status.running,
            )
            worker.state = SimpleNamespace(nthreads=1, total_resources={})
            worker.memory_manager = SimpleNamespace(memory_limit=limit)
            asked = {"version": version, "arithmetic": arithmetic, "paths": paths, **given}
            return {workers[0]: await function(**asked, dask_worker=worker)}

        def sync(self, function):
            return asyncio.run(function())

    return DaskCluster(Client(), paths)


def test_a_worker_that_does_not_suit_is_refused():
    with pytest.raises(
        UsageError,
        match=rf"10\.0\.0\.1:1 has topicstream {re.escape(scheduler.__version__)}, the command "
        rf"0\.0\.9",
    ):
        fake(version="0.0.9")
    missing = "ModuleNotFoundError(\"No module named 'topicstream'\")"
    for error in (ImportError(missing), Exception(missing)):  # Dask says it so or so
        with pytest.raises(
            UsageError,
            match=r"10\.0\.0\.1:1 cannot run topicstream.*No module named.*install it there",
        ):
            fake(raises=error)
    with pytest.raises(UsageError, match="another instruction set"):
        fake(arithmetic="0" * 16)
    with pytest.raises(UsageError, match=r"cannot read /data/c\.zarr"):
        fake(paths=["/data/c.zarr"])
    with pytest.raises(DoesNotFit, match=r"Dask allows worker.*--memory-limit 1024MiB"):
        fake(limit=512 << 20).memory(MemoryLimit.parse("1G"))
    assert fake().memory(MemoryLimit.parse("1G")) == 1 << 30
    default = MemoryLimit(1 << 30, stated=False)
    with pytest.raises(DoesNotFit, match=r"300 MB, and every worker needs at least 512.*512MiB"):
        fake(limit=300 << 20).memory(default)
    assert fake(limit=600 << 20).memory(default) == 512 << 20


def test_workers_that_do_not_answer_or_are_lost_are_left_out():
    cluster = fake()
    assert list(cluster.machines) == ["tcp://10.0.0.1:1"]
    with pytest.raises(WorkersLost, match="0 workers are left, and --workers-min is 1") as lost:
        cluster.lose(["tcp://10.0.0.1:1"])
    assert lost.value.exit_code == 7
    cluster = fake()
    cluster.client.gone = True  # the scheduler died
    with pytest.raises(WorkersLost, match="0 workers are left"):
        cluster.lose([])


def doubled(number):
    return 2 * number


@pytest.mark.product
def test_tasks_go_on_when_every_worker_has_been_replaced(monkeypatch):
    """Dask gives tasks that no worker could take to one that comes, but not to one that is found
    fit later.
    """
    monkeypatch.setattr(scheduler, "LOOK", 8.0)  # twice, and no worker has come: that is told
    started = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with started as local, distributed.Client(local) as client:
        cluster = DaskCluster(client)
        local.scale(0)
        while client.scheduler_info(n_workers=-1)["workers"]:
            time.sleep(0.05)
        threading.Timer(0.5, lambda: local.scale(1)).start()
        assert list(cluster.map(doubled, [1, 2, 3])) == [2, 4, 6]


def test_a_worker_that_ends_while_it_is_started_is_a_line(here, monkeypatch, capsys):
    def fails(**options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", fails)
    assert (
        run(
            [
                "infer",
                str(here / "c.zarr"),
                "--model",
                str(here / "m"),
                "--out",
                str(here / "x.csv"),
                "--scheduler",
                "local:2",
            ]
        )
        == 7
    )
    assert (
        "a worker ended while it was started (RuntimeError); run the same command again"
        in capsys.readouterr().err
    )


@pytest.mark.product
def test_dask_is_not_imported_without_a_scheduler(here):
    code = (
        "import sys; from topicstream.cli.main import run; "
        f"run(['infer', {str(here / 'c.zarr')!r}, '--model', {str(here / 'm')!r}, '--out', "
        f"{os.devnull!r}]); "
        "assert not {'dask', 'distributed'} & {name.split('.')[0] for name in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.campaign
def test_a_script_without_a_guard_runs_once(here, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import pathlib, topicstream; print('begins'); "
        f"topicstream.infer({str(here / 'm')!r}, pathlib.Path({str(here / 'c.zarr')!r}), "
        f"out='out.csv', scheduler='local:2'); "
        "print(__file__)"
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["begins", str(script)] and (tmp_path / "out.csv").stat().st_size
    assert "Traceback" not in done.stderr
