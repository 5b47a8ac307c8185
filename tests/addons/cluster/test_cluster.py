"""A training on the workers of a Dask cluster ends in the bits of one machine, whoever is lost on
the way.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests import ROOT, few_quick
from tests.addons.cluster.conftest import APART, MEMBERS
from tests.contract.test_engines import components
from tests.listening import Listening
from tests.planted import draw, sides, store
from tests.retrain_tools import folder, made, write
from topicstream.addons.cluster import scheduler
from topicstream.base.errors import DoesNotFit, TopicsError, WorkersLost
from topicstream.base.memory import MemoryLimit
from topicstream.base.progress import Shown
from topicstream.cli.main import run
from topicstream.engines import engines
from topicstream.ingestion.pipeline import ingest
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.plan import Allowance, StartMemory, make_plan
from topicstream.training.setup import make_start

distributed = pytest.importorskip("distributed")
cluster_module = pytest.importorskip("topicstream.addons.cluster.executor")
member = pytest.importorskip("topicstream.addons.cluster.member")

GIVEN = {
    "topics": 5,
    "passes": 3,
    "tol": 0,
    "block_cells": 1000,
    "round_blocks": 3,
    "threads": 1,
    "seed": 1,
}
OPTIONS = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    phi, indptr, words, counts = draw(docs=400, words=120, topics=5, length=60, seed=3)
    lists = sides(phi, indptr, words, counts, seed=7)
    folder = tmp_path_factory.mktemp("members")
    ingest(components(), folder / "vectors.zarr", vectors=True, heldout="10%", progress=False)
    return store(folder / "c.zarr", indptr, words, counts, 120, heldout=40, lists=lists)


@pytest.fixture
def client(cluster):
    """Of the workers, of which a command sees two."""
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A loaded machine is no lost worker."""
    monkeypatch.setattr(cluster_module, "SILENCE", 120.0)
    monkeypatch.setattr(scheduler, "ANSWER", 600.0)
    monkeypatch.setattr(scheduler, "PATIENCE", 60.0)


def both(corpus, folder, client, algo, **given):
    """Content hashes of a training here, and on the cluster."""
    path = corpus.with_name("vectors.zarr") if engines()[algo].about.dense else corpus
    hashes = []
    for name, more in (("here", {}), ("there", {"scheduler": client})):
        train(path, folder / name, algo=algo, **{**GIVEN, **given}, **more, progress=Shown(-1))
        hashes.append(content_hash(folder / name))
    return hashes


@pytest.mark.parametrize("algo", few_quick(["sparse-bp", "gs", "svi", "rtm", "fdm"], ["sparse-bp"]))
def test_two_members_make_the_model_of_one_machine(corpus, client, tmp_path, algo):
    here, there = both(corpus, tmp_path, client, algo)
    assert here == there


@APART
@pytest.mark.campaign
@pytest.mark.parametrize("algo", sorted(engines()))
def test_every_engine_on_two_members(corpus, client, tmp_path, algo):
    here, there = both(corpus, tmp_path, client, algo)
    assert here == there


@pytest.mark.parametrize(
    ("members", "algo"),
    [
        (3, "gs"),
        *few_quick([(1, "sparse-bp"), (3, "sparse-bp")], []),
        *(
            pytest.param(members, algo, marks=pytest.mark.campaign)
            for members, algo in ((1, "atbp"), (1, "gs"), (1, "ovb"), (3, "atbp"), (3, "ovb"))
        ),
    ],
)
def test_any_number_of_members(corpus, client, only, tmp_path, members, algo):
    only(members)
    here, there = both(corpus, tmp_path, client, algo)
    assert here == there
    last = json.loads((tmp_path / "there" / "history.jsonl").read_text().splitlines()[-1])
    assert last["cluster"]["workers"] == members


@pytest.mark.campaign
def test_five_members(corpus, tmp_path):
    with (
        distributed.LocalCluster(**OPTIONS, n_workers=5) as made,
        distributed.Client(made) as client,
    ):
        for algo in ("atbp", "sparse-bp", "gs", "ovb"):
            here, there = both(corpus, tmp_path / algo, client, algo)
            assert here == there, algo


@pytest.mark.quick("*tables on disk", "*seed words")
@pytest.mark.parametrize(
    "given",
    [
        {"algo": "atbp", "tables": "disk"},
        {"algo": "sparse-bp", "start": "anchors", "eval_every": 1},
        {"algo": "sparse-bp", "covariates": "labels", "passes": 5},
        {
            "algo": "gs",
            "passes": 12,
            "seed_words": {"x": {"words": ["word3", "word7"], "strength": 30}},
        },
    ],
    ids=["tables on disk", "start by anchors", "covariates", "seed words"],
)
def test_what_else_a_run_may_be(corpus, client, tmp_path, given):
    here, there = both(corpus, tmp_path, client, **given)
    assert here == there


class At(Listening):
    """Does something once, at a round of a pass."""

    def __init__(self, what, round, do):
        super().__init__()
        self.what = what
        self.left = round
        self.do = do

    def step(self, what, done=0, total=None, unit="", documents=0):
        if what == self.what and done:
            self.left -= 1
            if self.left == 0:
                self.do()


def stop():
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("algo", few_quick(["sparse-bp", "gs"], ["gs"]))
def test_a_run_moves_between_one_machine_and_a_cluster_inside_a_pass(
    corpus, client, tmp_path, algo
):
    given = {**GIVEN, "algo": algo}
    train(corpus, tmp_path / "whole", **given, progress=Shown(-1))
    for name, first, then in (
        ("out", {}, {"scheduler": client}),
        ("back", {"scheduler": client}, {}),
    ):
        with pytest.raises(Exception, match="stopped by a signal after 1 pass;"):
            train(corpus, tmp_path / name, **given, **first, progress=At("pass 2/3", 1, stop))
        told = Listening()
        train(corpus, tmp_path / name, **given, **then, progress=told)
        assert any("continuing after 1 pass and 1 round" in line for line in told.said)
        assert content_hash(tmp_path / name) == content_hash(tmp_path / "whole")


@APART
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.slow),
        pytest.param(signal.SIGSTOP, id="stopped", marks=pytest.mark.campaign),
    ],
)
def test_a_run_goes_on_without_a_worker_that_is_lost(corpus, client, tmp_path, monkeypatch, how):
    monkeypatch.setattr(cluster_module, "SILENCE", 40.0)
    train(corpus, tmp_path / "whole", algo="sparse-bp", **GIVEN, progress=Shown(-1))
    address, pid = min(client.run(os.getpid).items())
    told = At("pass 2/3", 1, lambda: os.kill(pid, how))
    try:
        train(corpus, tmp_path / "m", algo="sparse-bp", **GIVEN, scheduler=client, progress=told)
    finally:
        if how == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    client.wait_for_workers(MEMBERS, timeout=300)  # its nanny has started another one
    assert any(f"lost {address}; continuing from the last checkpoint" in line for line in told.said)
    assert content_hash(tmp_path / "m") == content_hash(tmp_path / "whole")


DRIVER = """
import os, signal, sys
sys.path.insert(0, "scripts/tools")
from tests.addons.cluster.test_cluster import GIVEN, At, cluster_module, train
cluster_module.SILENCE = 120.0
killed = At("pass 2/3", 1, lambda: os.kill(os.getpid(), signal.SIGKILL))
train(sys.argv[1], sys.argv[2], algo=sys.argv[4], **GIVEN, scheduler=sys.argv[3], progress=killed)
"""


@APART
@pytest.mark.parametrize(
    "algo",
    [
        pytest.param("sparse-bp", marks=pytest.mark.slow),
        pytest.param("gs", marks=pytest.mark.campaign),
    ],
)
def test_a_driver_that_was_killed_is_started_again(corpus, client, tmp_path, algo):
    train(corpus, tmp_path / "whole", algo=algo, **GIVEN, progress=Shown(-1))
    given = [corpus, tmp_path / "m", client.scheduler.address, algo]
    assert (
        subprocess.run([sys.executable, "-c", DRIVER, *map(str, given)], cwd=ROOT).returncode
        == -signal.SIGKILL
    )
    train(corpus, tmp_path / "m", algo=algo, **GIVEN, scheduler=client, progress=Shown(-1))
    assert content_hash(tmp_path / "m") == content_hash(tmp_path / "whole")


def fill(place):
    """From now on the disk of this worker is full when a method is called, until it is emptied."""
    from importlib import import_module

    module, kind, name = place
    owner = getattr(import_module(module), kind)
    before = getattr(owner, name)

    def fails(self, *args):
        setattr(owner, name, before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/tables")

    setattr(owner, name, fails)


@APART
@pytest.mark.parametrize(
    "place",
    [
        ("topicstream.training.tables", "RunTables", "__init__"),
        ("topicstream.training.threads", "Threads", "visit_part"),
    ],
    ids=["at the beginning", "in a pass"],
)
def test_the_full_disk_of_a_member_is_no_lost_worker(corpus, client, tmp_path, place):
    client.run(fill, place, workers=[min(client.scheduler_info()["workers"])])
    with pytest.raises(DoesNotFit, match="the disk of a worker is full at /scratch/tables") as full:
        train(corpus, tmp_path / "m", algo="atbp", **GIVEN, scheduler=client, progress=Shown(-1))
    assert full.value.exit_code == 5
    train(corpus, tmp_path / "m", algo="atbp", **GIVEN, scheduler=client, progress=Shown(-1))


def spoil():
    """From now on the tables of this worker are not those of others."""
    from topicstream.training.tables import RunTables

    def settle(self, phase):
        return {
            name: found._replace(totals=found.totals + 1.0)
            for name, found in before(self, phase).items()
        }

    before = RunTables.finish_pass
    RunTables.finish_pass = settle


@pytest.mark.campaign
def test_members_whose_tables_differ_end_the_run(corpus, tmp_path):
    train(corpus, tmp_path / "whole", algo="sparse-bp", **GIVEN, progress=Shown(-1))
    with (
        distributed.LocalCluster(**OPTIONS, n_workers=2) as made,
        distributed.Client(made) as client,
    ):
        spoils = At(
            "pass 2/3",
            1,
            lambda: client.run(spoil, workers=[min(client.scheduler_info()["workers"])]),
        )
        with pytest.raises(TopicsError, match="made different topics from"):
            train(
                corpus, tmp_path / "m", algo="sparse-bp", **GIVEN, scheduler=client, progress=spoils
            )
    train(corpus, tmp_path / "m", algo="sparse-bp", **GIVEN, progress=Shown(-1))
    assert content_hash(tmp_path / "m") == content_hash(tmp_path / "whole")


@pytest.mark.campaign
def test_a_run_without_workers_ends_and_is_finished_by_one_machine(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "SILENCE", 40.0)
    train(corpus, tmp_path / "whole", algo="gs", **GIVEN, progress=Shown(-1))
    with (
        distributed.LocalCluster(**OPTIONS, n_workers=1) as made,
        distributed.Client(made) as client,
    ):
        (pid,) = client.run(os.getpid).values()
        try:
            with pytest.raises(WorkersLost, match="0 workers are left") as lost:
                stopping = At("pass 2/3", 1, lambda: os.kill(pid, signal.SIGSTOP))
                train(
                    corpus, tmp_path / "m", algo="gs", **GIVEN, scheduler=client, progress=stopping
                )
        finally:
            os.kill(pid, signal.SIGCONT)
        assert lost.value.exit_code == 7
    train(corpus, tmp_path / "m", algo="gs", **GIVEN, progress=Shown(-1))
    assert content_hash(tmp_path / "m") == content_hash(tmp_path / "whole")


@APART
@pytest.mark.slow
def test_retrain_publishes_the_models_of_one_machine(client, tmp_path):
    topics = []
    for name, line in (("here", ""), ("there", f'scheduler = "{client.scheduler.address}"\n')):
        config = folder(tmp_path / name)
        config.write_text(config.read_text().replace("[train]\n", f"[train]\n{line}"))
        for day in (0, 1):  # a full training, then an update
            if day:
                write(config.parent / "raw" / "more.jsonl", made(50, 7, prefix="new"))
            told = topicstream.retrain(config, stream=io.StringIO())
            assert told["published"] == day + 1
            model = TopicModel.open(config.parent / "current")
            topics.append((model.phi.tobytes(), model.alpha.tobytes(), model.beta))
            if line:
                history = (config.parent / "current" / "history.jsonl").read_text().splitlines()
                assert json.loads(history[-1])["cluster"]["workers"] == 2
    assert topics[:2] == topics[2:] and topics[0] != topics[1]


def test_too_few_workers_are_refused(corpus, client, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scheduler, "PATIENCE", 1.0)
    command = [
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(tmp_path / "m"),
        "--scheduler",
        client.scheduler.address,
    ]
    assert run([*command, "--workers-min", "4", "--algo", "atbp"]) == 1
    assert "2 of 4 workers after 1 s" in capsys.readouterr().err


def test_a_pass_and_a_dry_run_tell_what_the_cluster_does(
    corpus, client, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("topicstream.training.rehearsal.SECONDS", 0.1)
    given = {**GIVEN, "algo": "atbp", "scheduler": client, "progress": Shown(-1)}
    told = train(corpus, tmp_path / "m", **given).last["cluster"]
    assert told["workers"] == 2 and told["sent_bytes"] > 0 and told["blocks"] > 2
    assert told["slowest"] in client.scheduler_info()["workers"]
    found = train(corpus, tmp_path / "none", **given, dry_run=True)
    assert found.last["workers"] == 2 and found.last["speedup"] > 0
    command = [
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(tmp_path / "none"),
        "--scheduler",
        client.scheduler.address,
    ]
    monkeypatch.setattr("topicstream.cli.train.PAYS", 0.0)  # says how fast it is also where it pays
    assert run([*command, "--algo", "atbp", "--passes", "2", "--dry-run"]) == 0
    assert "; 2 workers are " in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_a_member_plans_for_what_the_start_holds(corpus, tmp_path):
    """The seed table of a start comes to every member."""
    jobs = []

    def executor(job):
        jobs.append(job)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "m", algo="sparse-bp", start="best", executor=executor, **GIVEN)
    [job] = jobs
    assert job.start == make_start("best", job.engine).memory(job.engine, job.block) != (0, 0)
    room = Allowance(MemoryLimit.parse("2G"), 2)
    parts = [
        make_plan(member.work_of_member(one, 2), room).memory.parts
        for one in (job, replace(job, start=StartMemory(300 << 20, 50 << 20)))
    ]
    assert parts[1]["start"] == (300 + 2 * 50) << 20
    with pytest.raises(DoesNotFit, match="smallest limit that would do is 2"):
        make_plan(member.work_of_member(replace(job, start=StartMemory(2 << 30)), 2), room)


def test_members_of_one_worker_share_its_limit(tmp_path):
    """The start ``anchors`` has a second member, beside the tables of the first."""
    first = member.Member.__new__(member.Member)
    worker = SimpleNamespace(
        plugins={"other": object(), "first": first},
        state=SimpleNamespace(nthreads=2),
        local_directory=str(tmp_path),
    )
    alone = Allowance(MemoryLimit.parse("2G"), 0)
    assert member.find_room(alone, worker) == replace(alone, threads=2, folder=str(tmp_path))
    first.table_bytes = 300 << 20
    room = member.find_room(alone, worker)
    assert room.process == alone.process + (300 << 20)
    assert room.limit == alone.limit and room.threads == 2


def held_by_members(dask_worker):
    """Bytes that the members of a worker hold, and what a third one would count."""
    plugins = dask_worker.plugins.values()
    held = [plugin.table_bytes for plugin in plugins if isinstance(plugin, member.Member)]
    room = member.find_room(Allowance(MemoryLimit.parse("2G"), 1), dask_worker)
    return held, room.process - Allowance(MemoryLimit.parse("2G"), 1).process


@APART
@pytest.mark.slow
def test_the_members_of_the_start_anchors_know_of_each_other(corpus, client, tmp_path):
    seen = []

    def look():
        seen.append(client.run(held_by_members))
        raise KeyboardInterrupt

    given = {**GIVEN, "algo": "sparse-bp", "start": "anchors", "scheduler": client}
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "m", **given, progress=At("start", 1, look))
    members = [(held, counted) for held, counted in seen[0].values() if held]
    both = [held for held, _ in members if len(held) == 2 and min(held) > 0]
    assert both  # a member that joins late is not there yet
    for held, counted in members:
        assert counted == sum(held)


def test_rounds_are_dealt_evenly():
    cells = np.array([5, 4, 3, 3, 3, 6, 1, 1])
    owners = cluster_module.assign_blocks(cells, 4, 2)
    assert np.bincount(owners[:4], cells[:4]).tolist() == [8, 7] and set(owners[4:]) == {0, 1}
