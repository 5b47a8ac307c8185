"""A store or a model from elsewhere chooses no code and no file of this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

import topicstream
from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.durable import read_json, write_json
from topicstream.cli.main import run
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer


@pytest.fixture
def spacy(tmp_path, monkeypatch):
    """A spaCy that notes what it is to load, and one installed pipeline, ``xx_small``."""
    loaded = []
    library = ModuleType("spacy")

    def load(name, exclude):
        loaded.append(name)
        return lambda word: [SimpleNamespace(lemma_=word.rstrip("s"))]

    library.load = load
    monkeypatch.setitem(sys.modules, "spacy", library)
    site = tmp_path / "site"
    about = site / "xx_small-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: xx-small\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(site)
    return loaded


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A store and a model of plain words, and a document to infer, in the working folder."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"{i}", "text": "red cats and blue dogs"}) for i in range(40)]
    Path("docs.jsonl").write_text("\n".join(lines))
    Path("new.jsonl").write_text('{"id": "new", "text": "cats and dogs"}\n')
    assert run(["ingest", "docs.jsonl", "--heldout", "0", "--max-df", "1.0", "-q"]) == 0
    assert run(["train", "-K", "2", "--passes", "2", "-q"]) == 0
    return tmp_path


def name_tools(folder: str, **changes: object) -> None:
    """Change the recipe in a manifest, as a stranger could have written it."""
    manifest = read_json(Path(folder, "manifest.json"))
    manifest["tokenizer"] |= changes
    write_json(Path(folder, "manifest.json"), manifest)


PATHS = [
    "spacy:/anywhere",
    "spacy:../up",
    "spacy:./here",
    "spacy:here/there",
    "spacy:",
    "spacy:a.b",
    "spacy:blank:en",
    "spacy:xx_small\n",
    "spacy:~/x",
]


@pytest.mark.parametrize("lemmas", PATHS)
@pytest.mark.parametrize("asked", [False, True])
def test_a_path_is_never_loaded(spacy, lemmas, asked):
    with pytest.raises(UsageError, match="is not the name of a package"):
        Tokenizer(Recipe(lemmas=lemmas), tools=[lemmas] if asked else [])
    assert spacy == []


def test_a_folder_with_the_name_of_a_pipeline_is_not_loaded(spacy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("somewhere").mkdir()
    with pytest.raises(InputError, match="not installed; python -m spacy download somewhere"):
        Tokenizer(Recipe(lemmas="spacy:somewhere"), tools=["spacy:somewhere"])
    assert spacy == []


def test_infer_and_find_run_a_pipeline_only_where_the_command_names_it(place, spacy, capsys):
    name_tools("model", lemmas="spacy:xx_small")
    for command in (["infer", "new.jsonl"], ["show", "--find", "cats"]):
        capsys.readouterr()
        assert run(command) == 2
        error = capsys.readouterr().err
        assert "give --lemmas spacy:xx_small" in error and error.count("\n") == 1
    assert spacy == []
    assert run(["infer", "new.jsonl", "-q", "--lemmas", "spacy:xx_small"]) == 0
    assert spacy == ["xx_small"]
    assert run(["infer", "new.jsonl", "-q", "--lemmas", "spacy:other"]) == 2
    assert "the model's text used spacy:xx_small" in capsys.readouterr().err
    assert run(["infer", "new.jsonl", "-q", "--segmenter", "jieba"]) == 2
    assert "the model's text used none" in capsys.readouterr().err
    assert set(spacy) == {"xx_small"}


def test_an_append_runs_a_pipeline_only_where_the_command_names_it(place, spacy, capsys):
    name_tools("corpus.zarr", lemmas="spacy:xx_small")
    assert run(["ingest", "new.jsonl", "--append", "-q"]) == 2
    assert "give --lemmas spacy:xx_small" in capsys.readouterr().err and spacy == []
    assert run(["ingest", "new.jsonl", "--append", "-q", "--lemmas", "spacy:xx_small"]) == 0
    assert spacy and set(spacy) == {"xx_small"}
    assert run(["ingest", "docs.jsonl", "--append", "-q", "--lemmas", "simplemma:en"]) == 3
    assert "another tokenizer (lemmas)" in capsys.readouterr().err


def test_documents_that_a_score_reads_run_no_pipeline(place, spacy, capsys):
    name_tools("model", lemmas="spacy:xx_small")
    for command in (
        ["eval", "--heldout", "new.jsonl"],
        ["info", "model", "--drift", "new.jsonl"],
    ):
        capsys.readouterr()
        assert run(command) == 2
        assert "ingest the documents and name the store" in capsys.readouterr().err
    assert spacy == []


def test_words_of_a_report_are_marked_without_the_pipeline_of_its_store(place, spacy):
    name_tools("corpus.zarr", lemmas="spacy:xx_small")
    assert run(["show", "--docs", "1", "--text", "-q"]) == 0
    assert run(["report", "-q"]) == 0
    assert spacy == []


def test_a_tool_of_another_package_runs_only_where_it_is_asked_for(monkeypatch):
    made = []

    def make(*language):
        made.append(language)
        return str.split if not language else str.lower

    for group in (plugins.LEMMATIZERS, plugins.SEGMENTERS):
        monkeypatch.setitem(
            plugins.entries(group), "theirs", SimpleNamespace(load=lambda: make, dist=None)
        )
    plugins.load.cache_clear()
    for recipe, asked in (
        (Recipe(lemmas="theirs:/etc/passwd"), "theirs:/etc/passwd"),
        (Recipe(segmenter="theirs"), "theirs"),
    ):
        with pytest.raises(UsageError, match="runs no code that the command does not name"):
            Tokenizer(recipe)
        assert made == []
        Tokenizer(recipe, tools=[asked]).count(pa.array(["a word"], pa.large_string()))
        assert made and set(made) == {("/etc/passwd",) if recipe.lemmas else ()}
        made.clear()
    plugins.load.cache_clear()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(lemmas="simplemma:../../home"),
        Recipe(lemmas="simplemma:/etc/passwd"),
        Recipe(lemmas="os:system"),
        Recipe(segmenter="os"),
        Recipe(segmenter="/tmp/module.py"),
        Recipe(stem="/etc/passwd"),
        Recipe(stem="../english"),
    ],
)
def test_other_values_of_a_recipe_lead_nowhere(recipe):
    with pytest.raises((UsageError, InputError)):
        Tokenizer(recipe)


@pytest.mark.parametrize("name", ["os:system", "/tmp/engine.py", "..", "antigravity"])
def test_an_engine_that_a_model_names_is_one_that_is_registered(place, name, capsys):
    manifest = read_json("model/manifest.json")
    write_json("model/manifest.json", manifest | {"engine": name})
    assert run(["infer", "new.jsonl", "-q"]) == 0  # no engine is needed to infer
    assert run(["update", "--out", "next"]) != 0
    assert "internal error" not in capsys.readouterr().err
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["os:system", "/tmp/reader.py", "antigravity"])
def test_a_reader_that_a_store_names_is_one_that_is_registered(place, name, capsys):
    manifest = read_json("corpus.zarr/manifest.json")
    reading = (manifest.get("reading") or {}) | {"format": name}
    write_json("corpus.zarr/manifest.json", manifest | {"reading": reading})
    run(["show", "--docs", "1", "--text", "-q"])
    run(["ingest", "new.jsonl", "--append", "-q"])
    assert "internal error" not in capsys.readouterr().err
    assert "antigravity" not in sys.modules


def test_files_that_a_store_says_it_was_made_of_are_not_read_unasked(place, tmp_path):
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"id": "0", "text": "red cats and the password of the house"}\n' * 40)
    record = read_json("corpus.zarr/.inputs.json")
    for entry in record["inputs"]:
        entry["place"] = str(secret)
    write_json("corpus.zarr/.inputs.json", record)
    Path("docs.jsonl").rename("gone.jsonl")
    secret.rename(tmp_path / "docs.jsonl")
    record["inputs"][0]["place"] = str(tmp_path / "docs.jsonl")
    write_json("corpus.zarr/.inputs.json", record)
    assert run(["report", "-q"]) == 0
    assert "password" not in Path("report.html").read_text()


def test_a_store_names_stop_words_and_never_a_file_of_them(place, tmp_path):
    Path("list.txt").write_text("cats\n")
    name_tools("corpus.zarr", stopwords_from=str(tmp_path / "list.txt"))
    assert run(["ingest", "new.jsonl", "--append", "-q"]) == 0
    assert "cats" in topicstream.Corpus.open("corpus.zarr").words.to_pylist()


def test_the_config_of_a_retrain_names_the_pipeline_for_every_night(spacy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["retrain", "--init", "--config", "retrain.toml"]) == 0
    config = Path("retrain.toml").read_text().replace("topics = 100", "topics = 2\npasses = 3")
    named = config.replace("[ingest]", '[ingest]\nlemmas = "spacy:xx_small"\nheldout = "10%"', 1)
    texts = ["red cats and red cats", "blue dogs and blue dogs"]
    lines = [json.dumps({"id": f"{i}", "text": texts[i % 2]}) for i in range(80)]
    for night in range(3):
        some = lines[night * 20 : night * 20 + 20 + 20 * (night == 2)]
        Path(f"raw/{night}.jsonl").write_text("\n".join(some))
        lemmas = "spacy:/anywhere" if night == 1 else "spacy:xx_small"
        Path("retrain.toml").write_text(named.replace("spacy:xx_small", lemmas))
        spacy.clear()
        assert run(["retrain", "--config", "retrain.toml", "-q"]) == (2 if night == 1 else 0)
        assert set(spacy) <= {"xx_small"} and bool(spacy) == (night != 1)
    assert "cat" in topicstream.Corpus.open("corpus.zarr").words.to_pylist()
    Path("raw/4.jsonl").write_text('{"id": "x", "text": "red cats"}')
    Path("retrain.toml").write_text(config)
    spacy.clear()
    assert run(["retrain", "--config", "retrain.toml", "-q"]) == 2 and spacy == []
