"""Files that retrain.toml names lie beside it, wherever the command runs."""

from __future__ import annotations

import pytest

from topicstream.base.errors import UsageError
from topicstream.retraining.config import load_config


@pytest.mark.parametrize("address", ["s3://bucket/clean", "gs://b/x", "hdfs://host/raw"])
@pytest.mark.parametrize("name", ["raw", "folder"])
def test_an_address_is_no_folder_of_new_files(tmp_path, address, name):
    (tmp_path / "retrain.toml").write_text(f'{name} = "{address}"\n')
    with pytest.raises(UsageError, match=f'{name} = "{address}": an address') as refused:
        load_config(tmp_path / "retrain.toml")
    assert "\n" not in str(refused.value)


def test_files_of_an_ingest_are_beside_the_config_file(tmp_path, monkeypatch):
    home = tmp_path / "nightly"
    home.mkdir()
    for name in ("stops.txt", "drop.txt", "side.tsv", "names.txt"):
        (home / name).write_text("word\n")
    (home / "retrain.toml").write_text(
        '[ingest]\nstopwords = "german+stops.txt"\ndrop_words = "drop.txt"\n'
        'meta_files = ["side.tsv:id,party"]\n[[source]]\npatterns = "*.mtx"\nwords = "names.txt"\n'
    )
    monkeypatch.chdir(tmp_path)
    config = load_config("nightly/retrain.toml")
    assert config.ingest == {
        "stopwords": f"german+{home / 'stops.txt'}",
        "drop_words": str(home / "drop.txt"),
        "meta_files": [f"{home / 'side.tsv'}:id,party"],
    }
    assert config.source[0].options == {"words": str(home / "names.txt")}


def test_languages_and_words_stay(tmp_path):
    for value in ('"de"', '"none"', '["the", "and"]'):
        (tmp_path / "retrain.toml").write_text(f"[ingest]\nstopwords = {value}\n")
        ingest = load_config(tmp_path / "retrain.toml").ingest
        assert ingest["stopwords"] == (["the", "and"] if "[" in value else value.strip('"'))
