"""``topics ingest`` and ``topics info`` as a user meets them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import topicstream
from tests import ROOT
from tests.ingest_tools import documents, write_jsonl
from topicstream.cli.ingest import SECTIONS
from topicstream.cli.ingest import command as ingest_command
from topicstream.cli.main import run
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary


@pytest.fixture
def store(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", documents(120))
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c.zarr", min_df=1, max_df=1.0)
    return tmp_path / "c.zarr"


def test_help_lists_the_commands_that_are_there_without_numpy():
    code = (
        "import sys; from topicstream.cli.main import run; r = run(['--help']); assert 'numpy' "
        "not in sys.modules; sys.exit(r)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "ingest" in done.stdout and "info" in done.stdout


def test_ingest_prints_its_summary(tmp_path, capsys):
    write_jsonl(tmp_path / "a.jsonl", documents(120))
    args = [
        "ingest",
        str(tmp_path / "a.jsonl"),
        "--out",
        str(tmp_path / "c.zarr"),
        "--heldout",
        "10",
        "--json",
        "-q",
    ]
    assert run(args) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert said.err == ""
    assert (summary["documents"], summary["documents_heldout"]) == (120, 10)
    assert run([*args[:-2], "--force"]) == 0
    assert "120 documents, 10 of them held out (10)" in capsys.readouterr().out
    assert run([*args[:-4], "--heldout", "0", "--force"]) == 0
    assert "120 documents, none of them held out\n" in capsys.readouterr().out


def test_a_play_says_which_element_to_add(tmp_path, capsys):
    tei = (
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><sp><speaker>SENEX</speaker><l>{}</l>'
    )
    text = tei.format("pater filius domus") + "</sp></body></text></TEI>"
    (tmp_path / "play.xml").write_text(text)
    line = ["ingest", f"{tmp_path}/play.xml", "--out", f"{tmp_path}/c.zarr", "--min-df", "1"]
    assert run([*line, "--max-df", "1.0", "--stopwords", "none", "--heldout", "0"]) == 0
    said = capsys.readouterr().out
    assert "1 document, none of them held out\n" in said
    assert "1 of speaker (--tei-elements +speaker counts those of speaker, all" in said
    assert "  3 values, 3 tokens, " in said


@pytest.mark.parametrize(
    "args, code, said",
    [
        (["ingst"], 2, "did you mean 'ingest'"),
        (["ingest", "x", "--min-dff", "3"], 2, "--min-df"),
        (["ingest", "no-such-file"], 3, "no-such-file"),
        (["ingest", ".", "--heldout", "much"], 2, "--heldout much"),
        (["ingest", "raw", "--mem-limit", "10M"], 5, "every command needs at least 512M"),
        (["ingest", "."], 2, "lies inside the input"),
        (["info", "no-such-store"], 3, "no manifest.json"),
    ],
)
def test_errors_are_one_line_with_their_code(args, code, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    assert run(args) == code
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_an_existing_store_is_refused(store, capsys):
    assert run(["ingest", str(store.parent / "a.jsonl"), "--out", str(store)]) == 1
    assert "--append adds to it, --force replaces it" in capsys.readouterr().err


def test_info_of_a_store(store, capsys):
    assert run(["info", str(store), "--verify"]) == 0
    out = capsys.readouterr().out
    assert "108 training + 12 held out" in out and "every block and file matches" in out
    assert run(["info", str(store), "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["top_words"]) == 3
    assert found["top_words"][0]["count"] >= found["top_words"][1]["count"]
    assert sum(found["lengths"]["documents"]) + found["lengths"]["empty"] == 108
    assert found["vocabulary_curve"][-1] == {"words": found["words"], "share": 1.0}


def damage(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize(
    "name, said",
    [
        ("train/words/c/0/0", "train/words/c/0/0: does not match"),
        ("heldout/counts/c/0/0", "heldout/counts/c/0/0: does not match"),
        ("vocab.parquet", "vocab.parquet"),
        ("docs/part-00000.parquet", "part-00000.parquet"),
    ],
)
def test_verify_names_what_is_altered(store, name, said, capsys):
    damage(store / name, 40)
    assert run(["info", str(store), "--verify"]) == 3
    assert said in capsys.readouterr().err


def test_verify_finds_missing_and_short_files(store):
    (store / "train" / "lengths" / "c" / "0" / "0").unlink()
    pruned = store / "pruned.parquet"
    pruned.write_bytes(pruned.read_bytes()[:-1])
    problems = list(verify(Corpus.open(store)))
    assert len(problems) == 2
    assert any("missing" in p for p in problems) and any(
        "where the manifest says" in p for p in problems
    )


def test_the_library_twin_is_the_package_itself(tmp_path):
    assert callable(topicstream.ingest) and topicstream.Corpus is Corpus
    with pytest.raises(AttributeError, match="has no attribute 'digest'"):
        topicstream.digest  # noqa: B018


def test_phrases_are_learnt_and_kept_for_appends(tmp_path, capsys):
    rng = random.Random(3)
    words = [f"w{chr(97 + i)}" for i in range(20)]

    def docs(prefix):
        texts = [
            " ".join([*rng.choices(words, k=8), "neural", "network", *rng.choices(words, k=8)])
            for _ in range(60)
        ]
        return [{"id": f"{prefix}{i}", "text": text} for i, text in enumerate(texts)]

    write_jsonl(tmp_path / "a.jsonl", docs("a"))
    write_jsonl(tmp_path / "b.jsonl", docs("b"))
    out = ["--out", str(tmp_path / "c.zarr"), "-q"]
    assert (
        run(
            [
                "ingest",
                str(tmp_path / "a.jsonl"),
                *out,
                "--phrases",
                "0.7",
                "--heldout",
                "0",
                "--max-df",
                "100%",
            ]
        )
        == 0
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert corpus.manifest.tokenizer["phrases"] == ["neural network"]
    assert not list(tmp_path.glob("c.zarr.wip*"))
    assert run(["ingest", str(tmp_path / "b.jsonl"), *out, "--append"]) == 0
    corpus = Corpus.open(tmp_path / "c.zarr")
    found = dict(
        zip(
            TokenVocabulary.read(corpus.file("vocab")).words.to_pylist(),
            corpus.word_counts().tolist(),
        )
    )
    assert found["neural_network"] == 120 and "neural" not in found
    assert run(["ingest", "-", *out, "--force", "--phrases", "0.7"]) == 2
    assert "standard input" in capsys.readouterr().err


def test_options_that_cannot_be_leave_nothing_behind(tmp_path, monkeypatch, capsys):
    """The corrected command runs, whatever failed before it had read a document."""
    docs = tmp_path / "a.txt"
    docs.write_text("one two three\ntwo three four\n" * 50)
    monkeypatch.chdir(tmp_path)
    assert run(["ingest", "a.txt", "--stem", "klingon"]) == 2
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    assert run(["ingest", "a.txt", "--stem", "english"]) == 3
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert not list(tmp_path.glob("*.wip")) and not (tmp_path / "corpus.zarr").exists()
    (tmp_path / "b.jsonl").write_text("{broken\n")
    assert run(["ingest", "b.jsonl"]) == 3
    assert not list(tmp_path.glob("*.wip"))
    assert run(["ingest", "a.txt"]) == 0


def test_an_ingest_killed_before_its_first_piece_does_not_block_another(
    tmp_path, monkeypatch, capsys
):
    docs = tmp_path / "a.txt"
    docs.write_text("one two three\ntwo three four\n" * 50)
    monkeypatch.chdir(tmp_path)

    def killed(*_: object, **__: object) -> None:
        os._exit(9)

    pid = os.fork()
    if not pid:
        monkeypatch.setattr("topicstream.ingestion.pipeline.Reading", killed)
        run(["ingest", "a.txt", "--min-length", "4"])
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert (tmp_path / "corpus.zarr.wip" / "state.json").exists()
    assert run(["ingest", "a.txt"]) == 0


def test_help_shows_what_matters_first(capsys):
    assert run(["ingest", "--help"]) == 0
    short = capsys.readouterr().out
    assert run(["ingest", "--help-all"]) == 0
    whole = capsys.readouterr().out
    every = {
        option
        for param in ingest_command.params
        for option in param.opts
        if option.startswith("--")
    }
    assert all(option in whole for option in every) and "--help-all" in short
    assert {name for names in SECTIONS.values() for name in names} <= {
        param.name for param in ingest_command.params
    }
    assert (
        sum(option in short.split() or f"{option}," in short for option in every) <= 20
        and "--stem" not in short
    )
