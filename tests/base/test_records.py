"""Records: what is written is read back, and what is not of the type is told by its field."""

from __future__ import annotations

import json

import pytest

from topicstream.base.errors import StoreError
from topicstream.base.records import Amount, Count, Record, decode_record, read_record, write_record


class Part(Record):
    docs: Count
    tokens: Amount = 0.0


class Store(Record):
    parts: dict[str, Part]
    name: str = ""

    def __post_init__(self) -> None:
        if "train" not in self.parts:
            raise ValueError("there is no part `train`")


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = Store(parts={"train": Part(docs=3, tokens=2.5)}, name="ä")
    write_record(tmp_path / "a.json", record)
    assert read_record(tmp_path / "a.json", Store) == record
    assert "checksum" in json.loads((tmp_path / "a.json").read_text())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"parts": {"train": {"docs": "3"}}}, "`$.parts[...].docs`: expected `int`, got `str`"),
        ({"parts": {"train": {"docs": -1}}}, "`$.parts[...].docs`: expected `int` >= 0"),
        (
            {"parts": {"train": {"docs": 1, "tokens": 1e301}}},
            "`$.parts[...].tokens`: expected `float` < 1e+300",
        ),
        ({"parts": {}}, "`$`: there is no part `train`"),
        ({}, "`$`: object missing required field `parts`"),
        ([1], "`$`: expected `object`, got `array`"),
    ],
)
def test_what_is_not_of_the_type_is_told_by_its_field(value, said, tmp_path):
    with pytest.raises(StoreError, match="restore it") as error:
        decode_record(value, Store, "manifest.json")
    assert str(error.value).startswith(f"manifest.json: {said}")
    (tmp_path / "b.json").write_text(json.dumps(value))
    with pytest.raises(StoreError, match=r"b\.json"):
        read_record(tmp_path / "b.json", Store)


def test_members_of_a_newer_version_are_ignored():
    assert (
        decode_record({"parts": {"train": {"docs": 1, "new": 2}}, "newer": []}, Store, "x")
        .parts["train"]
        .docs
        == 1
    )


def test_numbers_that_are_none_are_refused():
    with pytest.raises(StoreError):
        decode_record({"docs": 1, "tokens": float("nan")}, Part, "x")
