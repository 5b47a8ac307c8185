"""Seed words stay with a model: update, retrain, exports, inference."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.engines.test_seed_words import call
from topicstream import TopicModel
from topicstream.training.loop import train


def texts(first: int, n: int) -> list[dict]:
    """Documents on hockey or on space, and a few words of both."""
    rng = np.random.default_rng(first)
    words = (
        ["puck", "goalie", "rink", "skate", "team"],
        ["orbit", "nasa", "rocket", "moon", "launch"],
    )
    made = []
    for i in range(first, first + n):
        side = words[i % 2]
        made.append(
            {
                "id": str(i),
                "text": " ".join(
                    [*rng.choice(side, 20), *rng.choice(words[0] + words[1], 3), "day", "year"]
                ),
            }
        )
    return made


def jsonl(path, documents):
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    return path


def of_space(model: TopicModel) -> int:
    return int(model.transform(["orbit nasa rocket moon"])[0].argmax())


class TestFromRunToRun:
    @pytest.mark.quick("atbp")
    @pytest.mark.parametrize("algo", ["atbp", "sparselda"])
    def test_update_keeps_them(self, algo, tmp_path):
        corpus = tmp_path / "c.zarr"
        model = tmp_path / "m"
        call(
            "ingest",
            jsonl(tmp_path / "a.jsonl", texts(0, 120)),
            "--out",
            corpus,
            "--min-df",
            1,
            "--max-df",
            "100%",
            "--heldout",
            0,
        )
        seeds = tmp_path / "seeds.toml"
        seeds.write_text(
            'space = ["nasa", "moon", "comet"]\n[hockey]\nwords = ["puck"]\nstrength = 70\n'
        )
        call(
            "train",
            "--corpus",
            corpus,
            "--model",
            model,
            "-K",
            2,
            "--passes",
            8,
            "--algo",
            algo,
            "--seed-words",
            seeds,
        )
        before = TopicModel.open(model)
        assert before.manifest.seed_words[0].weights[2] == 0
        assert of_space(before) == 0
        more = [*texts(120, 60), {"id": "x", "text": "comet " * 9 + "nasa orbit"}]
        call(
            "ingest", jsonl(tmp_path / "b.jsonl", more), "--out", corpus, "--append", "--grow-vocab"
        )
        call("update", "--corpus", corpus, "--model", model, "--passes", 4)
        after = TopicModel.open(model)
        assert after.labels == {0: "space", 1: "hockey"}
        assert of_space(after) == 0
        space, hockey = after.manifest.seed_words
        assert (
            space.weights[0] > before.manifest.seed_words[0].weights[0]
        )  # as many as the word has now
        assert space.weights[2] == 9  # a word that has come since
        assert hockey.weights == [70.0]

    def test_retrain_keeps_them(self, tmp_path):
        (tmp_path / "raw").mkdir()
        jsonl(tmp_path / "raw" / "a.jsonl", texts(0, 150))
        (tmp_path / "seeds.toml").write_text('space = ["nasa", "moon"]\nhockey = ["puck"]\n')
        config = tmp_path / "retrain.toml"
        config.write_text(
            '[ingest]\nmin_df = 1\nmax_df = "100%"\ngrow_vocab = true\nheldout = "10%"\n'
            '[train]\nalgo = "atbp"\ntopics = 2\npasses = 8\nupdate_passes = 3\nseed_words = '
            '"seeds.toml"\n[gate]\ntolerance = 1.0\ntopics = false\n'
        )
        call("retrain", "--config", config)
        assert of_space(TopicModel.open(tmp_path / "current")) == 0
        jsonl(tmp_path / "raw" / "b.jsonl", texts(150, 60))
        call("retrain", "--config", config)
        model = TopicModel.open(tmp_path / "current")
        assert model.path is not None
        assert model.path.name == "0002"
        assert model.labels == {0: "space", 1: "hockey"}
        assert of_space(model) == 0
        (tmp_path / "seeds.toml").write_text("space = 7\n")
        assert "topic space: `$.words`" in call("retrain", "--config", config, code=3).stderr

    @pytest.mark.parametrize("method", ["bp", "vb", "gibbs", "gibbs1", "naive-bayes"])
    def test_every_method_of_inference_adds_them(self, method, sampled):
        """A word that all documents have alike is of the topic that it is seeded into."""
        corpus, model = sampled
        more = {"trained_on": corpus} if method == "gibbs1" else {}
        more |= {"sweeps": 20, "burn": 10} if method.startswith("gibbs") else {}
        assert TopicModel.open(model).transform(
            ["day " * 9, "day day"], method=method, **more
        ).argmax(1).tolist() == [
            1,
            1,
        ]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    home = tmp_path_factory.mktemp("sampled")
    call(
        "ingest",
        jsonl(home / "a.jsonl", texts(0, 80)),
        "--out",
        home / "c.zarr",
        "--min-df",
        1,
        "--max-df",
        "100%",
        "--heldout",
        0,
    )
    seeds = {"space": ["nasa"], "hockey": {"words": ["puck", "day"], "strength": 900}}
    train(
        home / "c.zarr",
        home / "m",
        algo="sparselda",
        topics=2,
        passes=6,
        seed_words=seeds,
        progress=False,
    )
    return home / "c.zarr", home / "m"
