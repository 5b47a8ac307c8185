"""The wall: the core works without the add-ons, and the others without any one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import ROOT
from tests.wall import USES, find_missing

ADDONS = ROOT / "topicstream" / "addons"
NAMES = sorted(path.parent.name for path in ADDONS.glob("*/__init__.py"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
WALL = next(c for c in CONTRACTS if c["name"] == "The core does not know an add-on")
STILL_NEEDED = {
    line.partition("topicstream.addons.")[2].split(".")[0] for line in WALL["ignore_imports"]
}
"""Add-ons that the core still imports: none once the list of exceptions is empty."""

IMPORT_ALL = """
import importlib, pkgutil, topicstream
names = [m.name for m in pkgutil.walk_packages(topicstream.__path__, "topicstream.")]
optional = {"topicstream.__main__", "topicstream.sklearn"}  # a program; an add-on's name
for name in sorted(set(names) - optional):
    importlib.import_module(name)
print(len(names))
"""
COLLECT = """
import pytest
from topicstream.cli.main import run

run(["--help"])
raise SystemExit(pytest.main(["--collect-only", "-qq", "tests"]))
"""
USE_CORE = """
import random
from pathlib import Path
from topicstream.cli.main import run

random.seed(1)
subjects = ("sea", "sky", "farm")
texts = [" ".join(f"{subjects[d % 3]}{random.randrange(20)}" for _ in range(20)) for d in range(90)]
Path("a.txt").write_text("\\n".join(texts))
Path("b.txt").write_text("\\n".join(reversed(texts[:30])))
lines = [
    "ingest a.txt --min-df 1 --max-df 1.0 --heldout 10%",
    *(
        f"train --algo {engine} --model {engine} -K 3 --passes 3"
        for engine in ("sparse-bp", "atbp", "sparselda", "vb")
    ),
    "eval --model vb --heldout --coherence",
    "show --model vb --docs 2",
    "infer --model vb a.txt --out topics.jsonl",
    "info vb --verify",
    "edit vb --label 0=first",
    "ingest b.txt --append",
    "update --model vb",
    "engines",
]
for line in lines:
    assert run([*line.split(), "-q"]) == 0, line
assert len(Path("topics.jsonl").read_text().splitlines()) == 90
"""


def copy_without(names: set[str], place: Path) -> None:
    """Copy the package without these add-ons; without the folder itself where none is left.

    Byte code comes along: to compile the package anew takes longer than the tests.
    """
    shutil.copytree(ROOT / "topicstream", place / "topicstream")
    for name in names:
        shutil.rmtree(place / "topicstream" / "addons" / name)
    if set(NAMES) <= names:
        shutil.rmtree(place / "topicstream" / "addons")


def python(place: Path, *arguments: str) -> str:
    """Run Python on the copy in a folder of its own; its output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """The package without an add-on that the core can do without."""
    place = tmp_path_factory.mktemp("core")
    copy_without(set(NAMES) - STILL_NEEDED, place)
    return place


@pytest.mark.product
def test_every_module_of_the_core_can_be_imported(core):
    assert int(python(core, "-c", IMPORT_ALL)) > 200


@pytest.mark.product
def test_help_lists_the_commands_of_the_core_alone(core):
    listed = python(core, "-m", "topicstream", "--help")
    assert "\n  train " in listed and "\n  sweep " not in listed
    assert "--classifier" not in python(core, "-m", "topicstream", "train", "--help")


@pytest.mark.product
def test_the_core_ingests_trains_scores_shows_infers_and_updates(core):
    python(core, "-c", USE_CORE)


def test_what_an_absent_addon_did_is_refused_in_a_line(core):
    said = python(
        core,
        "-c",
        "import topicstream\n"
        "model = topicstream.TopicModel.from_arrays([[1.0], [2.0]], ['a', 'b'], 0.1, 0.01)\n"
        "try:\n    model.to_gensim()\nexcept topicstream.errors.UsageError as e:\n    print(e)\n"
        "try:\n    import topicstream.sklearn\nexcept ImportError as e:\n    print(e)\n",
    )
    assert said.splitlines() == [
        "TopicModel.convert to_gensim: not known; no installed package has one",
        "topicstream.sklearn needs topicstream/addons/sklearn, which is not there",
    ]


def test_tests_know_every_addon_by_the_words_that_use_it():
    assert sorted(USES) == NAMES and find_missing() == set()


@pytest.fixture(scope="module")
def all_but_one(tmp_path_factory):
    """A copy of package and tests, from which one add-on at a time is taken."""
    place = tmp_path_factory.mktemp("all_but_one")
    copy_without(set(), place)
    shutil.copytree(ROOT / "tests", place / "tests")
    for other in ("pyproject.toml", "scripts", "docs", "README.md", "CHANGELOG.md", "packaging"):
        (place / other).symlink_to(ROOT / other)
    return place


@contextmanager
def taken_away(folders: list[Path], aside: Path) -> Iterator[None]:
    """Move folders aside, and back at the end."""
    moved = [(folder, aside / str(number)) for number, folder in enumerate(folders)]
    for folder, place in moved:
        folder.rename(place)
    try:
        yield
    finally:
        for folder, place in moved:
            place.rename(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in STILL_NEEDED])
def test_all_others_can_be_imported_without_one(name, all_but_one, tmp_path):
    folders = [
        all_but_one / "topicstream" / "addons" / name,
        all_but_one / "tests" / "addons" / name,
    ]
    with taken_away([folder for folder in folders if folder.exists()], tmp_path):
        printed = python(all_but_one, "-c", IMPORT_ALL + COLLECT)
    assert "\n  train " in printed
