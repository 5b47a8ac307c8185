"""The memory promise, inside a cgroup of exactly the limit: it finishes, or it refuses beforehand
with code 5.

The kernel holds the limit: a run that needs more is killed. Resident memory says less: it also
counts pages of libraries that another process loaded first, which are charged to that one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_bits import content_hash

from tests.cgroup import memory_cgroup, run_in
from tests.planted import store
from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.gate import open_models

pytestmark = pytest.mark.slow


def zipf_corpus(path: Path, docs: int, n_words: int, cells_of_a_doc: int) -> Path:
    """Documents of distinct words drawn with Zipf's weights."""
    rng = np.random.default_rng(1)
    weights = 1.0 / np.arange(1, n_words + 1) ** 0.9
    cumulated = np.cumsum(weights / weights.sum())
    rows = [
        np.unique(np.searchsorted(cumulated, rng.random(cells_of_a_doc))).clip(0, n_words - 1)
        for _ in range(docs)
    ]
    words = np.concatenate(rows).astype(np.int32)
    indptr = np.concatenate(([0], np.cumsum([len(r) for r in rows])))
    return store(path, indptr, words, rng.integers(1, 4, len(words)), n_words)


def train(corpus: Path, model: Path, topics: int, limit: str, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(model),
        "-K",
        str(topics),
        "--passes",
        "2",
        "--tol",
        "0",
        "--mem-limit",
        limit,
        *more,
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return zipf_corpus(tmp_path_factory.mktemp("limits") / "corpus.zarr", 2000, 60_000, 120)


def test_a_table_several_times_the_limit(tmp_path):
    limit = 512 << 20
    table = 170_000 * 2000 * 4
    assert table > 2.5 * limit
    if shutil.disk_usage(tmp_path).free < 3 * table:
        pytest.skip("the table and two checkpoints of it need 4 GB of disk")
    model = tmp_path / "model"
    wide = zipf_corpus(tmp_path / "corpus.zarr", 400, 170_000, 120)
    with memory_cgroup(limit) as group:
        done = run_in(
            group, train(wide, model, 2000, "512M", "--block-cells", "6000", "--passes", "1")
        )
    assert done.returncode == 0, done.stderr
    assert "tables on disk" in done.stderr


@pytest.mark.parametrize("name", ["gs", "sparselda"])
def test_packed_tables_on_disk(corpus, tmp_path, name):
    """A thousand topics: within the limit, and the bits of tables in memory."""
    limit = 600 << 20
    with memory_cgroup(limit) as group:
        done = run_in(
            group,
            train(corpus, tmp_path / "disk", 1000, "600M", "--algo", name, "--tables", "disk"),
        )
    assert done.returncode == 0, done.stderr
    assert "tables on disk" in done.stderr
    with memory_cgroup(2 << 30) as group:
        more = ["--algo", name, "--tables", "memory", "--threads", "1"]
        done = run_in(group, train(corpus, tmp_path / "memory", 1000, "2G", *more))
    assert "tables in memory" in done.stderr
    assert content_hash(tmp_path / "disk") == content_hash(tmp_path / "memory")


@pytest.mark.parametrize("topics", [10, 200, 1000])
@pytest.mark.parametrize("limit", ["512M", "600M", "700M"])
def test_finishes_or_refuses(corpus, tmp_path, topics, limit):
    model = tmp_path / "model"
    with memory_cgroup(int(limit[:-1]) << 20) as group:
        done = run_in(group, train(corpus, model, topics, limit))
    assert done.returncode in (0, 5), (done.returncode, done.stderr)
    if done.returncode == 5:
        assert re.search(r"smallest limit that would do is \d+M", done.stderr)
        assert not (model / "manifest.json").exists()


def smallest_of(
    refused: subprocess.CompletedProcess[str], again: Callable[[int], Any]
) -> tuple[int, Any]:
    """The limit that a refusal names, in megabytes, and the run within it."""
    assert refused.returncode == 5, refused.stderr
    smallest = int(
        re.search(
            r"(?:smallest limit that would do is|every command needs at least) (\d+)M",
            refused.stderr,
        )[1]
    )
    done = again(smallest)
    assert done.returncode == 0, done.stderr
    return smallest, done


def test_the_smallest_limit_named_is_enough(corpus, tmp_path):
    # the interpreter with its libraries takes 200 MB: below that nothing is left to refuse with
    with memory_cgroup(256 << 20) as group:
        refused = run_in(group, [*train(corpus, tmp_path / "a", 50, "256M")])
    if refused.returncode == 137 or refused.returncode < 0:
        pytest.fail("killed by the kernel instead of refusing")

    def again(limit: int) -> subprocess.CompletedProcess[str]:
        with memory_cgroup(limit << 20) as group:
            return run_in(group, train(corpus, tmp_path / "b", 50, f"{limit}M"))

    smallest_of(refused, again)
    with memory_cgroup(2 << 30) as group:
        run_in(group, train(corpus, tmp_path / "c", 50, "2G"))
    assert content_hash(tmp_path / "b") == content_hash(tmp_path / "c")


def test_the_smallest_limit_of_a_small_corpus_holds_for_the_whole_process(tmp_path):
    """What loading the libraries and kernels takes for an instant counts, too: a limit below that
    is refused.
    """
    small = zipf_corpus(tmp_path / "corpus.zarr", 200, 500, 20)
    first = run_bare(train(small, tmp_path / "first", 10, "2G"))  # compiles
    assert first.returncode == 0, first.stderr
    refused = run_bare(train(small, tmp_path / "a", 10, "60M"))
    smallest, _ = smallest_of(
        refused, lambda limit: run_bare(train(small, tmp_path / "b", 10, f"{limit}M"))
    )
    last = json.loads((tmp_path / "b" / "history.jsonl").read_text().splitlines()[-1])
    assert last["rss_peak_bytes"] <= smallest << 20


def test_retrain_stays_within_the_limit(tmp_path):
    """A limit that cannot be kept is refused before anything is done; two tables are loaded where
    both fit beside the rest.
    """
    rng = np.random.default_rng(1)

    def add(name: str, docs: int) -> None:
        texts = [" ".join(f"w{n}" for n in rng.permutation(20_000)[:400]) for _ in range(docs)]
        lines = [
            json.dumps({"id": f"{name}{i}", "text": text}) + "\n" for i, text in enumerate(texts)
        ]
        (tmp_path / "raw" / f"{name}.jsonl").write_text("".join(lines))
        os.utime(tmp_path / "raw" / f"{name}.jsonl", (1e9, 1e9))

    (tmp_path / "raw").mkdir()
    add("a", 600)
    config = tmp_path / "retrain.toml"
    train = "topics = 1000\npasses = 1\ntol = 0.0\nthreads = 2\n"
    config.write_text(
        f'[ingest]\nmin_df = 1\nheldout = "10%"\n[train]\n{train}[gate]\ntopics = false\n'
    )
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "retrain",
        "--config",
        str(config),
        "--mem-limit",
    ]
    refused = run_bare([*command, "320M"])
    assert refused.returncode == 5 and "at least 512M" in refused.stderr, refused.stderr
    assert not (tmp_path / "corpus.zarr").exists() and not (tmp_path / "journal.json").exists()
    for version in (1, 2):  # the second starts from the first, and is judged beside it
        with memory_cgroup(512 << 20) as group:
            done = run_in(group, [*command, "512M"])
        assert done.returncode == 0 and json.loads(done.stdout)["published"] == version, done.stderr
        add("b", 100)
    corpus = Corpus.open(tmp_path / "corpus.zarr")
    published = tmp_path / "versions" / "0001"
    models, threads = open_models([published, published], corpus, 900 << 20, 2)
    assert all(m.phi is not None for m in models) and threads <= 2


def test_info_streams_tables_and_blocks(tmp_path):
    """It holds the vocabulary and a block: a model's table is larger than the limit, a store's
    cells nearly, verified or not.
    """
    limit = 150 << 20
    docs = 80_000
    TopicModel.from_arrays(
        np.ones((24_000, 2000), np.float32), [f"w{i}" for i in range(24_000)], 0.1, 0.01
    ).save(tmp_path / "model")
    assert limit < 4 * 24_000 * 2000
    words = np.arange(0, 20_000, 100) + np.random.default_rng(1).integers(
        0, 100, (docs, 200), np.int32
    )
    counts = np.ones(words.size, np.int32)
    assert 4 * 2 * words.size > 0.8 * limit
    store(
        tmp_path / "corpus.zarr",
        np.arange(docs + 1) * 200,
        words.ravel().astype(np.int32),
        counts,
        20_000,
    )
    for name, verify in itertools.product(("model", "corpus.zarr"), ([], ["--verify"])):
        with memory_cgroup(limit) as group:
            done = run_in(
                group,
                [
                    sys.executable,
                    "-m",
                    "topicstream.cli.main",
                    "info",
                    str(tmp_path / name),
                    *verify,
                ],
            )
        assert done.returncode == 0 and "words" in done.stdout, done.stderr


def run_bare(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
