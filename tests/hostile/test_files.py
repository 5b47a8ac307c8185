"""Files that a stranger made for what is read since 0.1.0, and a footer of Parquet at which Arrow
would end the process.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.ingest_tools import documents, write_jsonl
from tests.refusing import refused
from topicstream.base.errors import StoreError
from topicstream.base.files.durable import log_text, sealed_line
from topicstream.base.files.plain import load_arrays
from topicstream.cli.main import run
from topicstream.model.edits import LOG, view_of
from topicstream.model.topic_model import TopicModel


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    write_jsonl(place / "a.jsonl", documents(60))
    topicstream.ingest(
        place / "a.jsonl", place / "c.zarr", min_df=1, max_df=1.0, heldout="0", progress=False
    )
    topicstream.train(
        place / "c.zarr", place / "m", algo="sparse-bp", topics=3, passes=2, tol=0.0, progress=False
    )
    return place


# -- Parquet
# --------------------------------------------------------------------------------------------------
EVERY_BIT = """
import sys
import zipfile
from pathlib import Path
from topicstream.base.files.plain import open_table
path, whole = Path(sys.argv[1]), Path(sys.argv[1]).read_bytes()
size = int.from_bytes(whole[-8:-4], "little")
refused = 0
for at in range(len(whole) - 8 - size, len(whole) - 8):
    for bit in range(8):
        spoilt = bytearray(whole)
        spoilt[at] ^= 1 << bit
        path.write_bytes(spoilt)
        try:
            with open_table(path) as file:
                file.read(columns=["word", "count"])
        except Exception:
            refused += 1
print(refused)
"""


def test_no_bit_of_a_footer_ends_the_process(tmp_path):
    table = pa.table({"word": ["a", "b", None], "count": [1, 2, 3]})
    pq.write_table(table, tmp_path / "x.parquet", store_schema=False)
    done = subprocess.run(
        [sys.executable, "-c", EVERY_BIT, str(tmp_path / "x.parquet")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and int(done.stdout) > 500, done.stderr


# -- others
# --------------------------------------------------------------------------------------------------
def test_a_header_of_an_array_that_is_no_python(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data.replace(b"'shape': (3, 2)", b"'shape': (((((("))
    assert "x.npy" in refused("ingest", tmp_path / "x.npy", "--out", tmp_path / "c", capsys=capsys)


def test_a_gzipped_state_with_a_wrong_bit(tmp_path, capsys):
    packed = bytearray(gzip.compress(b"#doc source pos typeindex type topic\n" * 50))
    packed[14:18] = b"\xff\xff\xff\xff"
    (tmp_path / "s.gz").write_bytes(packed)
    assert "s.gz" in refused(
        "import",
        tmp_path / "s.gz",
        "--format",
        "mallet-state",
        "--model",
        tmp_path / "m",
        capsys=capsys,
    )


def test_edits_that_name_a_topic_twice(made):
    lines = [
        {"edit": "merge", "topics": [0, 0, 1]},
        {"edit": "order", "topics": [2, 2]},
        {"edit": "label", "topic": 2, "label": "a\x1b[2Jb"},
    ]
    (made / "m" / LOG).write_text(log_text(lines))
    try:
        view = view_of(TopicModel.open(made / "m"))
        assert view.ids == [0, 2] and view.members == [[0, 1], [2]] and view.labels == {2: "a[2Jb"}
        assert view.listing == [1, 0]
    finally:
        (made / "m" / LOG).unlink()


def test_an_edit_nested_without_end(made, capsys):
    (made / "m" / LOG).write_text("[" * 100_000 + "\n")
    try:
        assert "does not match" in refused("show", "--model", made / "m", capsys=capsys)
    finally:
        (made / "m" / LOG).unlink()


def test_a_history_of_other_kinds(made, capsys):
    path = made / "m" / "history.jsonl"
    whole = path.read_text()
    for odd in (
        {"pass": "x"},
        {},
        {"pass": 1, "seconds": "long"},
        {"pass": 1, "running_perplexity": [1]},
        {"pass": 1, "seconds": 10**400},
    ):
        path.write_text(whole + sealed_line(odd))
        for line in (
            ["info", made / "m"],
            [
                "train",
                "--corpus",
                made / "c.zarr",
                "--model",
                made / "m",
                "--passes",
                "3",
                "--algo",
                "sparse-bp",
                "-K",
                "3",
                "--tol",
                "0",
            ],
        ):
            assert "history.jsonl" in refused(*line, capsys=capsys)
    path.write_text(whole)


def test_a_covariance_that_cannot_be(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(60, 3)))
    topicstream.ingest(tmp_path / "x.npy", tmp_path / "c", heldout="0", progress=False)
    topicstream.train(
        tmp_path / "c", tmp_path / "g", algo="gmm", topics=2, passes=1, progress=False
    )
    GaussianModel = pytest.importorskip("topicstream.addons.clusters.model").GaussianModel
    opened = GaussianModel(tmp_path / "g")
    opened.covariances = -np.abs(opened.covariances)
    with pytest.raises(StoreError, match="a covariance is not positive definite"):
        opened.answer(np.zeros((1, 3)))


def test_a_store_is_not_made_where_a_disk_is_mounted(made, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    real = os.path.ismount
    monkeypatch.setattr(
        os.path, "ismount", lambda path: os.fspath(path) == str(tmp_path / "data") or real(path)
    )
    assert "name a folder inside it" in refused(
        "ingest", made / "a.jsonl", "--out", tmp_path / "data", capsys=capsys, code=2
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


INTERRUPTED = """
import os, signal, sys
class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it \
ignored
sys.meta_path.insert(0, Late())
from topicstream.cli.entry import main
main()
"""


def test_an_interrupt_while_the_commands_are_imported_is_one_line():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "topics: interrupted\n")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ingest {made}/a.jsonl --out x.zarr --min-df 1 --vocab pipe", 3),
        ("ingest {made}/a.jsonl --out x.zarr --drop-words pipe", 3),
        ("ingest {made}/a.jsonl --out x.zarr --stopwords pipe", 3),
        ("ingest {made}/a.jsonl --out x.zarr --meta-file pipe", 3),
        ("edit {made}/c.zarr --drop-words pipe", 3),
        ("import pipe --format pyldavis --model x", 3),
        ("import folder --format mallet --model x", 3),
    ],
)
def test_a_pipe_in_the_place_of_a_file_keeps_no_command(
    made, tmp_path, monkeypatch, capsys, line, code
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo("pipe")
    os.mkfifo("folder/topic-keys.txt")
    assert "pipe" in refused(*line.format(made=made).split(), capsys=capsys, code=code)


def test_lists_of_words_that_are_none(made, tmp_path, capsys):
    (tmp_path / "long").write_bytes(
        b"x " * (5 << 20)
    )  # they become Python strings, and members of a manifest
    for option in ("--stopwords", "--drop-words"):
        said = refused(
            "ingest",
            made / "a.jsonl",
            "--out",
            tmp_path / "x.zarr",
            option,
            tmp_path / "long",
            capsys=capsys,
        )
        assert "a list of words has 8,388,608 at most" in said
    (tmp_path / "many").write_text("".join(f"w{i}\n" for i in range(5_000_000)))
    given = ("--out", tmp_path / "y.zarr", "--vocab", tmp_path / "many", "--mem-limit", "512M")
    assert "a vocabulary of 5,000,001 words (" in refused(
        "ingest", made / "a.jsonl", *given, capsys=capsys, code=5
    )


def test_what_does_not_belong_together_is_said(made, tmp_path, capsys):
    np.save(tmp_path / "v.npy", np.random.default_rng(1).normal(size=(9, 4)))
    assert "holds vectors" in refused(
        "infer", tmp_path / "v.npy", "--model", made / "m", capsys=capsys, code=2
    )
    topicstream.ingest(tmp_path / "v.npy", tmp_path / "v.zarr", heldout="0", progress=False)
    before = (tmp_path / "v.zarr" / "manifest.json").read_bytes()
    said = refused(
        "ingest", made / "a.jsonl", "--out", tmp_path / "v.zarr", "--append", capsys=capsys
    )
    assert "holds vectors of 4 numbers, the input documents" in said
    assert (tmp_path / "v.zarr" / "manifest.json").read_bytes() == before
    topicstream.ingest(
        [f"alien{i % 5} other{i % 7}" for i in range(60)],
        tmp_path / "o.zarr",
        min_df=1,
        progress=False,
    )
    for form in ("mallet-doc-topics", "parquet-theta"):
        given = ("--corpus", tmp_path / "o.zarr", "--format", form, "--out", tmp_path / "out")
        said = refused("export", "--model", made / "m", *given, capsys=capsys, code=2)
        assert "do not match" in said and not (tmp_path / "out").exists()


# -- heads of arrays
# --------------------------------------------------------------------------------------------------
HEAD = "{'descr': %s, 'fortran_order': False, 'shape': %s}"
HEADS = {
    "keys of two kinds": "{'descr': '<f4', True: 1}",
    "a key that is a list": "{[]: 1}",
    "deeper than the parser goes": "-" * 9000 + "1",
    "a sum of 4,000 terms": "1+" * 4000 + "1",
    "brackets without end": "(" * 9000,
    "a text without end": "'''",
    "half a dtype": HEAD % ("('<f4',)", "(2, 3)"),
    "a negative shape": HEAD % ("'<f4'", "(-5, 3)"),
    "2^70 rows": HEAD % ("'<f4'", f"({1 << 70}, 3)"),
    "5,000 digits": HEAD % ("'<f4'", f"({'9' * 5000}, 3)"),
    "a name of two lines": HEAD % (r"[('a\n' * 1, '<f4')]", "(2, 3)"),
    "a field of two lines": HEAD % (r"[('a\nb', '<f4')]", "(2, 3)"),
}


@pytest.mark.parametrize(
    "split", ["(" * 5000 + "a" + ")" * 5000, "a{99999999999}", "("], ids=["deep", "many", "open"]
)
def test_a_pattern_that_is_none_is_told_in_a_line(tmp_path, split, capsys):
    write_jsonl(tmp_path / "a.jsonl", documents(3))
    said = refused(
        "ingest",
        tmp_path / "a.jsonl",
        "--out",
        tmp_path / "v.zarr",
        "--split",
        split,
        code=2,
        capsys=capsys,
    )
    assert (
        "give paragraph, section, '1000 words' or a regular expression" in said and len(said) < 400
    )


@pytest.mark.parametrize("kind", HEADS)
def test_the_head_of_an_array_is_read_or_refused_in_a_line(tmp_path, kind, capsys):
    head = HEADS[kind].encode("latin1")
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
    (tmp_path / "x.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    for name in ("x.npy", "x.npz"):
        assert (
            len(refused("ingest", tmp_path / name, "--out", tmp_path / "v.zarr", capsys=capsys))
            < 500
        )
        with pytest.raises(StoreError, match="is no file of arrays"):
            load_arrays(tmp_path / name)


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
    ids=["deflate", "bzip2", "lzma"],
)
def test_an_archive_of_any_method_with_a_wrong_byte_is_read_or_refused_in_a_line(
    tmp_path, method, capsys
):
    out = io.BytesIO()
    np.save(out, np.random.default_rng(0).random((20, 3)))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.writestr("x.npy", out.getvalue())
    whole = (tmp_path / "x.npz").read_bytes()
    for at in (36, 40, 44, 48, 60, 200):  # heads of the member and of its stream, and the stream
        (tmp_path / "x.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        code = run(
            ["ingest", str(tmp_path / "x.npz"), "--out", str(tmp_path / "v.zarr"), "--force", "-q"]
        )
        said = capsys.readouterr().err.splitlines()
        assert (code, len(said)) in ((0, 0), (3, 1)) and "internal" not in "".join(said), said


def test_no_program_is_run_for_an_image(tmp_path, monkeypatch, capsys):
    pytest.importorskip("PIL")
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "x.png").write_bytes(eps)
    said = refused(
        "ingest", tmp_path / "x.png", "--patches", "8", "--out", tmp_path / "v.zarr", capsys=capsys
    )
    assert "not an image" in said and not (tmp_path / "ran").exists()
