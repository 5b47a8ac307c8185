"""What an option of an ingest is stands at the option, and every caller goes by it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

import topicstream
from tests.ingest_options import (
    ABSENT,
    INTERNAL,
    OF_OTHER_INPUTS,
    PACKS,
    VALUES,
    names_of_options,
    pack_options,
    write_inputs,
    write_records,
)
from tests.ingest_tools import cells_by_id, digest
from topicstream.base.errors import TopicsError, UsageError
from topicstream.base.options import names_tagged
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.config import IngestConfig

DECIDES = {"reading", "tokenizer", "side", "words", "heldout", "documents", "input", "nothing"}
BASE = {"min_df": 1, "heldout": 0}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_records(tmp_path / "a.jsonl", 0, 60)
    write_records(tmp_path / "b.jsonl", 60, 30)
    write_records(tmp_path / "c.jsonl", 60, 30)
    return tmp_path


def test_every_option_says_what_depends_on_it():
    tags = {f.name: f.metadata.get("decides") for f in dataclasses.fields(IngestConfig)}
    assert {name: tag for name, tag in tags.items() if tag not in DECIDES} == {}
    assert set(tags) == set(VALUES) | set(INTERNAL)
    assert set(VALUES) >= ABSENT
    assert set(names_tagged(IngestConfig, "machine")) <= set(
        names_tagged(IngestConfig, "decides", "nothing")
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a store, and what its bytes are."""
    folder = tmp_path_factory.mktemp("finished")
    write_inputs(folder)
    write_records(folder / "a.jsonl", 0, 60)
    topicstream.ingest(folder / "a.jsonl", folder / "s.zarr", **BASE)
    return folder, digest(folder / "s.zarr")


@pytest.mark.parametrize("name", [n for n in names_of_options() if n not in ("append", "force")])
def test_finished_before_is_said_of_the_same_store_alone(finished, monkeypatch, name):
    folder, before = finished
    monkeypatch.chdir(folder)
    options = BASE | VALUES[name]
    if name == "grow_vocab":
        options.pop("append")
    try:
        again = topicstream.ingest(folder / "a.jsonl", "s.zarr", **options)
    except TopicsError as error:
        assert "exists" in str(error) or error.exit_code in (2, 3)
    else:
        assert again["finished_before"]
        topicstream.ingest(Path("a.jsonl"), "t.zarr", **options | {"force": True})
        assert digest(Path("t.zarr")) == before
    assert digest(Path("s.zarr")) == before


def test_every_option_is_in_a_pack():
    packed = [name for names in PACKS.values() for name in names.split()]
    assert sorted([*packed, "force", *OF_OTHER_INPUTS]) == sorted(names_of_options())


def is_recalled(name: str) -> bool:
    tag = IngestConfig.__dataclass_fields__[name].metadata
    return tag["decides"] == "tokenizer" or "recalled" in tag or "new_store" in tag


@pytest.mark.quick("fields", "phrases learned")
@pytest.mark.parametrize("pack", PACKS)
def test_an_append_may_repeat_an_option_or_leave_it_to_the_store(here, pack):
    options = pack_options(pack) | {"append": True}
    topicstream.ingest(Path("a.jsonl"), "s.zarr", **options)
    shutil.copytree("s.zarr", "t.zarr")
    topicstream.ingest(Path("b.jsonl"), "s.zarr", **options)
    # as "file:line" is an id where there is no other, the file has the same name
    repeated = {name: value for name, value in options.items() if not is_recalled(name)}
    topicstream.ingest(Path("b.jsonl"), "t.zarr", **repeated)
    assert cells_by_id(Path("t.zarr")) == cells_by_id(Path("s.zarr"))


@pytest.mark.parametrize("name", sorted(OF_OTHER_INPUTS))
def test_an_option_of_another_format_is_refused(here, name):
    with pytest.raises(TopicsError):
        topicstream.ingest(Path("a.jsonl"), "s.zarr", **BASE | VALUES[name] | {"append": True})


@pytest.mark.quick("drop_top*", "heldout-*")
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("drop_top", {"drop_top": 4}),
        ("heldout", {"heldout": "10%"}),
        ("heldout_by", {"heldout_by": "year", "heldout": "20%"}),
        ("vocab", {"vocab": "stop.txt"}),
        ("keep_text", {"keep_text": False}),
        ("lowercase", {"lowercase": True, "min_length": 3}),
        ("phrase_threshold", {"phrase_threshold": 0.5}),
    ],
)
def test_an_append_refuses_what_would_contradict_the_store(here, name, other):
    options = BASE | VALUES[name]
    topicstream.ingest(Path("a.jsonl"), "s.zarr", **options)
    before = digest(Path("s.zarr"))
    with pytest.raises(TopicsError, match=r"leave (it|out)") as error:
        topicstream.ingest(Path("b.jsonl"), "s.zarr", append=True, **other)
    assert "\n" not in str(error.value)
    assert digest(Path("s.zarr")) == before


def test_a_store_says_how_it_was_made_after_every_append(here):
    topicstream.ingest(Path("a.jsonl"), "s.zarr", drop_top=2, **BASE)
    topicstream.ingest(Path("b.jsonl"), "s.zarr", append=True)
    assert Corpus.open("s.zarr").manifest.vocabulary["drop_top"] == 2
    with pytest.raises(UsageError, match=r"--drop-top 1: requires a new store; s\.zarr was made"):
        topicstream.ingest(Path("c.jsonl"), "s.zarr", append=True, drop_top=1)
    topicstream.ingest(Path("a.jsonl"), "v.zarr", vocab="words.txt", heldout=0)
    topicstream.ingest(Path("b.jsonl"), "v.zarr", append=True)
    vocabulary = json.loads(Path("v.zarr/manifest.json").read_text())["vocabulary"]
    assert vocabulary["fixed"] == "words.txt"
