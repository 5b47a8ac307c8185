"""The tool that leads from a message to its line, held against real errors."""

from __future__ import annotations

import traceback
from pathlib import Path

import find_message
import pytest

import topicstream
from tests import ROOT
from topicstream.base.errors import TopicsError


def write_bad_csv(folder: Path) -> Path:
    """A file whose second record lacks a field."""
    path = folder / "bad.csv"
    path.write_text("id,text\n1,one two\n2\n")
    return path


def write_bad_matrix(folder: Path) -> Path:
    """A file that has fewer cells than its header says."""
    path = folder / "docword.x.txt"
    path.write_text("2\n2\n3\n1 1 1\n")
    return path


@pytest.mark.parametrize(
    ("write", "options"),
    [
        (lambda folder: folder / "nothing.txt", {}),
        (write_bad_csv, {"heldout": "=x"}),
        (write_bad_csv, {"split": "paragraf"}),
        (write_bad_csv, {"meta_files": "none.tsv"}),
        (write_bad_csv, {"encoding": "klingon"}),
        (write_bad_matrix, {}),
    ],
)
@pytest.mark.quick("write_bad_csv-options1", "write_bad_matrix*")
def test_the_line_of_an_error_is_found(tmp_path, write, options):
    with pytest.raises(TopicsError) as raised:
        topicstream.ingest(write(tmp_path), tmp_path / "c.zarr", progress=False, **options)
    frames = [
        f
        for f in traceback.extract_tb(raised.tb)
        if f.filename.startswith(str(ROOT / "topicstream"))
    ]
    raising = (str(Path(frames[-1].filename).relative_to(ROOT)), frames[-1].name)
    listed = find_message.find_places(str(raised.value))[:5]  # the tool prints five
    assert raising in [(place.file, place.function.rpartition(".")[2]) for place in listed]


def test_a_quoted_part_is_enough():
    place = find_message.find_places("adds to it, --force")[0]
    assert place.file == "topicstream/ingestion/pipeline.py"


def test_what_nobody_says_is_not_found():
    assert find_message.find_places("colourless green ideas") == []
