"""Every option under [ingest], [train], [gate] and the other tables works every night as
the first.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.ingest_options import (
    OF_OTHER_INPUTS,
    VALUES,
    names_of_options,
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


def tried() -> list[str]:
    return [n for n in names_of_options() if n not in SET_BY_RETRAIN and n not in OF_OTHER_INPUTS]


@pytest.mark.parametrize("name", tried())
def test_an_option_of_ingest_serves_the_second_night_as_the_first(place, name):
    options = {"min_df": 1, "heldout": 0} | VALUES[name]
    options.pop("append", None)
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


SETTINGS: dict[str, dict[str, Any]] = {
    "train": {
        "algo": "sparse-bp",
        "aim": "reading",
        "allow_smaller": True,
        "topics": 3,
        "seed": 4,
        "passes": 2,
        "update_passes": 2,
        "tol": "1%",
        "max_time": "1h",
        "mem_limit": "700M",
        "threads": 2,
        "scheduler": None,  # a cluster
        "workers_min": 1,
        "seed_words": "seeds.toml",
        "weighting": "tf",
        "covariates": None,  # a formula of columns, which these documents do not have
        "covariate_sd": 0.5,
        "covariate_means": 0.5,
        "intercept_sd": 5.0,
        "options": {"alpha": 0.1},
    },
    "when": {"new_docs": True, "drift": True, "at_least_every": "1s", "after_rollback": "new_docs"},
    "drift": {"seen_words": 0.9, "unknown_tokens": 0.01, "perplexity": 1.0, "usage": 0.01},
    "gate": {"tolerance": 5.0, "topics": True},
    "store": {"compact": "always"},
    "publish": {"keep": 2, "far": 0.5, "classifier": True, "address": None},
}


@pytest.mark.parametrize(
    ("table", "name"),
    [(table, f.name) for table, kind in TABLES.items() for f in dataclasses.fields(kind)],
)
def test_a_setting_of_another_table_serves_the_second_night_as_the_first(place, table, name):
    assert name in SETTINGS[table], f"say in SETTINGS what [{table}] {name} is tried with"
    value = SETTINGS[table][name]
    if value is None:
        return
    (place / "seeds.toml").write_text('[water]\nwords = ["river", "stone"]\n')
    settings: dict[str, dict[str, Any]] = {"ingest": {"min_df": 1}, "train": TRAIN, "gate": GATE}
    if name == "options":
        settings["train.options"] = value
        settings["train"] = {**TRAIN, "algo": "sparse-bp"}
    else:
        settings[table] = {**settings.get(table, {}), name: value}
    write_config(place / "retrain.toml", **settings)
    assert cycle(place / "retrain.toml")["published"] == 1
    write_records(place / "raw" / "b.jsonl", 60, 30)
    assert cycle(place / "retrain.toml")["decision"] in ("update", "full")


def test_the_whole_config_is_of_tables_that_are_tried():
    plain = {"folder", "raw", "patterns", "changed", "ingest", "source"}
    assert {f.name for f in dataclasses.fields(Config)} - plain == set(TABLES) == set(SETTINGS)
