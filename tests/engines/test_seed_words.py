"""Seed words: the file, what becomes of it, and the model and the commands that use it."""

from __future__ import annotations

import contextlib
import io
import json
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from tests.planted import draw, store
from topicstream import TopicModel
from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.cli import main
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.model.seeds import read_seeds, resolve_seeds

FILE = """
strength = 50

[hockey]
words = ["word3", "word7", "WORD11"]

[space]
words = ["word20", "nothere"]
strength = 400
"""


class TestTheFile:
    def test_order_names_and_strengths(self, tmp_path):
        path = tmp_path / "seeds.toml"
        path.write_text(FILE)
        hockey, space = read_seeds(path)
        assert (hockey.name, hockey.words, hockey.strength) == (
            "hockey",
            ("word3", "word7", "WORD11"),
            50,
        )
        assert (space.name, space.strength) == ("space", 400)
        assert read_seeds({"hockey": ["a"], "b": {"words": ["c"], "strength": 2}})[1].strength == 2

    def test_resolved_by_word_or_its_small_letters(self):
        vocabulary = Vocabulary.from_words([f"word{i}" for i in range(30)])
        c, entries, told = resolve_seeds(
            read_seeds(
                {
                    "a": ["WORD11", "word3", "word11"],
                    "b": {"words": ["word3", "x\x1by"], "strength": 9},
                }
            ),
            vocabulary,
            np.arange(30.0),
            4,
        )
        dense = np.zeros((30, 16))
        c.add(dense, c.ids.astype(np.int64), np.arange(len(c)))
        assert dense[11, 0] == 11
        assert dense[3, 0] == 3
        assert dense[3, 1] == 9
        assert dense.sum() == 23 == c.totals.sum()
        assert entries[0].weights == [11.0, 3.0, 0.0]
        assert told == ["seed words that no training document has: word11 (a), x\\x1by (b)"]

    @pytest.mark.parametrize(
        ("text", "error", "what"),
        [
            ("[a]\nwords = ['x'", InputError, "not TOML"),
            ("", InputError, "no topics"),
            ("[a]\nword = ['x']", InputError, "topic a: `$`: object contains unknown field `word`"),
            (
                "[a]\nwords = 'x'",
                InputError,
                "topic a: `$.words`: expected `array`, got `str`. Write [name]",
            ),
            ("[a]\nwords = []", InputError, "`$.words`: expected `array` of length >= 1"),
            ("[a]\nwords = [1]", InputError, "`$.words[0]`: expected `str`, got `int`"),
            ("[a]\nwords = ['x', 'x']", InputError, "names x twice"),
            (
                "[a]\nwords = ['x']\nstrength = 0",
                InputError,
                "topic a: `$.strength`: expected `float` > 0",
            ),
            (
                "[a]\nwords = ['x']\nstrength = nan",
                InputError,
                "`$.strength`: expected `float` > 0",
            ),
            (
                "[a]\nwords = ['x']\nstrength = true",
                InputError,
                "`$.strength`: expected `float | null`, got `bool`",
            ),
            (
                "strength = 'much'\n[a]\nwords = ['x']",
                InputError,
                "`$.strength`: expected `float | null`, got `str`",
            ),
            ("[a]\nwords = ['x']\n[a]\nwords = ['y']", InputError, "not TOML"),
            (
                "a = 'x'",
                InputError,
                "topic a: `$.words`: expected `array`, got `str`. Write [name]",
            ),
            (
                "[a]\nwords = ['no', 'none']",
                InputError,
                "no training document contains a word of topic a",
            ),
            (
                "a = ['word1']\nb = ['word2']\nc = ['word3']",
                UsageError,
                "has 3 topics, the model 2; use -K 3 or more",
            ),
        ],
    )
    def test_what_cannot_be_meant_is_one_line(self, text, error, what, tmp_path):
        path = tmp_path / "seeds.toml"
        path.write_text(text)
        with pytest.raises(InputError) as e:
            resolve_seeds(
                read_seeds(path), Vocabulary.from_words(["word1", "word2", "word3"]), np.ones(3), 2
            )
        assert type(e.value) is error
        assert what in str(e.value)
        assert "\n" not in str(e.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store, a file of seeds and a model of them."""
    home = tmp_path_factory.mktemp("seeds")
    _, indptr, words, counts = draw(docs=300, words=60, topics=4, length=50, seed=3)
    store(home / "c.zarr", indptr, words, counts, 60, heldout=50)
    (home / "seeds.toml").write_text(FILE)
    told = call(
        "train",
        "--corpus",
        home / "c.zarr",
        "--model",
        home / "m",
        "-K",
        4,
        "--passes",
        4,
        "--algo",
        "vb",
        "--seed-words",
        home / "seeds.toml",
        "--eval-every",
        4,
    )
    assert "seed words that no training document has: nothere (space)" in told.stderr
    return home


def call(*arguments, code=0):
    """A command in this process: SimpleNamespace(stdout, stderr)."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = main.run([str(a) for a in arguments])
    assert found == code, err.getvalue()
    return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


class TestTheModel:
    def test_adds_them_wherever_topics_are_read(self, trained):
        loaded = TopicModel.open(trained / "m")
        streamed = TopicModel.open(trained / "m", memory_limit=0)
        counts = np.concatenate([rows.copy() for _, rows in streamed.counts()])
        want = counts.copy()
        want[[3, 7, 11], 0] += 50
        want[20, 1] += 400
        for model in (loaded, streamed):
            np.testing.assert_array_equal(model.rows(np.arange(60)), want)
            np.testing.assert_array_equal(
                np.concatenate([r.copy() for _, r in model.spans()]), want
            )
            np.testing.assert_allclose(model.totals, want.sum(0))
            np.testing.assert_allclose(model.sizes, counts.sum(0))
            assert model.probabilities(np.arange(60)).sum(0) == pytest.approx(1)
            assert model.top_words(3)["words"][1].as_py()[0] == f"word{want[:, 1].argmax()}"
            assert model.labels == {0: "hockey", 1: "space"}
        assert loaded.content_hash() == streamed.content_hash()

    def test_a_copy_keeps_them_and_a_changed_strength_is_another_model(self, trained, tmp_path):
        model = TopicModel.open(trained / "m")
        model.save(tmp_path / "copy")
        copy = TopicModel.open(tmp_path / "copy")
        assert copy.content_hash() == model.content_hash()
        np.testing.assert_array_equal(copy.rows(np.arange(60)), model.rows(np.arange(60)))
        first, *others = model.manifest.seed_words
        changed = msgspec.structs.replace(first, weights=[7.0, *first.weights[1:]])
        model.save(tmp_path / "other", seed_words=[changed, *others])
        assert TopicModel.open(tmp_path / "other").content_hash() != copy.content_hash()

    @pytest.mark.parametrize(
        "seeds",
        [
            [{"topic": 0, "name": "a", "words": ["x"], "weights": [-1]}],
            [{"topic": 0, "name": "a", "words": ["x"]}],
            "x",
            [{"topic": 4, "name": "a", "words": ["x"], "weights": [1]}],
            7,
        ],
    )
    def test_a_manifest_that_cannot_be_is_refused(self, trained, seeds, tmp_path):
        TopicModel.open(trained / "m").save(tmp_path / "copy")
        path = tmp_path / "copy" / "manifest.json"
        text = json.loads(path.read_text())
        text.pop("checksum", None)
        path.write_text(json.dumps({**text, "seed_words": seeds}))
        with pytest.raises(StoreError, match="seed_words"):
            TopicModel.open(tmp_path / "copy")

    def test_held_out_perplexity_of_training_is_that_of_eval_and_infer_adds_them(
        self, trained, tmp_path
    ):
        found = json.loads(
            call(
                "eval",
                "--corpus",
                trained / "c.zarr",
                "--model",
                trained / "m",
                "--heldout",
                "--json",
            ).stdout
        )
        history = TopicModel.open(trained / "m").history
        assert json.dumps(found).count(str(history[-1]["heldout_perplexity"])[:12]) >= 1
        one = store(
            tmp_path / "one.zarr", np.array([0, 1]), np.array([20], np.int32), np.array([3]), 60
        )
        assert TopicModel.open(trained / "m").transform(Corpus.open(one))[0].argmax() == 1

    def test_show_names_topics_and_counts_their_own_tokens(self, trained):
        shown = json.loads(call("show", "--model", trained / "m", "--json").stdout)
        topics = (
            {t["topic"]: t for t in shown["topics"]}
            if isinstance(shown, dict)
            else {t["topic"]: t for t in shown}
        )
        assert topics[0]["label"] == "hockey"
        assert sum(t["tokens"] for t in topics.values()) == pytest.approx(
            TopicModel.open(trained / "m").sizes.sum()
        )

    def test_resume_with_other_seeds_is_refused(self, trained, tmp_path):
        other = tmp_path / "other.toml"
        other.write_text('hockey = ["word20"]\n')
        arguments = (
            "train",
            "--corpus",
            trained / "c.zarr",
            "--model",
            trained / "m",
            "-K",
            4,
            "--passes",
            5,
            "--algo",
            "vb",
        )
        assert "--seed-words" in call(*arguments, "--seed-words", other, code=1).stderr
        assert "--seed-words" in call(*arguments, code=1).stderr

    def test_codes(self, trained, tmp_path):
        arguments = ("train", "--corpus", trained / "c.zarr", "--model", tmp_path / "m")
        call(*arguments, "-K", 1, "--seed-words", trained / "seeds.toml", code=2)
        call(*arguments, "-K", 4, "--seed-words", tmp_path / "none.toml", code=2)
        half = tmp_path / "half.toml"
        half.write_text("[a]\nwords = ['word1']\nstrength = 0.5\n")
        assert (
            "whole-number strengths"
            in call(*arguments, "-K", 4, "--algo", "gs", "--seed-words", half, code=2).stderr
        )
        half.write_text("[a\n")
        call(*arguments, "-K", 4, "--seed-words", half, code=3)

    def test_exported_topics_have_them_and_an_import_tells_them_apart_again(
        self, trained, tmp_path
    ):
        out = tmp_path / "m.parquet"
        call("export", "--model", trained / "m", "--out", out)
        call("import", out, "--model", tmp_path / "back")
        before = TopicModel.open(trained / "m")
        after = TopicModel.open(tmp_path / "back")
        assert after.labels == before.labels
        np.testing.assert_allclose(after.sizes, before.sizes, rtol=1e-6)
        np.testing.assert_allclose(
            after.rows(np.arange(60)), before.rows(np.arange(60)), rtol=1e-6, atol=1e-4
        )
        assert before.probabilities([20])[0, 1] == pytest.approx(
            after.probabilities([20])[0, 1], rel=1e-6
        )
