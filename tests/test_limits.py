"""The memory promise, inside a cgroup of exactly the limit: it finishes, or it refuses beforehand with code 5."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cgroup import memory_cgroup, run_in
from tests.planted import store
from topicstream.training.checkpoint import content_hash


def zipf_corpus(path: Path, docs: int, n_words: int, cells_of_a_doc: int) -> Path:
    """Documents of distinct words drawn with Zipf's weights."""
    rng = np.random.default_rng(1)
    weights = 1.0 / np.arange(1, n_words + 1) ** 0.9
    cumulated = np.cumsum(weights / weights.sum())
    rows = [np.unique(np.searchsorted(cumulated, rng.random(cells_of_a_doc))).clip(0, n_words - 1) for _ in range(docs)]
    words = np.concatenate(rows).astype(np.int32)
    indptr = np.concatenate(([0], np.cumsum([len(r) for r in rows])))
    return store(path, indptr, words, rng.integers(1, 4, len(words)), n_words)


def train(corpus: Path, model: Path, topics: int, limit: str, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "topicstream.cli.main", "train", "--corpus", str(corpus), "--model", str(model),
        "-K", str(topics), "--passes", "2", "--tol", "0", "--mem-limit", limit, *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return zipf_corpus(tmp_path_factory.mktemp("limits") / "corpus.zarr", 2000, 60_000, 120)


def test_a_table_several_times_the_limit(tmp_path):
    limit = 430 << 20
    model = tmp_path / "model"
    wide = zipf_corpus(tmp_path / "corpus.zarr", 400, 150_000, 120)
    with memory_cgroup(limit) as group:
        done = run_in(group, train(wide, model, 2000, "430M", "--block-cells", "6000", "--passes", "1"))
    assert done.returncode == 0, done.stderr
    assert "tables on disk" in done.stderr
    table = 150_000 * 2000 * 4
    assert table > 2.5 * limit
    last = json.loads((model / "history.jsonl").read_text().splitlines()[-1])
    assert last["rss_peak_bytes"] < limit


@pytest.mark.parametrize("name", ["gs", "sparselda"])
def test_packed_tables_on_disk(corpus, tmp_path, name):
    """A thousand topics: within the limit, and the bits of tables in memory."""
    limit = 400 << 20
    with memory_cgroup(limit) as group:
        done = run_in(group, train(corpus, tmp_path / "disk", 1000, "400M", "--algo", name, "--tables", "disk"))
    assert done.returncode == 0, done.stderr
    assert "tables on disk" in done.stderr
    last = json.loads((tmp_path / "disk" / "history.jsonl").read_text().splitlines()[-1])
    assert last["rss_peak_bytes"] < limit
    with memory_cgroup(2 << 30) as group:
        more = ["--algo", name, "--tables", "memory", "--threads", "1"]
        done = run_in(group, train(corpus, tmp_path / "memory", 1000, "2G", *more))
    assert "tables in memory" in done.stderr
    assert content_hash(tmp_path / "disk") == content_hash(tmp_path / "memory")


@pytest.mark.parametrize("topics", [10, 200, 1000])
@pytest.mark.parametrize("limit", ["250M", "320M", "500M"])
def test_finishes_or_refuses(corpus, tmp_path, topics, limit):
    model = tmp_path / "model"
    with memory_cgroup(int(limit[:-1]) << 20) as group:
        done = run_in(group, train(corpus, model, topics, limit))
    assert done.returncode in (0, 5), (done.returncode, done.stderr)
    if done.returncode == 5:
        assert re.search(r"smallest limit that would do is \d+M", done.stderr)
        assert not (model / "manifest.json").exists()


def test_the_smallest_limit_named_is_enough(corpus, tmp_path):
    # the interpreter with the kernels loaded takes 90 MB of its own and 102 with what the kernel counts beside: below that
    # nothing is left to refuse with
    with memory_cgroup(120 << 20) as group:
        refused = run_in(group, [*train(corpus, tmp_path / "a", 50, "120M")])
    if refused.returncode == 137 or refused.returncode < 0:
        pytest.fail("killed by the kernel instead of refusing")
    assert refused.returncode == 5, refused.stderr
    smallest = re.search(r"smallest limit that would do is (\d+)M", refused.stderr)
    assert smallest
    with memory_cgroup(int(smallest[1]) << 20) as group:
        done = run_in(group, train(corpus, tmp_path / "b", 50, f"{smallest[1]}M"))
    assert done.returncode == 0, done.stderr
    with memory_cgroup(2 << 30) as group:
        run_in(group, train(corpus, tmp_path / "c", 50, "2G"))
    assert content_hash(tmp_path / "b") == content_hash(tmp_path / "c")
