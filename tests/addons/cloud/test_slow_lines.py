"""Objects over lines that are slow, busy or broken, and keys of any characters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.refusing import topics
from tests.s3 import Put, put_folder
from tests.slow_bucket import SlowBucket, slow_bucket
from topicstream import Corpus, ingest
from topicstream.addons.cloud import listing, remote
from topicstream.base.errors import InputError
from topicstream.base.memory import MemoryLimit, plan_memory
from topicstream.base.places import places
from topicstream.corpus import format as store_format
from topicstream.engines.message.sparse_bp import SparseBeliefPropagation, SparseOptions
from topicstream.engines.shapes import Shape
from topicstream.ingestion.open.inputs import survey_inputs
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.plan import plan_ingest

WORDS = ["stars", "galaxy", "telescope", "orbit", "bread", "butter", "flour", "oven"]


@pytest.fixture
def line(put: Put, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowBucket]:
    """A proxy before the bucket, which this process asks."""
    with slow_bucket(endpoint) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setattr(remote, "RETRY", {"max_retries": 0})
        remote._store.cache_clear()
        yield server
    remote._store.cache_clear()


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make storage blocks of a few documents."""
    for module in ("format", "reader", "writer", "manifest"):
        monkeypatch.setattr(f"topicstream.corpus.{module}.CELLS", 1 << 7)
        monkeypatch.setattr(f"topicstream.corpus.{module}.DOCS", 1 << 5)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of many blocks, whose manifest has the grid of blocks of 128 cells."""
    small_blocks(monkeypatch)
    monkeypatch.setattr("topicstream.corpus.writer.CUTS", ((1 << 7, 1 << 5), (60, 16)))
    texts = [" ".join(WORDS[(n + i) % 8] for i in range(1 + n % 5)) for n in range(400)]
    ingest(texts, tmp_path / "c.zarr", heldout=0, min_df=1, max_df=1.0, progress=False)
    return tmp_path / "c.zarr"


def test_chunks_are_fetched_many_at_once(put: Put, store: Path, line: SlowBucket) -> None:
    address = put_folder(put, store, "c.zarr")
    corpus = Corpus.open(address)
    blocks = len(corpus.part().blocks)
    assert blocks > 10
    line.together = 9
    line.most = 0
    line.requests.clear()
    grid = corpus.grid(100, 16)
    assert len(line.requests) == 3 * blocks, "each object once"
    assert line.most > 8
    line.requests.clear()
    assert sum(block.n_cells for block in corpus.blocks(grid=grid)) == corpus.n_cells
    assert not line.requests, "the cache has them"


@pytest.mark.product
def test_a_cache_without_room_fetches_ahead_all_the_same(
    put: Put, store: Path, line: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPICS_CACHE_SIZE", "1K")
    corpus = Corpus.open(put_folder(put, store, "c.zarr"))
    line.together = 9
    here = Corpus.open(store)
    grid = here.grid(100, 16)
    for _ in range(2):
        line.most = 0
        for there, block in zip(corpus.blocks(grid=grid), here.blocks(grid=grid), strict=True):
            assert (there.words == block.words).all()
        assert line.most > 8


@pytest.mark.quick("sizes0")
@pytest.mark.parametrize("sizes", [(1 << 7, 1 << 5), (60, 16)])
def test_nothing_is_read_for_a_grid_that_the_manifest_has(
    put: Put, store: Path, line: SlowBucket, sizes: tuple[int, int]
) -> None:
    corpus = Corpus.open(put_folder(put, store, "c.zarr"))
    line.requests.clear()
    measured = corpus.grid(*sizes)
    assert not line.requests
    decoded = Corpus.open(store).grid(*sizes)
    for name in ("storage", "row_start", "row_stop", "cell_start", "cells", "first_doc", "tokens"):
        assert (getattr(measured, name) == getattr(decoded, name)).all(), name
    assert (measured.max_words, measured.longest) == (decoded.max_words, decoded.longest)


def test_the_default_engine_finds_its_grid_in_the_manifest() -> None:
    for topics_wanted in (20, 100, 500):
        shape = Shape(topics=topics_wanted, words=50_000, docs=10**6, tokens=1e8, cells=10**8)
        layout = SparseBeliefPropagation(shape, SparseOptions()).layout
        assert (layout.block_cells, layout.block_docs) in store_format.CUTS


@pytest.mark.quick("503")
@pytest.mark.parametrize("status", [429, 503])
def test_a_storm_of_refusals_is_survived(
    put: Put, line: SlowBucket, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(remote, "LONGEST_PAUSE", 0.1)
    address = put("raw/docs.txt", b"stars galaxy\n" * 30)
    refused = 6

    def fault(method: str, path: str) -> tuple[int, bytes] | None:
        nonlocal refused
        refused -= 1
        return (status, b"<Error><Code>SlowDown</Code></Error>") if refused >= 0 else None

    line.fault = fault
    assert remote.version_of(address)[0] == 390
    monkeypatch.setattr(remote, "PATIENCE", 0.0)
    refused = 100
    with pytest.raises(InputError, match="the server is busy"):
        remote.list_below("s3://corpora/raw")


@pytest.mark.product
def test_a_list_that_breaks_off_is_repeated(put: Put, line: SlowBucket) -> None:
    names = [put(f"raw/{n}.txt", b"stars") for n in range(20)]
    cuts = 2

    def fault(method: str, path: str) -> tuple[int, bytes] | None:
        nonlocal cuts
        cuts -= "list-type" in path
        return (0, b"") if cuts >= 0 else None

    line.fault = fault
    assert remote.list_below("s3://corpora/raw") == sorted(names)
    assert cuts == -1


def test_an_expired_token_is_named_where_head_says_nothing(put: Put, line: SlowBucket) -> None:
    address = put("raw/docs.txt", b"stars")
    line.fault = lambda method, path: (400, b"<Error><Code>ExpiredToken</Code></Error>")
    with pytest.raises(InputError, match="credentials have expired"):
        remote.version_of(address)


@pytest.mark.quick("a b+c.txt")
@pytest.mark.parametrize("key", ["a#1.txt", "a?1.txt", "a%20b.txt", "a b+c.txt", "é&=;.txt"])
def test_keys_of_any_characters_are_read(put: Put, tmp_path: Path, key: str) -> None:
    address = put(f"odd/{key}", b"stars galaxy\nbread butter\n")
    for number, place in enumerate([address, "s3://corpora/odd/"]):
        code, said = topics("ingest", place, "--out", tmp_path / f"{number}.zarr", "--min-df", 1)
        assert code == 0, said
        assert len(Corpus.open(tmp_path / f"{number}.zarr")) == 2


ODD = ["sub//double.txt", "../up.txt", "./here.txt", "sub/tab\t.txt"]
"""Keys that obstore can neither list nor read."""


def test_keys_that_cannot_be_read_are_left_out_and_named(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = [put(f"odd/{name}", b"stars galaxy\n") for name in ("fine.txt", "sub/a&b.txt", "z.txt")]
    for key in ODD:
        put(f"odd/{key}", b"bread butter\n")
    address = "s3://corpora/odd/"
    code, said = topics("ingest", address, "--out", tmp_path / "c.zarr", "--min-df", 1)
    assert code == 0 and len(Corpus.open(tmp_path / "c.zarr")) == 3, said
    assert "4 objects left out whose keys have an empty part" in said
    assert "'s3://corpora/odd/../up.txt'" in said
    assert remote.list_below(address) == sorted(fine)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    remote._store.cache_clear()
    assert remote.list_below(address) == sorted(fine)
    for place in ("s3://corpora/odd/sub//double.txt", "s3://corpora/odd/../up.txt"):
        code, said = topics("ingest", place, "--out", tmp_path / "d.zarr")
        assert code == 3 and said.count("\n") == 1 and "which cannot be read" in said, said


def test_a_folder_of_odd_keys_alone_is_refused(put: Put, tmp_path: Path) -> None:
    put("odd/sub//double.txt", b"stars galaxy\n")
    code, said = topics("ingest", "s3://corpora/odd/", "--out", tmp_path / "c.zarr")
    assert code == 3 and said.count("\n") == 1 and "'odd/sub//double.txt'" in said, said


@pytest.mark.parametrize("key", ["odd/end/", "/odd.txt"])
def test_keys_that_obstore_lists_by_another_name_are_named(
    put: Put, tmp_path: Path, key: str
) -> None:
    put(key, b"stars galaxy\n")
    code, said = topics("ingest", "s3://corpora/", "--out", tmp_path / "c.zarr")
    assert code == 3 and said.count("\n") == 1 and "begins or ends with /" in said, said


def test_a_list_with_odd_keys_has_pages_and_survives_a_bad_line(
    put: Put, line: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [put(f"odd/{number}.txt", b"stars") for number in range(7)]
    put("odd/sub//double.txt", b"stars")
    monkeypatch.setattr(listing, "PAGE", 3)
    monkeypatch.setattr(remote, "LONGEST_PAUSE", 0.1)
    answers = [(503, b"<Error><Code>SlowDown</Code></Error>"), (0, b""), None]

    def fault(method: str, path: str) -> tuple[int, bytes] | None:
        return answers.pop(0) if answers and "X-Amz-Signature" in path else None

    line.fault = fault
    assert remote.list_below("s3://corpora/odd") == sorted(names)
    assert not answers
    line.fault = lambda method, path: (
        (400, b"<Error><Code>ExpiredToken</Code></Error>") if "X-Amz-Signature" in path else None
    )
    with pytest.raises(InputError, match="credentials have expired"):
        remote.list_below("s3://corpora/odd")


def test_a_query_with_credentials_is_no_key(tmp_path: Path) -> None:
    code, said = topics(
        "ingest", "s3://b/a.jsonl?X-Amz-Signature=very-secret", "--out", tmp_path / "c.zarr"
    )
    assert code == 3 and "a query" in said and "very-secret" not in said


@pytest.mark.product
def test_many_small_objects_are_opened_ahead(put: Put, tmp_path: Path, line: SlowBucket) -> None:
    texts = [json.dumps({"id": str(n), "text": " ".join(WORDS[: 2 + n % 6])}) for n in range(60)]
    for number, text in enumerate(texts):
        put(f"raw/{number:03}.jsonl", text.encode())

    def gather(method: str, path: str) -> None:
        """Once the list has come, answer no request before nine wait."""
        line.together = 9 if "list-type" in path else line.together

    (tmp_path / "raw").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "raw" / f"{number:03}.jsonl").write_text(text)
    line.requests.clear()
    line.fault = gather
    code, said = topics("ingest", "s3://corpora/raw/", "--out", tmp_path / "there.zarr")
    assert code == 0, said
    methods = [method for method, path in line.requests if "raw/" in path]
    assert methods.count("HEAD") <= 1, "the list says sizes"
    assert line.most > 8
    ingest(tmp_path / "raw", tmp_path / "here.zarr", progress=False)
    assert (
        Corpus.open(tmp_path / "there.zarr").fingerprint
        == Corpus.open(tmp_path / "here.zarr").fingerprint
    )


@pytest.mark.product
def test_objects_of_a_suffix_are_trusted_after_some(
    put: Put, tmp_path: Path, line: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicstream.ingestion.open.inputs.LOOKED_AT", 5)
    monkeypatch.setattr("topicstream.ingestion.open.inputs.LOOKED_AHEAD", 2)
    for number in range(40):
        put(f"raw/{number:03}.jsonl", b'{"text": "stars galaxy orbit"}')
    line.requests.clear()
    code, said = topics("ingest", "s3://corpora/raw/", "--out", tmp_path / "c.zarr", "--min-df", 1)
    assert code == 0, said
    gets = [path for method, path in line.requests if method == "GET" and ".jsonl" in path]
    assert 40 <= len(gets) <= 47


def test_no_more_objects_are_fetched_than_are_looked_at(
    put: Put, line: SlowBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicstream.ingestion.open.inputs.LOOKED_AT", 5)
    names = [put(f"raw/{number:03}.jsonl", b'{"text": "stars"}') for number in range(20)]
    line.requests.clear()
    survey_inputs(names, ReadOptions())
    assert len(remote._SOON) == 0
    assert len([path for method, path in line.requests if method == "GET"]) == 5


def test_objects_on_their_way_count_in_the_plan(
    put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MemoryLimit.parse("512M")
    remote._store.cache_clear()
    before = plan_memory("scoring", limit, 1, {"table": 1}, {}).total
    room = plan_ingest("512M", 1).words.free
    assert places().buffers() == 0, "nothing was read from an address"
    put("raw/docs.txt", b"stars galaxy\n" * 30)
    ingest(Path("s3://corpora/raw/docs.txt"), tmp_path / "c.zarr", progress=False)
    assert places().buffers() == remote.MEMORY
    assert plan_memory("scoring", limit, 1, {"table": 1}, {}).total > before + 60e6
    assert plan_ingest("512M", 1).words.free == room - remote.MEMORY
