"""The file that ``retrain --init`` writes is the settings: it reads back as their defaults."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields

from topicstream.retraining.config import TABLES, Config, Train, load_config
from topicstream.retraining.template import format_template, write_template


def test_it_reads_back_as_the_defaults(tmp_path):
    assert write_template(tmp_path / "retrain.toml") == tmp_path / "raw"
    read = load_config(tmp_path / "retrain.toml")
    default = Config(folder=tmp_path, raw=tmp_path / "raw")
    for field in fields(Config):
        if field.name != "patterns":
            assert getattr(read, field.name) == getattr(default, field.name), field.name
    assert tuple(read.patterns) == tuple(default.patterns)


def test_every_setting_is_there_with_a_value_that_it_takes(tmp_path):
    """Also those that are commented out; each behind its table, with a comment."""
    lines = format_template().splitlines()
    assert max(map(len, lines)) <= 100 and not any(line != line.rstrip() for line in lines)
    every = [re.sub(r"^# (?=\w+ = |\[)", "", line) for line in lines]
    text = "\n".join(every).replace("[[source]]", "[ignored]").replace("[train.options]", "")
    values = tomllib.loads(text)
    for name, kind in TABLES.items():
        named = {field.name for field in fields(kind)} - {"options"}
        assert set(values[name]) == named, name
    settings = "\n".join(
        re.sub("^seed_words = .*", "", re.sub("^scheduler = .*", "", line)) for line in every
    )
    settings = re.sub(r"(?s)\[\[source\]\].*?(?=\[train\])", "", settings)
    (tmp_path / "every.toml").write_text(settings.replace('address = "s3://', '# address = "s3://'))
    read = load_config(tmp_path / "every.toml")
    assert read.train.max_time == 7200 and read.when.at_least_every == 30 * 86400
    assert read.train.mem_limit == 2 << 30 and read.train != Train()
