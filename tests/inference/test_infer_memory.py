"""What `topics infer` holds: no more for many documents than for few, and little above the
model.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.cgroup import memory_cgroup, run_in
from tests.small_store import store
from topicstream.cli.main import run
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.manifest import Origin
from topicstream.model.store import ModelWriter
from topicstream.model.topic_model import TopicModel

pytestmark = pytest.mark.slow

W = 20_000
K = 100
DOCUMENTS = 600_000
CHILD = """
import os, sys
import topicstream
from pathlib import Path
from topicstream.base import machine
held = []
def answered(what, done, total):
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    held.append((done, pages * os.sysconf("SC_PAGE_SIZE")))
store, model, out = sys.argv[1:]
topicstream.infer(model, Path(store), out=out, top=3, threads=2, mem_limit='512M', force=True, \
progress=answered)
settled = [now for done, now in held if 100_000 < done <= 200_000]
later = [now for done, now in held if done > 200_000]
print(max(settled), max(later), machine.peak_bytes())
"""


def said(program: str, *args: object) -> list[int]:
    """The numbers, in MiB, that a process of its own says."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [int(n) >> 20 for n in done.stdout.split()]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A model of 8 MB and a store of documents of three words."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(4)
    names = [f"word{i}" for i in range(W)]
    TopicModel.from_arrays(rng.gamma(0.1, 50, (W, K)), names, 0.1, 0.01).save(folder / "model")
    words = np.sort(rng.integers(0, 12, (DOCUMENTS, 3)), axis=1)
    matrix = np.zeros((DOCUMENTS, 12), np.uint8)
    matrix[np.arange(DOCUMENTS)[:, None], words] = 1
    store(folder / "corpus.zarr", matrix, matrix[:0], names[:12], blocks=14, ids=True)
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize("out", ["x.parquet", "x.jsonl"])
def test_memory_does_not_grow_with_the_documents_and_is_within_the_limit(made, out):
    def run() -> list[int]:
        return said(CHILD, made / "corpus.zarr", made / "model", made / out)

    run()  # compiles
    settled, later, peak = run()
    # Within one process, and without the pages of libraries, which come and go: to hold the
    # documents would take 32.
    assert later - settled < 16, (settled, later)
    assert peak <= 512


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_limit_is_kept_or_refused_with_one_that_does(tmp_path, form):
    """Rows of a thousand topics, most of them on disk: within a cgroup of the smallest limit."""
    topics = 1000
    words = 100_000
    rng = np.random.default_rng(1)
    names = pa.array([f"w{i}" for i in range(words)], pa.large_string())
    rows = rng.gamma(0.1, 5, (1000, topics)).astype(np.float32)
    with ModelWriter(tmp_path / "model", words, topics) as writer:
        for at in range(0, words, len(rows)):
            writer.write_rows(at, np.roll(rows, at // len(rows), axis=1))
        writer.commit(Origin(tokenizer=Recipe().to_json()), Vocabulary.from_words(names), 0.1, 0.01)
    text = "".join(
        " ".join(f"w{i}" for i in rng.integers(0, words, 200)) + "\n" for _ in range(600)
    )
    (tmp_path / "a.txt").write_text(text)
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "infer",
        str(tmp_path / "a.txt"),
        "--force",
    ]
    command += [
        "--model",
        str(tmp_path / "model"),
        "--out",
        str(tmp_path / f"out.{form}"),
        "--mem-limit",
    ]
    assert subprocess.run([*command, "2G"], capture_output=True).returncode == 0  # compiles
    refused = subprocess.run([*command, "100M"], capture_output=True, text=True)
    assert refused.returncode == 5, refused.stderr
    smallest = re.search(r"needs at least (\d+)M", refused.stderr)[1]
    with memory_cgroup(int(smallest) << 20) as group:
        done = run_in(group, [*command, f"{smallest}M"])
    assert done.returncode == 0, done.stderr
    assert 2 * 4 * words * topics > int(smallest) << 20  # the table did lie on disk


@pytest.mark.parametrize("method", [("gibbs", "--joint"), ("gibbs1",)])
def test_methods_that_hold_all_documents_are_refused_beforehand(
    tmp_path, capsys, method, monkeypatch
):
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 20_000, 300)) for _ in range(700)]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    store = str(tmp_path / "c.zarr")
    model = str(tmp_path / "m")
    assert run(["ingest", str(tmp_path / "in.jsonl"), "--out", store, "--min-df", "1", "-q"]) == 0
    line = [
        "train",
        "--corpus",
        store,
        "--model",
        model,
        "--algo",
        "gs",
        "-K",
        "60",
        "--passes",
        "1",
        "--tol",
        "0",
        "-q",
    ]
    assert run(line) == 0
    line = [
        "infer",
        str(tmp_path / "in.jsonl"),
        "--model",
        model,
        "-o",
        str(tmp_path / "a.jsonl"),
        "-q",
        "--threads",
        "1",
    ]
    line += ["--method", *method, "--burn", "0", "--sweeps", "1"]
    line += ["--trained-on", store] if method == ("gibbs1",) else []
    capsys.readouterr()
    monkeypatch.setattr(
        "topicstream.base.memory.PROCESS_BYTES", 480 << 20
    )  # as if the documents were many
    assert run([*line, "--mem-limit", "512M"]) == 5
    said = capsys.readouterr().err
    assert "reads all documents before it answers" in said and not (tmp_path / "a.jsonl").exists()
    assert run([*line, "--mem-limit", re.search(r"(\d+)M would do", said)[1] + "M"]) == 0
