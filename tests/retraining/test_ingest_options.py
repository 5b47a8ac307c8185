"""Every option under [ingest], [train], [gate] and the other tables works every night as
the first.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.ingest_options import (
    PACKS,
    VALUES,
    pack_options,
    write_inputs,
    write_records,
)
from tests.retrain_tools import cycle
from topicstream.base.errors import TopicsError, UsageError
from topicstream.base.options import names_tagged
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.config import IngestConfig
from topicstream.retraining.config import TABLES, Config

SET_BY_RETRAIN = names_tagged(IngestConfig, "set_by_retrain")
TRAIN = {
    "topics": 2,
    "passes": 1,
    "update_passes": 1,
    "threads": 1,
}
GATE = {"topics": False, "tolerance": 1e6}


def write_config(path, **tables: dict[str, Any]) -> None:
    """A config of these tables; JSON's values are TOML's."""
    tables = {"train": TRAIN, "gate": GATE, "when": {"drift": False}} | tables
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    write_records(tmp_path / "raw" / "a.jsonl", 0, 60)
    return tmp_path


@pytest.mark.quick("fields")
@pytest.mark.parametrize("pack", [pack for pack in PACKS if pack != "append"])
def test_options_of_ingest_serve_the_second_night_as_the_first(place, pack):
    options = pack_options(pack, leave_out=SET_BY_RETRAIN)
    write_config(place / "retrain.toml", ingest=options, when={"drift": True})
    assert cycle(place / "retrain.toml")["published"] == 1
    write_records(place / "raw" / "b.jsonl", 60, 30)
    second = cycle(place / "retrain.toml")
    assert second["published"] == 2
    parts = Corpus.open(place / "corpus.zarr").manifest.parts
    assert sum(part.docs for part in parts.values()) > 60


@pytest.mark.parametrize("name", [n for n in SET_BY_RETRAIN if n in VALUES])
def test_what_retrain_sets_itself_is_refused_under_ingest(place, name):
    write_config(place / "retrain.toml", ingest={name: VALUES[name][name]})
    with pytest.raises(UsageError, match=rf"{name} in \[ingest\] is set by retrain itself"):
        cycle(place / "retrain.toml")


@pytest.mark.quick("drop_top-4")
@pytest.mark.parametrize(
    ("name", "value"), [("drop_top", 4), ("heldout", "10%"), ("lowercase", False)]
)
def test_an_option_that_is_edited_between_nights_is_refused_in_the_words_of_the_file(
    place, name, value
):
    write_config(place / "retrain.toml", ingest={"min_df": 1, "heldout": 0, "drop_top": 2})
    cycle(place / "retrain.toml")
    write_records(place / "raw" / "b.jsonl", 60, 30)
    changed = {"min_df": 1, "heldout": 0, "drop_top": 2} | {name: value}
    write_config(place / "retrain.toml", ingest=changed)
    with pytest.raises(TopicsError, match=r"leave (it|out)") as error:
        cycle(place / "retrain.toml")
    assert "--" not in str(error.value)
    write_config(place / "retrain.toml", ingest={"min_df": 1})
    assert cycle(place / "retrain.toml")["published"] == 2


TOPICS = {"topics": 3, "seed": 4, "passes": 2, "update_passes": 2, "tol": "1%"}
SETTINGS: dict[str, dict[str, Any]] = {
    "topics": {"train": TOPICS | {"aim": "reading", "seed_words": "seeds.toml"}},
    "machine": {
        "train": {
            "algo": "sparse-bp",
            "allow_smaller": True,
            "max_time": "1h",
            "mem_limit": "700M",
            "threads": 2,
            "workers_min": 1,
            "weighting": "tf",
        },
        "train.options": {"alpha": 0.1},
    },
    "covariates": {"train": {"covariate_sd": 0.5, "covariate_means": 0.5, "intercept_sd": 5.0}},
    "drift": {
        "when": {"new_docs": True, "drift": True},
        "drift": {"seen_words": 0.9, "unknown_tokens": 0.01, "perplexity": 1.0, "usage": 0.01},
    },
    "the rest": {
        "when": {"at_least_every": "1s", "after_rollback": "new_docs"},
        "gate": {"tolerance": 5.0, "topics": True},
        "store": {"compact": "always"},
        "publish": {"keep": 2, "far": 0.5, "classifier": True},
    },
}
ELSEWHERE = {
    ("train", "scheduler"): "a cluster",
    ("train", "covariates"): "a formula of columns, which these documents do not have",
    ("train", "options"): "a table",
    ("publish", "address"): "a bucket",
}
"""Settings that are not tried here, and what they want."""


@pytest.mark.quick("machine")
@pytest.mark.parametrize("tried", SETTINGS)
def test_settings_of_other_tables_serve_the_second_night_as_the_first(place, tried):
    (place / "seeds.toml").write_text('[water]\nwords = ["river", "stone"]\n')
    tables = {name: dict(values) for name, values in SETTINGS[tried].items()}
    tables["train"] = TRAIN | tables.get("train", {})
    write_config(place / "retrain.toml", **{"ingest": {"min_df": 1}, **tables})
    assert cycle(place / "retrain.toml")["published"] == 1
    write_records(place / "raw" / "b.jsonl", 60, 30)
    assert cycle(place / "retrain.toml")["decision"] in ("update", "full")


def test_every_setting_of_every_table_is_tried():
    plain = {"folder", "raw", "patterns", "changed", "ingest", "source"}
    assert {f.name for f in dataclasses.fields(Config)} - plain == set(TABLES)
    tried = {
        (table, name)
        for tables in SETTINGS.values()
        for table, values in tables.items()
        for name in values
        if table != "train.options"
    }
    every = {(table, f.name) for table, kind in TABLES.items() for f in dataclasses.fields(kind)}
    assert tried | set(ELSEWHERE) == every
