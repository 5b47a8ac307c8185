"""What scripts/campaigns/fault_campaign.py breaks and runs: a corpus, a model, a run half way, a retrain folder, and the commands on them."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from topicstream.cli.main import run as topics
from topicstream.files.durable import read_json


@dataclass
class Ended:
    """Exit code, both outputs."""

    code: int
    out: str
    err: str


def command(*args: str) -> Ended:
    """One command line in a process of its own (a fork: everything is imported and compiled already)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                code = topics([*args, "-q"])
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode("utf-8", "replace"))
    return Ended(os.waitstatus_to_exitcode(status), *texts)


def text(path: Path, documents: int, first: int, seed: int) -> Path:
    """Documents of made words, JSON lines."""
    rng = random.Random(seed)
    words = ["".join(rng.choice("aeioubcdfglmnprst") for _ in range(6)) for _ in range(300)]
    weights = [1 / (i + 3) for i in range(len(words))]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as f:
        for i in range(first, first + documents):
            drawn = rng.choices(words, weights, k=rng.randint(20, 60))
            f.write(json.dumps({"id": f"d{i}", "text": " ".join(drawn)}) + "\n")
    return path


RETRAIN = """
[ingest]
stopwords = "none"
heldout = "10%"
[train]
algo = "bp"
topics = 4
passes = 3
update_passes = 2
tol = 0.0
[gate]
tolerance = 0.9
topics = false
"""


def ok(*args: str) -> None:
    """A command that prepares something and must work."""
    done = command(*args)
    if done.code:
        raise SystemExit(f"topics {' '.join(args)}: {done.code}: {done.err}")


def prepare(base: Path) -> None:
    """Everything the faults are made on, in ``base``."""
    a, b = text(base / "a.jsonl", 300, 0, 1), text(base / "b.jsonl", 60, 280, 2)
    text(base / "c.jsonl", 40, 400, 3)
    store = str(base / "corpus.zarr")
    ingest = ["ingest", "--min-df", "1", "--stopwords", "none", "--heldout", "10%", "--out", store]
    ok(*ingest, str(a))
    ok(*ingest, str(b), "--append", "--grow-vocab", "--on-duplicate", "replace")  # so there are removed documents
    train = ["train", "--corpus", store, "-K", "5", "--tol", "0", "--block-cells", "3000", "--threads", "1"]
    ok(*train, "--model", str(base / "model"), "--algo", "bp", "--passes", "3")
    ok(*train, "--model", str(base / "half"), "--algo", "bp", "--passes", "2")
    ok("ingest", str(base / "c.jsonl"), "--out", str(base / "more.zarr"), "--min-df", "1", "--stopwords", "none")
    chain = base / "chain"
    chain.mkdir()
    shutil.copy(a, text(chain / "raw" / "a.jsonl", 1, 0, 1))
    (chain / "retrain.toml").write_text(RETRAIN)
    ok("retrain", "--config", str(chain / "retrain.toml"))
    shutil.copy(base / "c.jsonl", chain / "raw" / "c.jsonl")


def fresh(base: Path, at: Path, folders: tuple[str, ...] = ()) -> None:
    """A copy to break: of everything, or of these folders and the raw text."""
    shutil.rmtree(at, ignore_errors=True)
    if not folders:
        shutil.copytree(base, at, symlinks=True)
        return
    at.mkdir()
    for name in folders:
        shutil.copytree(base / name, at / name, symlinks=True)
    for path in base.glob("*.jsonl"):
        shutil.copyfile(path, at / path.name)


def warm(base: Path) -> None:
    """Run every command once in this process, so that the forks have all modules and kernels."""
    at = base.with_name("warm")
    for job in jobs():
        fresh(base, at)
        with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()) as said:
            code = topics([*job.line(at), "-q"])
        if code:
            raise SystemExit(f"{job.name} fails on undamaged files: {said.getvalue()}")
    shutil.rmtree(at)


def model_digest(folder: Path) -> str:
    """The model's table and words, and what a resume would begin from; times and versions left out."""
    from topicstream.model.topic_model import TopicModel
    from topicstream.training.state.checkpoint import content_hash

    model = TopicModel.open(folder)
    kept = content_hash(folder) if (folder / "checkpoints").is_dir() else ""
    return f"{model.content_hash()} {kept}"


@dataclass(frozen=True)
class Job:
    """A command: its line (in the copy at ``at``), what its result is, and what it may not change when it fails."""

    name: str
    line: Callable[[Path], list[str]]
    result: Callable[[Path, Ended], str]
    finds_all: tuple[str, ...] = ()  # folders whose every damage it has to find


def stdout(at: Path, done: Ended) -> str:
    """The result is what is printed, without the place."""
    return done.out.replace(str(at), "")


def jobs() -> list[Job]:
    """The commands."""

    def at_store(at: Path) -> list[str]:
        return ["--corpus", str(at / "corpus.zarr")]

    train = ["-K", "5", "--tol", "0", "--block-cells", "3000", "--threads", "1", "--algo", "bp"]

    def tail(path: str) -> Callable[[Path, Ended], str]:
        return lambda at, done: model_digest(at / path)

    def fingerprint(path: str) -> Callable[[Path, Ended], str]:
        return lambda at, done: str(read_json(at / path / "manifest.json")["fingerprint"])

    return [
        Job("info --verify (corpus)", lambda at: ["info", str(at / "corpus.zarr"), "--verify"], stdout, ("corpus.zarr",)),
        Job("info --verify (model)", lambda at: ["info", str(at / "model"), "--verify"], stdout, ("model",)),
        Job("train", lambda at: ["train", *at_store(at), "--model", str(at / "new"), *train, "--passes", "2"], tail("new")),
        Job("train, going on", lambda at: ["train", *at_store(at), "--model", str(at / "half"), *train, "--passes", "4"],
            tail("half"), ("half",)),
        Job("eval", lambda at: ["eval", *at_store(at), "--model", str(at / "model"), "--json"], stdout),
        Job("infer", lambda at: ["infer", str(at / "corpus.zarr"), "--model", str(at / "model")], stdout),
        Job("infer (text)", lambda at: ["infer", str(at / "c.jsonl"), "--model", str(at / "model")], stdout),
        Job("show --docs", lambda at: ["show", *at_store(at), "--model", str(at / "model"), "--docs", "2"], stdout),
        Job("update", lambda at: ["update", "--corpus", str(at / "corpus.zarr"), "--model", str(at / "model"), "--out",
                                  str(at / "updated"), "--passes", "2", "--threads", "1"], tail("updated")),
        Job("ingest --append", lambda at: ["ingest", str(at / "c.jsonl"), "--out", str(at / "corpus.zarr"), "--append",
                                           "--grow-vocab", "--on-duplicate", "replace", "--min-df", "1", "--stopwords", "none"],
            fingerprint("corpus.zarr")),
        Job("retrain --full", lambda at: ["retrain", "--config", str(at / "chain" / "retrain.toml"), "--full"],
            lambda at, done: model_digest((at / "chain" / "current").resolve()).split()[0]),
    ]  # fmt: skip


TOUCHES = {  # the folders each command reads
    "info --verify (corpus)": ("corpus.zarr",),
    "info --verify (model)": ("model",),
    "train": ("corpus.zarr",),
    "train, going on": ("corpus.zarr", "half"),
    "eval": ("corpus.zarr", "model"),
    "infer": ("corpus.zarr", "model"),
    "infer (text)": ("model",),
    "show --docs": ("corpus.zarr", "model"),
    "update": ("corpus.zarr", "model"),
    "ingest --append": ("corpus.zarr",),
    "retrain --full": ("chain",),
}
