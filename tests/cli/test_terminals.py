"""What reaches a terminal, and what a signal leaves: words escaped, SIGTERM and SIGHUP end every
command with 143 and no file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests import ROOT
from tests.ingest_tools import documents, write_jsonl
from topicstream import TopicModel
from topicstream.base.errors import terminal_safe
from topicstream.cli.main import run
from topicstream.ingestion.pipeline import ingest
from topicstream.training.loop import train

pytestmark = pytest.mark.slow

NASTY = ["\x1b[2J\x1b]0;owned\x07", "a\u202eb", "\x9b31m", "plain", "na\u200cme"]


def test_words_and_ids_are_escaped():
    assert [terminal_safe(w) for w in NASTY[:3]] == [
        "\\x1b[2J\\x1b]0;owned\\x07",
        "a\\u202eb",
        "\\x9b31m",
    ]
    assert terminal_safe("na\u200cme") == "na\u200cme"  # a joiner belongs to the word


def test_show_and_compare_on_a_terminal(tmp_path, capsys):
    phi = [[5.0, 0.0], [4.0, 1.0], [3.0, 0.0], [0.0, 9.0], [1.0, 8.0]]
    TopicModel.from_arrays(phi, NASTY, 0.1, 0.01).save(tmp_path / "a")
    TopicModel.from_arrays(phi[::-1], NASTY, 0.1, 0.01).save(tmp_path / "b")
    for line in (
        ["show", "--model", str(tmp_path / "a")],
        ["compare", str(tmp_path / "a"), str(tmp_path / "b")],
    ):
        assert run(line) == 0
        out = capsys.readouterr().out
        assert not set(out) & set("\x1b\x07\x9b\u202e") and "\\x1b" in out


ENDED = [
    (name, signal.SIGTERM) for name in ("eval", "compare", "show", "infer", "report", "export")
]


def _heed_signals() -> None:
    """These tests may run under nohup, or in the background of a shell, where a signal is ignored
    from the start.
    """
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("command", "signum"), [*ENDED, ("infer", signal.SIGHUP), ("export", signal.SIGINT)]
)
def test_a_signal_ends_a_command_cleanly(tmp_path, command, signum):
    """The signal comes while the command reads: a fifo holds it there."""
    write_jsonl(tmp_path / "in.jsonl", documents(60))
    ingest(tmp_path / "in.jsonl", tmp_path / "s.zarr")
    train(tmp_path / "s.zarr", tmp_path / "m", algo="bp", topics=3, passes=1, threads=1)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    lines = {
        "eval": ["eval", "--model", "m", "--corpus", "s.zarr", "--heldout", "in.jsonl"],
        "compare": ["compare", "m", "m"],
        "show": ["show", "--model", "m", "--corpus", "s.zarr", "--theta", "a.csv"],
        "infer": ["infer", "in.jsonl", "--model", "m", "-o", "a.csv"],
        "report": ["report", "m", "--corpus", "s.zarr"],
        "export": ["export", "--model", "m", "-o", "a.parquet"],
    }
    hooks = {
        "eval": "topicstream.ingestion.pipeline.ingest",
        "compare": "topicstream.evaluation.matching.compare",
        "show": "topicstream.inference.infer.Answers.encode_all",
        "infer": "topicstream.inference.infer.Answers.encode_all",
        "report": "topicstream.addons.report.page.format_page",
        "export": "pyarrow.parquet.ParquetWriter",
    }
    module, _, name = hooks[command].rpartition(".")
    owner = module.removesuffix(".Answers")
    code = f"""
import importlib, sys, time
import topicstream.cli.main as cli
owner = importlib.import_module({owner!r})
owner = getattr(owner, "Answers") if {module.endswith("Answers")} else owner
def stall(*args, **kwargs):
    print("here", flush=True)
    time.sleep(3600)
getattr(owner, {name!r})  # or it would never be called
setattr(owner, {name!r}, stall)
sys.argv = ["topics", *{lines[command]!r}]
cli.main()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    before = sorted(p.name for p in tmp_path.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_signals,
    )
    assert process.stdout.readline() == b"here\n"
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    said = "interrupted" if signum == signal.SIGINT else "stopped"
    assert process.returncode == (130 if signum == signal.SIGINT else 143), (
        err
    )  # a terminal that closes: as SIGTERM
    assert err.decode().strip().splitlines()[-1].startswith(f"topics: {said}")
    assert not list(temporary.iterdir()) and sorted(p.name for p in tmp_path.iterdir()) == before


def test_what_is_registered_for_the_end_runs_and_the_exit_code_stays():
    code = (
        "import atexit, sys; from topicstream.cli.main import main; atexit.register(print, "
        "'last'); "
    )
    code += "sys.argv = ['topics', 'train', '--tol', 'nan']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "last\n")


def test_a_header_of_negative_sizes(tmp_path, capsys):
    (tmp_path / "docword.x.txt").write_text("-1\n3\n2\n1 1 1\n1 2 1\n")
    (tmp_path / "vocab.x.txt").write_text("a\nb\nc\n")
    assert run(["ingest", str(tmp_path / "docword.x.txt"), "--out", str(tmp_path / "s.zarr")]) == 3
    said = capsys.readouterr().err
    assert "docword.x.txt" in said and "D, W and NNZ" in said


@pytest.mark.parametrize(
    "line",
    [
        ["train", "--tol", "nan"],
        ["train", "--tol", "inf"],
        ["train", "--alpha", "nan"],
        ["train", "--seed", str(1 << 63)],
        ["train", "--block-cells", str(1 << 40)],
        ["train", "--threads", "1000000"],
        ["train", "--max-time", "9" * 400],
        ["train", "--checkpoint-minutes", "inf"],
        ["train", "-K", str(1 << 63)],
        ["ingest", "raw", "--min-df", "-1"],
        ["ingest", "raw", "--min-length", str(1 << 63)],
        ["ingest", "raw", "--workers", "-2"],
        ["ingest", "raw", "--heldout", "nan%"],
        ["ingest", "raw", "--max-df", "nan%"],
        ["ingest", "raw", "--mem-limit", "-5"],
        ["infer", "raw", "--min-prob", "nan"],
        ["infer", "raw", "--tol", "inf"],
        ["eval", "--threads", str(1 << 63)],
        ["show", "--relevance", "nan"],
        ["compare", "a", "b", "--far", "nan"],
        ["update", "--tol", "nan"],
    ],
)
def test_numbers_that_nobody_means_are_usage_errors(tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    assert run(line) == 2, capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["raw"]
