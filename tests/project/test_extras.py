"""A missing extra is one line with the command that installs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from topicstream.cli.main import run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store and a model, and inputs that need extras."""
    folder = tmp_path_factory.mktemp("extras")
    lines = [{"id": f"{i}", "text": "red green blue", "date": f"{2000 + i % 9}"} for i in range(40)]
    (folder / "docs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    (folder / "cells.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    store = str(folder / "c.zarr")
    model = str(folder / "m")
    ingest = ["ingest", str(folder / "docs.jsonl"), "--out", store, "--meta", "date"]
    assert run([*ingest, "--max-df", "1.0", "--heldout", "0", "-q"]) == 0
    assert (
        run(["train", "--corpus", store, "--model", model, "-K", "2", "--passes", "2", "-q"]) == 0
    )
    return folder


@pytest.mark.parametrize(
    ("extra", "modules", "line"),
    [
        ("cloud", "obstore", "ingest s3://bucket/docs.jsonl --out d.zarr"),
        ("cloud", "obstore", "publish m s3://bucket/m"),
        ("dask", "distributed", "train --corpus c.zarr --model n -K 2 --scheduler local:1"),
        ("dask", "distributed", "ingest docs.jsonl --out d.zarr --scheduler local:1"),
        ("dask", "distributed", "infer c.zarr --model m --out d.jsonl --scheduler local:1"),
        ("dask", "distributed", "eval --corpus c.zarr --model m --scheduler local:1 --heldout"),
        ("dask", "distributed", "sweep --corpus c.zarr -K 2 --out d --scheduler local:1"),
        ("dask", "distributed", "compare m m --scheduler local:1"),
        ("dask", "distributed", "update --corpus c.zarr --model m --out d --scheduler local:1"),
        ("h5", "h5py", "ingest cells.h5ad --out d.zarr"),
        ("h5", "h5py", "export --model m --corpus c.zarr --format h5ad --out d.h5ad"),
        ("images", "PIL", "ingest picture.png --out d.zarr --patches 8"),
        ("plot", "matplotlib", "show --model m --corpus c.zarr --over-time --plot d.png"),
        ("sklearn", "sklearn", "eval --corpus c.zarr --model m --links"),
        ("stem", "snowballstemmer", "ingest docs.jsonl --out d.zarr --stem english"),
    ],
)
def test_a_missing_extra_says_how_it_is_installed(place, capsys, monkeypatch, extra, modules, line):
    monkeypatch.chdir(place)
    for name in [name for name in sys.modules if name.split(".")[0] == modules]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, modules, None)
    before = sorted(place.iterdir())
    assert run([*line.split(), "-q"]) in (1, 2, 3)
    error = capsys.readouterr().err
    assert f"pip install 'topicstream[{extra}]'" in error and "internal error" not in error
    assert error.strip().count("\n") == 0 and sorted(place.iterdir()) == before


@pytest.mark.product
def test_the_estimator_without_its_library_says_how_it_is_installed():
    code = "import sys; sys.modules['sklearn'] = None; import topicstream.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ImportError: topicstream.sklearn needs")
    assert "pip install 'topicstream[sklearn]'" in done.stderr


@pytest.mark.product
def test_compressed_text_is_read_without_its_extra(place):
    code = (
        "import sys, gzip; sys.modules['isal'] = None\n"
        "gzip.open('d.jsonl.gz', 'wb').write(open('docs.jsonl', 'rb').read())\n"
        "import topicstream\n"
        "print(topicstream.ingest('d.jsonl.gz', 'gz.zarr', progress=False)['documents'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(place), capture_output=True, text=True
    )
    assert done.stdout.strip().endswith("40"), done.stderr


NEEDED = {
    "plot": r"--plot ",
    "h5": r"^\$? ?topics ingest .*\.h5|^import h5py",
    "sklearn": r"^from (sklearn|topicstream\.sklearn) import|to_sklearn\(",
    "cloud": r"^topics .*s3://",
    "dask": r"^topics .*--scheduler ",
    "images": r"^topics .*--patches ",
}
"""What stands in a tutorial whose commands need an extra."""


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.stem
)
def test_a_tutorial_names_the_extras_that_its_commands_need(page):
    text = page.read_text()
    named = {
        extra
        for some in re.findall(r"topicstream\[([a-z0-9,]+)\]", text)
        for extra in some.split(",")
    }
    needed = {extra for extra, sign in NEEDED.items() if re.search(sign, text, re.MULTILINE)}
    assert needed <= named
