"""Places: names of this machine are answered here, addresses by their provider, or in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import topicstream
from topicstream.base import errors
from topicstream.base.errors import UsageError
from topicstream.base.places import MIRROR, Places, places
from topicstream.cli.main import run


def test_the_default_is_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.txt").write_bytes(b"four")
    Path("a.txt").write_bytes(b"1")
    for asked in (places(), Places()):
        assert asked.resolve("x") == "x" and asked.resolve(asked) is asked
        assert asked.expand("*.txt") == ["a.txt", "b.txt"] and asked.expand("-") == ["-"]
        assert asked.list_objects("b.txt") == []
        assert asked.size("b.txt") == 4
        assert asked.stamp("b.txt")[:2] == [1, 4] and asked.stamp(".")[:2] == [2, 5]
        assert asked.stamp(".", most=1) is None and asked.stamp("-") is None
        assert asked.open("b.txt").read() == b"four"
        assert asked.open_file("b.txt") == Path("b.txt")
        assert asked.describe("b.txt") == str(tmp_path / "b.txt")
        assert asked.on_this_machine("b.txt") and asked.is_file("b.txt")
        assert not asked.exists("c.txt") and asked.fetch("c.txt") is None
        asked.traffic()  # of tests before
        assert asked.traffic() == {}
        asked.refuse_output("c.txt", "--out")
        with pytest.raises(UsageError, match="versions are uploaded to"):
            asked.publish(".", "b.txt")


def test_a_pipe_is_a_stream(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert places().is_stream(tmp_path / "pipe")
    assert not places().is_stream(tmp_path) and not places().is_stream("s3://b/pipe")


def test_an_address_is_known_with_one_slash_too() -> None:
    for name in ("s3://b/x", Path("s3://b/x")):
        assert places().describe(name) == "s3://b/x"
        assert not places().on_this_machine(name)
        with pytest.raises(UsageError, match="--out s3://b/x: files are written to this machine"):
            places().refuse_output(name, "--out")


def test_a_strangers_mirror_is_not_filled(tmp_path: Path) -> None:
    """Only folders of the cache are: no store leads to addresses of its author's choice."""
    (tmp_path / MIRROR).write_text("http://127.0.0.1:9/store")
    assert places().origin(tmp_path) == "http://127.0.0.1:9/store"
    assert places().fetch(tmp_path / "vocab.arrow") is None
    with pytest.raises(UsageError, match="addresses are read only"):
        places().refuse_folder(tmp_path)


@pytest.mark.product
def test_no_library_is_imported_before_an_address_is_read() -> None:
    code = (
        "import sys; import topicstream.ingestion.pipeline, topicstream.corpus.reader;"
        "from topicstream.base.places import places; places().size(sys.executable);"
        "assert not any(m.startswith('topicstream.addons.cloud.') for m in sys.modules);"
        "places().describe('s3://b/x'); assert 'obstore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


WITH_ADDRESSES = [
    "info s3://b/model",
    "ingest s3://b/docs.jsonl --out x.zarr",
    "ingest docs.jsonl --out gs://b/x.zarr",
    "ingest docs.jsonl --out x.zarr --meta-file https://b/side.csv",
    "train --corpus s3://b/corpus.zarr -K 2",
    "show --model az://b/model",
    "eval --model s3://b/model --corpus s3://b/x",
]
RUN_LINES = """
import sys
from topicstream.cli.main import run
for line in sys.argv[1:]:
    print(run(line.split()), file=sys.stderr)
"""


@pytest.mark.product
def test_without_the_add_on_an_address_gives_one_line(bare: Path) -> None:
    (bare.parent / "docs.jsonl").write_text('{"text": "ships and sails"}\n')
    done = subprocess.run(
        [sys.executable, "-c", RUN_LINES, *WITH_ADDRESSES],
        cwd=bare.parent,
        env={**os.environ, "PYTHONPATH": str(bare.parent)},
        capture_output=True,
        text=True,
    )
    said = done.stderr.splitlines()
    assert len(said) == 2 * len(WITH_ADDRESSES), done.stderr  # a message, and the exit code
    for command, message, code in zip(WITH_ADDRESSES, said[::2], said[1::2], strict=True):
        assert code == "2", command
        assert "://b/" in message and "addresses need the add-on cloud" in message, command


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without its folder ``addons/cloud``."""
    copy = tmp_path_factory.mktemp("bare") / "topicstream"
    shutil.copytree(Path(topicstream.__file__).parent, copy)
    shutil.rmtree(copy / "addons" / "cloud")
    return copy


def test_no_folder_is_made_for_an_address_that_nobody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--out hdfs://b/x: stores are written to this machine"):
        topicstream.ingest(["ships and sails"], out="hdfs://b/x", min_df=1, progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "train --corpus ftp://x",
        "show --model ftp://x",
        "eval --corpus ftp://x --coherence",
        "update --model ftp://x",
    ],
)
def test_other_addresses_are_named_as_such(tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    assert run(line.split()) == 2
    said = capsys.readouterr().err
    assert "ftp://x: only s3, gs, az and https addresses are known; copy it to a folder" in said


def test_errors_name_addresses_of_other_packages(monkeypatch):
    monkeypatch.setattr(errors, "SCHEMES", {*errors.SCHEMES, "mem"})
    assert (
        errors.show_addresses("mem:/docs/a and s3:/b/c, C:/d") == "mem://docs/a and s3://b/c, C:/d"
    )
