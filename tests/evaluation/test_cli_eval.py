"""topics eval, show and compare as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.small_store import planted, store
from topicstream.cli.main import run
from topicstream.model.topic_model import TopicModel

W = 60
K = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with corpus.zarr and model, and another model."""
    here = tmp_path_factory.mktemp("work")
    counts, phi = planted(3, 160, W, K, length=40)
    store(here / "corpus.zarr", counts[40:], counts[:40], ids=True)
    names = [f"word{i}" for i in range(W)]
    TopicModel.from_arrays(phi * 900, names, 0.2, 0.01, engine="planted").save(here / "model")
    TopicModel.from_arrays(phi[:, ::-1] * 700, names, 0.2, 0.01, engine="planted").save(
        here / "turned"
    )
    return here


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def typed(capsys, *args):
    code = run(args)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_eval_with_defaults(capsys):
    code, out, err = typed(capsys, "eval")
    assert code == 0 and err == ""
    for part in (
        "held-out perplexity",
        "nats a token",
        "20 % of the different words of each document",
        "NPMI",
        "UMass",
        "diversity",
    ):
        assert part in out


def test_show_without_an_option(capsys):
    code, out, err = typed(capsys, "show")
    assert code == 0 and err == "" and len(out.splitlines()) == K


def test_eval_heldout_json_is_the_library(capsys, folder):
    import topicstream

    code, out, _ = typed(capsys, "eval", "--heldout", "--json")
    assert code == 0
    result = json.loads(out)
    assert result == topicstream.evaluate(
        folder / "model", folder / "corpus.zarr", heldout=True
    ) | {
        "model": "model",
        "corpus": "corpus.zarr",
    }
    h = result["heldout"]
    assert h["perplexity"] == pytest.approx(np.exp(h["nats_per_token"])) and 1 < h["perplexity"] < W
    assert (
        typed(capsys, "eval", "--heldout", "--json", "--threads", "3", "--mem-limit", "512M")[1]
        == out
    )
    other = json.loads(typed(capsys, "eval", "--heldout", "--split", "90/10", "--json")[1])
    assert other["heldout"]["cells"] < h["cells"] and "10 % of" in other["heldout"]["measured"]


def test_impossible_words_make_it_infinite(capsys, tmp_path):
    phi = np.zeros((W, K))
    phi[: W // 2] = 1.0
    TopicModel.from_arrays(phi, [f"word{i}" for i in range(W)], 0.1, 0.0).save(tmp_path / "m")
    code, out, _ = typed(capsys, "eval", "--heldout", "--model", str(tmp_path / "m"))
    assert code == 0 and "infinite" in out
    code, out, _ = typed(capsys, "eval", "--heldout", "--json", "--model", str(tmp_path / "m"))
    assert code == 0 and json.loads(out)["heldout"]["perplexity"] is None


def test_eval_of_another_corpus_and_training(capsys):
    code, out, _ = typed(capsys, "eval", "--heldout", "corpus.zarr", "--training")
    assert code == 0
    assert "all documents of corpus.zarr" in out and "training perplexity" in out


def test_eval_of_raw_text_tokenises_as_the_model_did(capsys, folder, tmp_path):
    from topicstream.ingestion.tokens.recipe import Recipe

    counts, _ = planted(3, 160, W, K, length=40)
    raw = tmp_path / "new.jsonl"
    with open(raw, "w") as f:
        for d, row in enumerate(counts[:40]):
            text = " ".join(f"Word{w}" for w in np.repeat(np.arange(W), row))
            f.write(json.dumps({"id": f"heldout-{d}", "text": f"{text} neverseen the {d}"}) + "\n")
    code, _, err = typed(capsys, "eval", "--heldout", str(raw))
    assert code == 3 and "tokenised" in err
    TopicModel.open("model").save(tmp_path / "model", tokenizer=Recipe().to_json())
    code, out, err = typed(
        capsys, "eval", "--model", str(tmp_path / "model"), "--heldout", str(raw), "--json"
    )
    assert code == 0, err
    found = json.loads(out)["heldout"]
    inside = json.loads(typed(capsys, "eval", "--heldout", "--json")[1])["heldout"]
    assert (found["tokens"], found["cells"], found["docs"]) == (
        inside["tokens"],
        inside["cells"],
        inside["docs"],
    )
    assert found["perplexity"] == pytest.approx(inside["perplexity"], rel=1e-5)
    assert found["oov_tokens"] == 40  # "neverseen"; "the" is a stop word, numbers are none


def test_eval_through_the_environment(capsys, monkeypatch, folder, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOPICS_MODEL", str(folder / "turned"))
    monkeypatch.setenv("TOPICS_CORPUS", str(folder / "corpus.zarr"))
    code, out, _ = typed(capsys, "eval", "--diversity", "--json")
    assert code == 0 and json.loads(out)["model"].endswith("turned")


def test_errors_are_one_line_with_their_code(capsys):
    cases: tuple[tuple[tuple[str, ...], int, str], ...] = (
        (("eval", "--heldout", "missing.jsonl"), 3, "no such file"),
        (("eval", "--split", "nonsense"), 2, "--split nonsense"),
        (("eval", "--model", "nowhere"), 3, "no model here"),
        (("eval", "--corpus", "nowhere"), 3, "no corpus store here"),
        (("show", "-k", "99"), 2, "numbered 0..3"),
        (("compare", "model", "nowhere"), 3, "no model here"),
        (("eval", "--mem-limit", "10M"), 5, "at least"),
    )
    for args, code, words in cases:
        got, out, err = typed(capsys, *args)
        assert (got, out) == (code, "") and words in err and err.count("\n") == 1, args
    for wrong in ("eval --topp 3", "eval --top 1", "show --top 3", "compare model"):
        assert typed(capsys, *wrong.split())[0] == 2, wrong


@pytest.mark.product
def test_within_a_memory_limit_rows_stay_on_disk(tmp_path):
    from topicstream.base.machine import PROCESS_BYTES
    from topicstream.evaluation.memory import open_within

    wide = np.ones((12000, 4000), np.float32)
    TopicModel.from_arrays(wide, [f"w{i}" for i in range(12000)], 0.1, 0.01).save(tmp_path / "wide")
    (roomy,), threads = open_within([tmp_path / "wide"], PROCESS_BYTES + (800 << 20), 3)
    assert roomy.phi is not None and threads == 3
    (tight,), threads = open_within([tmp_path / "wide"], "512M", 9)
    assert tight.phi is None and 1 <= threads < 9


def test_show(capsys):
    code, out, _ = typed(capsys, "show", "-n", "4", "--docs", "1")
    assert code == 0 and len(out.splitlines()) == 2 * K and "train-" in out
    result = json.loads(typed(capsys, "show", "--json", "--relevance", "0.5", "-k", "2")[1])
    assert result["relevance"] == 0.5 and [t["topic"] for t in result["topics"]] == [2]


def test_show_theta(capsys, tmp_path):
    path = tmp_path / "theta.csv"
    code, out, _ = typed(capsys, "show", "--theta", str(path), "--top", "1")
    assert code == 0 and "120 documents" in out
    assert len(path.read_text().splitlines()) == 121
    code, _, err = typed(capsys, "show", "--theta", str(path))
    assert code == 1 and "--force" in err
    assert typed(capsys, "show", "-q", "--theta", str(path), "--force", "--json")[0] == 0
    assert len(path.read_text().splitlines()) == 1 + 120 * K


def test_compare(capsys, monkeypatch):
    monkeypatch.setenv("TOPICS_CORPUS", "corpus.zarr")  # of the shell, not of this command
    code, out, _ = typed(capsys, "compare", "model", "turned")
    assert code == 0 and "4 topics matched" in out
    result = json.loads(typed(capsys, "compare", "model", "turned", "--json")[1])
    assert sorted((m["a"], m["b"]) for m in result["matched"]) == [(0, 3), (1, 2), (2, 1), (3, 0)]


@pytest.mark.product
def test_a_fresh_process_needs_no_corpus(folder, tmp_path):
    code = (
        "import sys; from topicstream.cli.main import run; sys.exit(run(['show', '--model', "
        "sys.argv[1]]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "model")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
    )
    assert done.returncode == 0 and len(done.stdout.splitlines()) == K, done.stderr


def test_info_of_a_model(capsys):
    code, out, err = typed(capsys, "info", "model", "--verify")
    assert code == 0, err
    assert "4 topics over 60 words" in out and "planted" in out and "all checksums match" in out
    assert json.loads(typed(capsys, "info", "model", "--json")[1])["engine"] == "planted"
