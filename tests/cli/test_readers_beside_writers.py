"""A command whose store or model is rewritten while it reads says so, and ends with code 4."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.small_store import planted, store
from topicstream.base.errors import Busy, StoreError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.verbs import TopicModel

READERS = {
    "train": ["train", "--model", "other", "-K", "2", "--passes", "2"],
    "eval": ["eval", "--heldout"],
    "show": ["show", "--docs", "2"],
    "show words": ["show"],
    "infer": ["infer", "corpus.zarr"],
    "report": ["report", "--no-scores"],
    "export": ["export", "--format", "uci", "--out", "exported"],
    "export topics": ["export", "--out", "phi.parquet"],
    "verify": ["info", "corpus.zarr", "--verify"],
    "verify model": ["info", "model", "--verify"],
    "sweep": ["sweep", "-K", "2", "--seeds", "1", "--passes", "2", "--out", "swept"],
    "similar": ["show", "--similar", "train-3"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two stores and a model of each."""
    home = tmp_path_factory.mktemp("whole")
    matrix, _ = planted(3, 60, 50, 2)
    other, _ = planted(4, 41, 47, 2)
    store(home / "corpus.zarr", matrix, matrix[:9], ids=True)
    store(home / "second.zarr", other, other[:5], ids=True)
    for corpus, model in (("corpus.zarr", "model"), ("second.zarr", "second")):
        places = ["--corpus", str(home / corpus), "--model", str(home / model)]
        assert run(["train", *places, "-K", "2", "--passes", "3", "-q"]) == 0
    return home


@pytest.fixture
def folder(whole, tmp_path, monkeypatch):
    """A copy of the stores and models, in which the test stands."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replace_folder(place: str, by: str | None) -> None:
    """Do as a writer of another process does that replaces a folder."""
    shutil.rmtree(place)
    if by is not None:
        shutil.copytree(by, place)


def rewrite_after_opening(monkeypatch, kind, place: str, by: str | None) -> list[str]:
    """Let the folder be replaced as soon as it has been opened."""
    opened = kind.open.__func__
    done: list[str] = []

    def opening(cls, path, *arguments, **options):
        result = opened(cls, path, *arguments, **options)
        if not done and os.path.basename(str(path)) == place:
            done.append(place)
            replace_folder(place, by)
        return result

    monkeypatch.setattr(kind, "open", classmethod(opening))
    return done


@pytest.mark.parametrize("by", ["second.zarr", None])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_of_a_store_that_is_rewritten(name, by, folder, monkeypatch, capsys):
    done = rewrite_after_opening(monkeypatch, Corpus, "corpus.zarr", by)
    code = run([*READERS[name], "-q"])
    said = capsys.readouterr().err
    assert code in (0, 4), said
    if code == 4:
        assert "corpus.zarr: the store was rewritten while it was read; run the command" in said
        assert said.count("\n") == 1 and "restore" not in said and "damaged" not in said
    if name in ("train", "report", "export", "verify", "infer"):
        assert done and code == 4


@pytest.mark.parametrize("by", ["second", None])
@pytest.mark.parametrize("name", [n for n in READERS if n not in ("train", "sweep", "verify")])
def test_a_reader_of_a_model_that_is_replaced(name, by, folder, monkeypatch, capsys):
    rewrite_after_opening(monkeypatch, TopicModel, "model", by)
    code = run([*READERS[name], "-q"])
    said = capsys.readouterr().err
    assert code in (0, 4), said
    assert "restore" not in said and "damaged" not in said
    assert code == 0 or "model: the model was rewritten while it was read" in said


def test_python_raises_busy(folder, monkeypatch):
    corpus = Corpus.open("corpus.zarr")
    replace_folder("corpus.zarr", "second.zarr")
    with pytest.raises(Busy, match="the store was rewritten while it was read"):
        evaluate("model", corpus, heldout=True, progress=False)


HANDLES = {
    "words": lambda corpus, model: corpus.words[:],
    "word counts": lambda corpus, model: corpus.word_counts(),
    "a document": lambda corpus, model: corpus[0],
    "documents": lambda corpus, model: list(corpus.documents(columns=["part"])),
    "a matrix": lambda corpus, model: corpus.to_scipy(parts="train"),
    "blocks": lambda corpus, model: list(corpus.blocks()),
    "theta": lambda corpus, model: list(model.theta(corpus)),
    "transform": lambda corpus, model: model.transform(corpus),
}


@pytest.mark.parametrize("by", ["second.zarr", None])
def test_what_python_holds_open_is_not_called_damaged(by, folder):
    """Methods of an open corpus said ``missing; restore the file`` beside a writer."""
    corpus = Corpus.open("corpus.zarr")
    model = TopicModel.open("model")
    replace_folder("corpus.zarr", by)
    for read in HANDLES.values():
        with pytest.raises(Busy, match="the store was rewritten while it was read; run the"):
            read(corpus, model)


def test_an_open_corpus_beside_a_command_that_forgets(tmp_path, monkeypatch):
    """Files that ``forget`` has removed are no damage, and a corpus opened anew has the others."""
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(
        "".join(f'{{"id": "d{n}", "text": "apple pear w{n % 5}x"}}\n' for n in range(30))
    )
    assert run(["ingest", "a.jsonl", "--min-df", "1", "--max-df", "1.0", "-q"]) == 0
    assert run(["train", "-K", "2", "--passes", "2", "-q"]) == 0
    corpus = Corpus.open("corpus.zarr")
    model = TopicModel.open("model")
    assert run(["forget", "d3", "-q"]) == 0
    lost = []
    for name, read in HANDLES.items():
        try:
            read(corpus, model)
        except Busy as e:
            assert "corpus.zarr: the store was rewritten while it was read" in str(e)
            lost.append(name)
    assert {"a document", "documents", "a matrix"} <= set(lost)
    assert "d3" not in [document.id for document in Corpus.open("corpus.zarr")]


def test_the_vocabulary_that_an_append_replaced_is_not_read_for_the_older_one(
    tmp_path, monkeypatch
):
    """``vocab.parquet`` of a new store has another's counts once it is appended to."""
    monkeypatch.chdir(tmp_path)
    line = '{{"id": "d{}", "text": "apple pear"}}\n'
    Path("a.jsonl").write_text("".join(map(line.format, range(20))))
    Path("b.jsonl").write_text("".join(map(line.format, range(20, 30))))
    options = ["--min-df", "1", "--max-df", "1.0", "--heldout", "0", "-q"]
    assert run(["ingest", "a.jsonl", *options]) == 0
    used = Corpus.open("corpus.zarr")
    assert used.read_vocabulary().counts.tolist() == [20, 20]
    fresh = Corpus.open("corpus.zarr")
    assert run(["ingest", "b.jsonl", "--append", *options[-3:]]) == 0
    for corpus in (used, fresh):
        for read in (Corpus.read_vocabulary, Corpus.word_table, lambda c: c.words[:]):
            with pytest.raises(Busy, match="the store was rewritten while it was read"):
                read(corpus)
    assert Corpus.open("corpus.zarr").read_vocabulary().counts.tolist() == [30, 30]


def test_a_file_that_is_gone_from_a_store_that_nobody_wrote_is_missing(folder):
    corpus = Corpus.open("corpus.zarr")
    (Path("corpus.zarr") / corpus.manifest.docs[0].file).unlink()
    with pytest.raises(StoreError, match=r"part-00000.parquet: missing; restore the file"):
        corpus[0]


def test_a_damaged_store_is_still_called_damaged(folder, capsys):
    for file in Path("corpus.zarr").glob("train/counts/c/*/0"):
        file.write_bytes(file.read_bytes()[:-1])
    assert run(["train", "--model", "other", "-K", "2", "-q"]) == 3
    said = capsys.readouterr().err
    assert "restore it" in said and "rewritten" not in said
    assert np.isfinite(Corpus.open("second.zarr").word_counts()).all()


def test_a_folder_opened_before_is_not_behind_an_error_of_another_call(tmp_path):
    """A model that a notebook has opened, and that is gone, explains no later internal error."""
    from topicstream.base.files.openings import Opening, current_openings, rewriting_behind

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").write_text("{}")
    opening = Opening(tmp_path / "model", "model")
    earlier = current_openings()
    (tmp_path / "model" / "manifest.json").unlink()
    assert opening.was_rewritten()
    assert rewriting_behind(IndexError("list index out of range"), earlier) is None
    assert rewriting_behind(OSError(f"{tmp_path}/model/phi: no such file"), earlier) is not None


def test_a_folder_is_named_by_its_whole_path_wherever_the_command_runs(tmp_path, monkeypatch):
    """A model called ``m`` that was opened in another folder explains no error with an m in it."""
    from topicstream.base.files.openings import Opening, current_openings, rewriting_behind

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    opening = Opening(Path("m"), "model")
    earlier = current_openings()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert not opening.was_rewritten()
    (tmp_path / "m" / "manifest.json").write_text("{} ")
    assert opening.was_rewritten()
    for text in (
        "Missing option '--model'",
        "other/m: damaged",
        "m.zarr: damaged",
        "my-m: damaged",
        "other: no m yet",
    ):
        assert rewriting_behind(StoreError(text), earlier) is None, text
        assert rewriting_behind(ValueError(text), earlier) is None, text
    for text in ("m: damaged", "cannot read m/phi: gone", "'m' is damaged"):
        assert rewriting_behind(StoreError(text), earlier) is not None, text


def test_a_store_opened_by_an_earlier_command_explains_no_later_error(folder, capsys):
    opened = Corpus.open("corpus.zarr")
    replace_folder("corpus.zarr", "second.zarr")
    assert run(["train", "-K", "no number"]) == 2  # an error of click, which names no file
    assert "rewritten" not in capsys.readouterr().err
    assert opened.path == Path("corpus.zarr")
