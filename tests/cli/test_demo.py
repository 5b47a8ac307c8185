"""``topics demo`` shows topics in one command, and replaces nothing but an earlier demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from topicstream.cli import demo
from topicstream.cli.main import run


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A small standard library, and an empty working folder."""
    code = tmp_path / "library"
    code.mkdir()
    for name, words in (("files", "path file folder open"), ("dates", "day week month year")):
        functions = [
            f'def f{i}():\n    """{words} {words} {words} number {i} of the module and its '
            f'kind."""\n'
            for i in range(60)
        ]
        (code / f"{name}.py").write_text("\n".join(functions))
    (code / "test").mkdir()
    (code / "test/hidden.py").write_text('"""' + "unseen " * 40 + '"""')
    (code / "broken.py").write_text("def f(:")
    monkeypatch.setattr(demo, "standard_library", lambda: code)
    monkeypatch.setitem(demo.STEPS, "train", "train -K 2 --passes 3")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return code


def test_one_command_shows_topics_and_a_second_one_replaces_them(library, capsys):
    assert run(["demo"]) == 0
    printed = capsys.readouterr().out
    for command in ("ingest docstrings.jsonl", "train -K 2", "eval --heldout", "show --words 8"):
        assert f"$ topics {command}" in printed
    assert "120 documents" in printed and "path" in printed and "unseen" not in printed
    assert "cd topicstream-demo && topics report" in printed
    assert run(["demo", "--json", "-q"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["documents"] == result["ingest"]["documents"] == 120
    assert len(result["show"]["topics"]) == 2 and "heldout" in json.dumps(result["eval"])
    os.chdir("topicstream-demo")
    assert run(["report", "-q"]) == 0  # as the last line says


def test_a_folder_that_is_not_a_demos_stays_as_it_is(library, capsys):
    Path("mine").mkdir()
    Path("mine/docstrings.jsonl").write_text("my own\n")
    assert run(["demo", "mine"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("topics: mine: a folder that is no") and error.count("\n") == 1
    assert Path("mine/docstrings.jsonl").read_text() == "my own\n"
    assert os.listdir("mine") == ["docstrings.jsonl"]
    Path("file").write_text("")
    assert run(["demo", "file"]) == 3 and run(["demo", "."]) == 2
    Path("link").symlink_to("mine")
    assert run(["demo", "link"]) == 3
    assert os.listdir("mine") == ["docstrings.jsonl"]


def test_a_file_of_the_users_in_the_folder_of_a_demo_is_not_replaced(library, capsys):
    assert run(["demo", "-q"]) == 0
    Path("topicstream-demo/corpus.zarr/notes.txt").write_text("mine")
    assert run(["demo", "-q"]) == 3
    assert "notes.txt: is not ours" in capsys.readouterr().err
    assert Path("topicstream-demo/corpus.zarr/notes.txt").read_text() == "mine"


def test_what_the_environment_names_is_left_alone(library, monkeypatch):
    assert run(["demo", "first", "-q"]) == 0
    store = Path("first/corpus.zarr").absolute()
    before = (store / "manifest.json").stat()
    monkeypatch.setenv("TOPICS_CORPUS", str(store))
    monkeypatch.setenv("TOPICS_MODEL", str(Path("first/model").absolute()))
    assert run(["demo", "second", "-q"]) == 0
    assert (store / "manifest.json").stat() == before and Path("second/model").is_dir()
    assert os.environ["TOPICS_CORPUS"] == str(store)


def test_only_the_documents_are_written_on_demand(library, capsys):
    assert run(["demo", "--documents", "docs.jsonl"]) == 0
    assert capsys.readouterr().out == "docs.jsonl: 120 documents\n"
    records = [json.loads(line) for line in Path("docs.jsonl").read_text().splitlines()]
    assert {record["module"] for record in records} == {"files", "dates"}
    assert os.listdir() == ["docs.jsonl"]
    assert run(["demo", "--documents", "docs.jsonl"]) == 1  # it exists


def test_a_library_without_sources_is_one_line(library, capsys):
    for path in library.rglob("*.py"):
        path.unlink()
    assert run(["demo"]) == 1
    assert "install the sources of Python's standard library" in capsys.readouterr().err
    assert os.listdir() == []


@pytest.mark.quick("bash")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell, tmp_path):
    topics = [sys.executable, "-m", "topicstream"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*topics, "completion", shell], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "_TOPICS_COMPLETE" in done.stdout
    for words, expected in (("topics re", "retrain"), ("topics show --wo", "--words")):
        asked = {
            "_TOPICS_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")) if shell != "fish" else words.split()[-1],
        }
        done = subprocess.run(topics, env=env | asked, capture_output=True, text=True)
        assert expected in done.stdout, done.stderr
