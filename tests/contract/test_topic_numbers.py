"""One model has one numbering of its topics, whatever door they are seen through."""

from __future__ import annotations

import csv
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import topicstream
from tests.report_store import data_of, made, planted_model, unpack
from topicstream import TopicModel
from topicstream.base.records import write_record
from topicstream.cli.main import run
from topicstream.model.manifest import IDS, TopicIds, read_manifest, write_manifest
from topicstream.model.seeds import SeedEntry

NUMBERS = [30, 10, 31, 2]
"""Of the columns: cats, ships, stars, bread."""
THEMES = {30: "cats", 10: "ships", 31: "stars", 2: "bread"}
TEXTS = {
    30: "cats kittens purring whiskers claws",
    10: "ships harbour sails anchor captain",
    31: "stars galaxy telescope orbit comet",
    2: "bread oven flour dough baker",
}
EDITS = [
    {"edit": "merge", "topics": [30, 2]},
    {"edit": "label", "topic": 31, "label": "the sky"},
    {"edit": "order", "topics": [31]},
]


class Published:
    """A model as `topics retrain` publishes it, and what is right of it, from its own counts."""

    def __init__(self, home: Path, edited: bool) -> None:
        self.home = home
        self.store = str(home / "corpus.zarr")
        self.path = str(home / "model")
        self.edited = edited
        trained = TopicModel.open(self.path)
        counts = {number: trained.phi[:, k] for k, number in enumerate(NUMBERS)}
        self.texts = dict(TEXTS)
        if edited:
            topicstream.edit(self.path, EDITS)
            counts[30] = counts[30] + counts.pop(2)
            self.texts[30] = f"{TEXTS[30]} {self.texts.pop(2)}"
        self.numbers = sorted(counts)
        every = trained.words
        total = sum(float(column.sum()) for column in counts.values())
        self.words = {k: self.first(every, column) for k, column in counts.items()}
        self.share = {k: float(column.sum()) / total for k, column in counts.items()}
        self.model = TopicModel.open(self.path)

    @staticmethod
    def first(words: list[str], values: np.ndarray) -> set[str]:
        """The three words with the largest values."""
        return {words[i] for i in np.argsort(-values, kind="stable")[:3]}

    def run(self, *line: str) -> None:
        """Run a command on the model, which must succeed."""
        assert run([*line, "--model", self.path]) == 0


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    corpus, _ = made(folder, 300)
    planted_model(corpus, folder / "model")
    write_record(folder / "model" / IDS, TopicIds(ids=NUMBERS, next=40))
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["aligned", "edited"])
def published(template, request, tmp_path_factory):
    home = tmp_path_factory.mktemp("home") / "home"
    return Published(Path(shutil.copytree(template, home)), request.param)


@pytest.fixture
def out(tmp_path):
    return lambda name: str(tmp_path / name)


def test_python_tables(published):
    model = published.model
    rows = model.top_words(3).to_pylist()
    assert [row["topic"] for row in rows] == published.numbers
    for row in rows:
        assert set(row["words"]) == published.words[row["topic"]]
        assert row["share"] == pytest.approx(published.share[row["topic"]])
    assert model.labels == ({31: "the sky"} if published.edited else {})


def test_pandas(published):
    pytest.importorskip("pandas")
    frame = published.model.to_pandas(3)
    assert frame.index.tolist() == published.numbers
    for number, words in published.words.items():
        assert set(frame.loc[number, "words"]) == words
    assert (frame.loc[31, "label"] == "the sky") == published.edited


def test_the_table_of_a_notebook(published):
    cells: list[str] = []
    parser = HTMLParser()
    parser.handle_data = cells.append
    parser.feed(published.model._repr_html_())
    for number, words in published.words.items():
        after = cells[cells.index(str(number)) : cells.index(str(number)) + 4]
        assert words & set(" ".join(after).split())


def test_arrays_have_their_numbers_beside_them(published):
    model = published.model
    assert model.topic_ids.tolist() == published.numbers == model.top_words(1)["topic"].to_pylist()
    for number, text in published.texts.items():
        assert model.topic_ids[model.transform([text]).argmax()] == number
    assert model.column_ids.tolist() == NUMBERS
    for number, text in TEXTS.items():
        assert sorted(NUMBERS)[model.transform([text], edits=False).argmax()] == number
        word = model.words.index(text.split()[0])
        assert model.column_ids[model.phi[word].argmax()] == number


def test_models_of_other_packages(published):
    pytest.importorskip("sklearn")
    components = published.model.to_sklearn().components_
    for number, row in zip(published.model.topic_ids.tolist(), components, strict=True):
        assert published.first(published.model.words, row) == published.words[number]


def test_show(published, capsys):
    shown = topicstream.show(published.path, words=3)["topics"]
    by_size = sorted(published.numbers, key=lambda number: -published.share[number])
    listed = [31, *published.numbers[:-1]] if published.edited else by_size
    assert [topic["topic"] for topic in shown] == listed
    for topic in shown:
        assert {word["word"] for word in topic["words"]} == published.words[topic["topic"]]
        assert topic["share"] == pytest.approx(published.share[topic["topic"]])
    for number in published.numbers:
        capsys.readouterr()
        published.run("show", "-k", str(number), "-n", "3", "--json")
        (topic,) = json.loads(capsys.readouterr().out)["topics"]
        assert topic["topic"] == number
        assert {word["word"] for word in topic["words"]} == published.words[number]
    assert run(["show", "-k", "0", "--model", published.path]) != 0


def test_show_tables(published, out):
    published.run("show", "--table", out("t.csv"), "-n", "3")
    with open(out("t.csv")) as file:
        rows = [row for row in csv.DictReader(file) if row["measure"] == "probability"]
    for number, words in published.words.items():
        assert {row["word"] for row in rows if int(row["topic"]) == number} == words
    published.run("show", "--correlations", out("c.csv"), "--corpus", published.store)
    with open(out("c.csv")) as file:
        head, *body = csv.reader(file)
    listed = [31, *published.numbers[:-1]] if published.edited else published.numbers
    assert [int(name) for name in head[2:]] == [int(row[0]) for row in body] == listed


def test_infer(published, out):
    for number, text in published.texts.items():
        answers = topicstream.infer(published.path, [text], top=1).to_pylist()
        assert answers[0]["topics"] == [number]
    source = Path(out("new.jsonl"))
    lines = [json.dumps({"id": str(k), "text": text}) for k, text in published.texts.items()]
    source.write_text("\n".join(lines) + "\n")
    for suffix in (".parquet", ".jsonl", ".csv"):
        published.run("infer", str(source), "--out", out(f"a{suffix}"))
    rows = pq.read_table(out("a.parquet")).to_pylist()
    lines = Path(out("a.jsonl")).read_text().splitlines()
    for row in [*rows, *map(json.loads, lines)]:
        assert row["topics"] == published.numbers
        assert row["topics"][int(np.argmax(row["shares"]))] == int(row["id"])
    with open(out("a.csv")) as file:
        cells = list(csv.DictReader(file))
    for number in published.numbers:
        mine = [row for row in cells if row["id"] == str(number)]
        assert [int(row["topic"]) for row in mine] == published.numbers
        assert int(max(mine, key=lambda row: float(row["share"]))["topic"]) == number
    trained = topicstream.infer(published.path, [TEXTS[2]], top=1, edits=False)
    assert trained["topics"].to_pylist() == [[2]]


def test_theta(published, out):
    view = ("--corpus", published.store)
    published.run("show", "--theta", out("t.parquet"), *view)
    table = pq.read_table(out("t.parquet"))
    assert all(topics == published.numbers for topics in table["topics"].to_pylist())
    wide = [f"topic_{number}" for number in published.numbers]
    for suffix in (".parquet", ".csv"):
        published.run("show", "--theta", out(f"w{suffix}"), "--wide", *view)
    columns = pq.read_table(out("w.parquet"))
    assert columns.column_names[-len(wide) :] == wide
    with open(out("w.csv")) as file:
        assert next(csv.reader(file))[-len(wide) :] == wide
    lists = np.array(table["shares"].to_pylist())
    assert np.allclose(lists, np.stack([columns[name] for name in wide], axis=1))


def test_documents(published):
    for number in published.numbers:
        texts = published.model.typical_documents(number, 2, corpus=published.store, text=True)
        for row in texts.to_pylist():
            marked = {row["text"][a:b].lower() for a, b in row["marks"]}
            assert marked & set(published.texts[number].split())
    found = topicstream.show(published.path, published.store, find="galaxy")["topics"][0]
    assert found["topic"] == 31
    best = published.model.typical_documents(31, 1, corpus=published.store)["id"][0].as_py()
    alike = topicstream.show(published.path, published.store, similar=best)
    assert alike["topics"][0]["topic"] == 31


def test_groups_and_effects(published):
    shown = topicstream.show(published.path, published.store, by="party", min_docs=1)
    rows = topicstream.effects("party", published.path, published.store).table()
    theta = published.model.transform(topicstream.Corpus.open(published.store), parts=("train",))
    mean = dict(zip(published.numbers, theta.mean(axis=0), strict=True))
    for number in published.numbers:
        groups = [row["share"] for row in shown if row["topic"] == number]
        assert len(groups) == 2 and np.mean(groups) == pytest.approx(mean[number], abs=0.06)
    assert sorted(set(rows["topic"].to_pylist())) == published.numbers


def test_likeness_of_topics(published):
    tree = topicstream.show(published.path, published.store, tree=True)
    assert sorted(tree["topics"]) == tree["ids"] == published.numbers
    merges = range(tree["first_merge"], tree["first_merge"] + len(tree["merges"]))
    parts = [merge[side] for merge in tree["merges"] for side in ("left", "right")]
    assert sorted(parts) == [*published.numbers, *merges[:-1]]
    cut = topicstream.show(published.path, published.store, reduce_to=2)["clusters"]
    assert sorted(topic for group in cut for topic in group) == published.numbers


def test_evaluation_and_comparison(published):
    scores = topicstream.evaluate(published.path, published.store, coherent=True)["coherence"]
    assert scores["topics"] == published.numbers
    assert len(scores["npmi_by_topic"]) == len(published.numbers)
    pairs = topicstream.compare(published.path, published.path, words=3)["matched"]
    assert sorted(pair["a"] for pair in pairs) == published.numbers
    for pair in pairs:
        assert pair["a"] == pair["b"] and set(pair["words"]) == published.words[pair["a"]]
        assert pair["share_a"] == pytest.approx(published.share[pair["a"]])


def test_the_report(published, out):
    topicstream.report(published.path, published.store, out=out("r.html"), progress=False)
    values, arrays = unpack(data_of(Path(out("r.html")).read_text()))
    assert values["ids"] == published.numbers
    assert values["listing"] == ([2, 0, 1] if published.edited else None)
    for k, number in enumerate(published.numbers):
        mine = slice(*arrays["wordOffsets"][k : k + 2])
        ranked = np.argsort(arrays["wordLogP"][mine], kind="stable")[:3]
        words = {values["vocabulary"][i] for i in arrays["wordIds"][mine][ranked]}
        assert words == published.words[number]


def test_exported_tables(published, out):
    wide = [f"topic_{number}" for number in published.numbers]
    published.run("export", "--out", out("x.csv"))
    published.run("export", "--out", out("x.parquet"))
    with open(out("x.csv")) as file:
        assert next(csv.reader(file))[1:] == wide
    table = pq.read_table(out("x.parquet"))
    assert table.column_names[3:] == wide
    for number, words in published.words.items():
        values = table[f"topic_{number}"].to_numpy()
        assert published.first(table["word"].to_pylist(), values) == words


def test_exports_that_count_from_zero_say_the_numbers(published, out, capsys):
    for name, place in (("mallet", "m"), ("pyldavis", "p.json")):
        done = topicstream.export_model(published.path, out(place), format=name)
        assert done["topic_ids"] == published.numbers
    for line in Path(out("m"), "topic-keys.txt").read_text().splitlines():
        place, _, words = line.split("\t")
        assert published.words[published.numbers[int(place)]] == set(words.split()[:3])
    page = json.loads(Path(out("p.json")).read_text())
    assert page["topic.ids"] == published.numbers
    capsys.readouterr()
    published.run("export", "--format", "mallet", "--out", out("again"))
    said = ", ".join(map(str, published.numbers))
    assert (
        f"topics counted from 0 in the order of their numbers ({said})" in capsys.readouterr().out
    )


def test_cells_have_the_trained_topics_by_number(published, out):
    h5py = pytest.importorskip("h5py")
    place = out("c.h5ad")
    topicstream.export_model(published.path, place, format="h5ad", corpus=published.store)
    corpus = topicstream.Corpus.open(published.store)
    theta = published.model.transform(corpus, edits=False)
    with h5py.File(place) as data:
        numbers = data["uns/topicstream/topic_ids"][:].tolist()
        shares = data["obsm/X_topic"][:]
        topics = data["varm/topic"][:]
    assert numbers == sorted(NUMBERS)
    for k, number in enumerate(numbers):
        assert THEMES[number] in published.first(published.model.words, topics[:, k])
    assert np.allclose(shares, theta, equal_nan=True, atol=1e-6)


def test_documents_topics_for_other_programs(published, out):
    corpus = ("--corpus", published.store)
    published.run("export", "--format", "parquet-theta", "--out", out("t.parquet"), *corpus)
    table = pq.read_table(out("t.parquet"))
    assert all(topics == published.numbers for topics in table["topics"].to_pylist())
    published.run("export", "--format", "mallet-doc-topics", "--out", out("d.txt"), *corpus)
    rows = [line.split("\t")[2:] for line in Path(out("d.txt")).read_text().splitlines()]
    assert np.allclose(np.array(rows, float), table["shares"].to_pylist(), atol=1e-6)


def test_empty_topics_by_number(template, tmp_path):
    from topicstream.display.model_info import describe

    model = TopicModel.open(template / "model")
    phi = model.phi.copy()
    phi[:, 1] = 0
    TopicModel.from_arrays(phi, model.vocabulary, 0.1, 0.01).save(tmp_path / "m")
    write_record(tmp_path / "m" / IDS, TopicIds(ids=NUMBERS, next=40))
    about = describe(tmp_path / "m")
    assert about["empty_topics"] == [10] and about["topic_ids"] == sorted(NUMBERS)
    names = topicstream.show(tmp_path / "m", tree=True)["labels"]
    assert names["10"] == "(dead) (empty 10)"


def test_seed_words_go_with_their_topic_through_an_export(template, tmp_path):
    seeds = [SeedEntry(topic=1, name="sea", words=("ships",), strength=9.0, weights=[9.0])]
    TopicModel.open(template / "model").save(tmp_path / "m")
    write_manifest(tmp_path / "m", replace(read_manifest(tmp_path / "m"), seed_words=seeds))
    write_record(tmp_path / "m" / IDS, TopicIds(ids=NUMBERS, next=40))
    before = TopicModel.open(tmp_path / "m")
    topicstream.export_model(tmp_path / "m", tmp_path / "x.parquet")
    topicstream.import_model(tmp_path / "x.parquet", tmp_path / "back")
    back = TopicModel.open(tmp_path / "back")
    assert [seed.topic for seed in back.manifest.seed_words] == [sorted(NUMBERS).index(10)]
    order = np.argsort(NUMBERS)
    words = np.array([back.words.index(word) for word in before.words])
    assert np.allclose(back.rows(words), before.phi[:, order])
    assert np.allclose(back.sizes, before.sizes[order])


def test_a_saved_copy_keeps_the_numbers(published, tmp_path):
    model = TopicModel.open(published.path)
    model.save(tmp_path / "copy")
    assert TopicModel.open(tmp_path / "copy").column_ids.tolist() == NUMBERS
    TopicModel.from_arrays(np.eye(3) + 0.1, ["a", "b", "c"], 0.1, 0.1).save(tmp_path / "copy")
    assert TopicModel.open(tmp_path / "copy").column_ids.tolist() == [0, 1, 2]
