"""A signal inside the query engine, or inside any library, ends a command as a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

from tests import ROOT
from tests.ingest_tools import cells_by_id, documents, write_jsonl
from topicstream import ingest
from topicstream.base.errors import Stopped, StoreError
from topicstream.base.relations import Relations
from topicstream.base.signals import find_cause, forget_signals, note_signal
from topicstream.cli import main as cli

LONG = "select count(*) c from range(100000000) a, range(1000) b where (a.range + b.range) % 7 = 3"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


class Rung(BaseException):
    """What the handler of a test raises."""


def ring(signum, frame):
    raise Rung


@pytest.fixture
def alarm():
    """A function after which SIGALRM comes, whose handler raises Rung."""
    before = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.5)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.quick("execute", "stream")
@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.execute(f"create table t as {LONG}"),
        lambda r: r.number(LONG),
        lambda r: list(r.stream(LONG)),
        lambda r: list(r.stream(f"select * from ({LONG}) order by c")),
    ],
    ids=["execute", "number", "stream", "sorted"],
)
def test_what_a_handler_raises_ends_a_query_at_once(tmp_path, alarm, ask):
    with Relations(tmp_path, 1 << 28) as relations:
        began = time.monotonic()
        alarm()
        with pytest.raises(Rung):
            ask(relations)
        assert time.monotonic() - began < 20  # the query takes minutes
        relations.insert("numbers", pa.table({"x": [1, 2, 3]}))
        assert relations.number("select sum(x) from numbers") == 6


def test_queries_in_another_thread_and_their_errors(tmp_path):
    seen = []

    def work():
        with Relations(tmp_path, 1 << 28) as relations:
            relations.insert("numbers", pa.table({"x": [3, 1, 2]}))
            batches = relations.stream("select x from numbers order by x")
            seen.extend(pa.Table.from_batches(batches)["x"].to_pylist())
            with pytest.raises(Exception, match="no_such_table") as raised:
                relations.execute("select * from no_such_table")
            seen.append(type(raised.value).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1, 2, 3, "CatalogException"]


STALL = f"""
import signal, sys
import topicstream.cli.main as cli
from topicstream.base.relations import Relations
real = Relations.execute
def execute(self, sql):
    if not hasattr(Relations, "stalled"):
        Relations.stalled = True
        print("here", flush=True)
        real(self, "create table never as {LONG}")
    real(self, sql)
Relations.execute = execute
sys.argv = ["topics", *sys.argv[1:]]
cli.main()
"""


def _heed_signals() -> None:
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)


@pytest.mark.quick("plain")
@pytest.mark.parametrize(
    ("signum", "more"),
    [
        (signal.SIGINT, []),
        (signal.SIGHUP, ["--phrases", "0.1"]),
        (signal.SIGTERM, ["--meta", "authors"]),
        (signal.SIGTERM, ["--meta-file", "side.jsonl"]),
    ],
    ids=["plain", "phrases", "axes", "side"],
)
@pytest.mark.product
def test_a_signal_in_a_query_of_a_command(tmp_path, more, signum):
    line = ["ingest", "in.jsonl", "--out", "o.zarr", *more]
    write_jsonl(tmp_path / "in.jsonl", documents(60))
    write_jsonl(tmp_path / "side.jsonl", [{"id": d["id"], "x": "1"} for d in documents(60)])
    process = subprocess.Popen(
        [sys.executable, "-c", STALL, *line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_signals,
    )
    assert process.stdout.readline() == b"here\n"
    time.sleep(0.3)
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    assert process.returncode == CODES[signum], err
    assert err.decode().splitlines()[-1] == (
        "topics: stopped; the same command again carries on where this one was"
    )
    if line[-2:] == ["--out", "o.zarr"]:
        ingest(tmp_path / "in.jsonl", tmp_path / "o.zarr", progress=False)
        assert len(cells_by_id(tmp_path / "o.zarr")) == 60


def test_a_signal_that_a_library_has_made_an_error_of_its_own(monkeypatch, capsys):
    """Readers of damaged files catch whatever their library raises."""

    def report(**options):
        try:
            raise note_signal(signal.SIGTERM, "stopped; nothing was left half-written")
        except Stopped:
            raise StoreError("c.zarr: chunk 0 is damaged (Query interrupted)") from None

    monkeypatch.setattr(cli, "topics", type("Group", (), {"main": staticmethod(report)}))
    assert cli.run(["report"]) == 143
    assert capsys.readouterr().err == "topics: stopped; nothing was left half-written\n"


def test_an_error_without_a_signal_is_itself():
    forget_signals()
    error = StoreError("c.zarr: chunk 0 is damaged")
    assert find_cause(error) is error
