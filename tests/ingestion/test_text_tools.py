"""Text as it is: addresses, mentions, entities, spelling variants, lemmas, words of unspaced
scripts.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import topicstream
from topicstream.base.errors import StoreError
from topicstream.cli.main import run
from topicstream.ingestion.tokens.recipe import Recipe

TEXTS = [
    "Check https://t.co/abc and www.example.com/x @united_air lost my bags &amp; luggage",
    "the children saw colours; seyn thun, mail me@here.org",
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        json.dumps({"id": f"{d}-{i}", "text": text}) + "\n"
        for i in range(40)
        for d, text in enumerate(TEXTS)
    ]
    Path("docs.jsonl").write_text("".join(lines))
    return tmp_path


def vocabulary(*options: str) -> set[str]:
    line = [
        "ingest",
        "docs.jsonl",
        "--out",
        "c.zarr",
        "--min-df",
        "1",
        "--max-df",
        "1.0",
        "--heldout",
        "0",
        "--force",
        "-q",
    ]
    assert run([*line, *options]) == 0
    return set(topicstream.Corpus.open("c.zarr").words.to_pylist())


def test_addresses_mentions_and_entities_go(place):
    plain = vocabulary()
    assert {"https", "co", "www", "united", "amp"} <= plain
    cleaned = vocabulary("--drop-urls", "--drop-mentions", "--html-entities")
    assert not {"https", "co", "www", "abc", "example", "united", "air", "amp"} & cleaned
    assert {"check", "lost", "bags", "luggage", "org"} <= cleaned


def test_tags_go_and_what_they_mark_stays(place):
    text = (
        '<p class="lead">Trains &amp; ships<br/>if 3 < 4 and b<5</p><!-- hidden\nnote '
        '--><SCRIPT type="x">var code;</Script > &lt;em&gt;late'
    )
    Path("docs.jsonl").write_text(json.dumps({"text": text}) + "\n")
    assert {"class", "br", "hidden", "code", "amp"} <= vocabulary("--stopwords", "none")
    assert vocabulary("--stopwords", "none", "--drop-tags", "--html-entities") == {
        "trains",
        "ships",
        "if",
        "and",
        "late",
    }
    assert vocabulary("--drop-tags", "--html-entities") == {
        "trains",
        "ships",
        "late",
    }  # and so "none" took none


def test_spelling_variants_count_as_one_and_may_be_stop_words(place, capsys):
    Path("variants.tsv").write_text("thun\ttun\nseyn\tbe\n\ncolours\tcolors\n")
    words = vocabulary("--replace", "variants.tsv")
    assert {"tun", "colors"} <= words and not {"thun", "seyn", "be", "colours"} & words
    Path("bad.tsv").write_text("one two three\n")
    capsys.readouterr()
    assert run(["ingest", "docs.jsonl", "--out", "d.zarr", "--replace", "bad.tsv"]) == 3
    assert "bad.tsv:1: expected two words" in capsys.readouterr().err


@pytest.fixture
def tools(monkeypatch):
    """Packages that are not installed, as their users would have them."""
    lemma = ModuleType("simplemma")
    lemma.lemmatize = lambda word, lang: {"children": "Child", "bags": "bag"}.get(word, word)
    jieba = ModuleType("jieba")
    jieba.setLogLevel = lambda level: None
    jieba.lcut = lambda text: text.replace("清华大学", " 清华大学 ").split(" ")
    monkeypatch.setitem(sys.modules, "simplemma", lemma)
    monkeypatch.setitem(sys.modules, "jieba", jieba)
    return SimpleNamespace(lemma=lemma, jieba=jieba)


def test_lemmas_are_counted_in_the_store_and_at_inference(place, tools, capsys):
    assert {"child", "bag", "lost"} <= vocabulary("--lemmas", "simplemma:en")
    assert topicstream.Corpus.open("c.zarr").manifest.tokenizer["lemmas"] == "simplemma:en"
    assert run(["train", "-K", "2", "--passes", "2", "--corpus", "c.zarr", "-q"]) == 0
    capsys.readouterr()
    Path("new.jsonl").write_text('{"text": "children with bags"}\n')
    assert run(["infer", "new.jsonl", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["oov_rate"] == 0.0


def test_words_of_unspaced_scripts_are_parted(place, tools):
    Path("docs.jsonl").write_text(
        "".join(f'{{"id": "{i}", "text": "我在清华大学"}}\n' for i in range(40))
    )
    assert "清华大学" in vocabulary("--segmenter", "jieba") and "清华" in vocabulary()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--lemmas", "nothing:en"), "not known; choose one of simplemma, spacy"),
        (("--segmenter", "nothing"), "choose one of jieba, kiwi, pythainlp, sudachi"),
        (("--segmenter", "kiwi"), "pip install kiwipiepy"),
    ],
)
def test_a_tool_that_is_not_there_is_one_line(place, capsys, monkeypatch, options, said):
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    assert run(["ingest", "docs.jsonl", "--out", "d.zarr", *options]) in (2, 3)
    assert said in capsys.readouterr().err and not Path("d.zarr").exists()


def _hash_of(recipe: dict[str, object]) -> str:
    """The hash of a recipe as stores have it that were made before ``normalize``."""
    values = {name: value for name, value in recipe.items() if name != "tools"}
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_recipes_of_older_stores_keep_their_hash():
    recipe = Recipe()
    stored = recipe.to_json()
    for newer in ("normalize", "fold_accents", "join_hyphens", "joined_words", "final_sigma"):
        del stored[newer]
    assert Recipe.from_json(stored) == Recipe(normalize="none", final_sigma=False)
    assert Recipe(normalize="none").hash() == _hash_of(stored)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert (
        Recipe(lemmas="simplemma:en", tools=("simplemma 2.0",)).hash()
        == Recipe(lemmas="simplemma:en").hash()
    )
    with pytest.raises(StoreError):
        Recipe.from_json({**recipe.to_json(), "newer": 1})


def test_elided_words_of_french_are_stop_words(place):
    Path("docs.jsonl").write_text('{"id": "1", "text": "lorsqu\'il vient aujourd\'hui"}\n' * 1)
    assert vocabulary("--stopwords", "french") == {"vient"}
