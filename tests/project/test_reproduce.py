"""Tables of the reproduce pages are made by the commands that the pages show."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace

import pytest

from tests import ROOT
from topicstream.engines.message.bp import BeliefPropagation

sys.path.insert(0, str(ROOT / "scripts" / "tools"))
import reproduce

PAGE = """Words.

<!-- table: papers.py engines --runs 3 -->
| a | b |
|---|---|
| 1 | 2 |
<!-- made on 2026-11-23 at 0123abcd, defaults 11112222 -->

More words, and a table by hand.

| c |
|---|
| 3 |

<!-- table: papers.py folds --only "vb point" -->
| d |
|---|
| 4 |
End.
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    place = tmp_path / "page.md"
    place.write_text(PAGE)
    monkeypatch.setattr(reproduce, "PAGES", tmp_path)
    return place


def test_a_table_is_replaced_and_nothing_else(page, monkeypatch, tmp_path):
    ran = []

    def make(table, data, work):
        ran.append(table.command)
        return "| x |\n|---|\n| 5 |\n"

    monkeypatch.setattr(reproduce, "run_command", make)
    reproduce.main(["--work", str(tmp_path), "--only", "vb point"])
    assert ran == ['papers.py folds --only "vb point"']
    text = page.read_text()
    before, _, after = text.partition('<!-- table: papers.py folds --only "vb point" -->\n')
    assert before == PAGE.partition("<!-- table: papers.py folds")[0]
    made = after.splitlines()
    assert made[:3] == ["| x |", "|---|", "| 5 |"]
    assert made[3].endswith(f"defaults {reproduce.digest_defaults()} -->") and made[4] == "End."
    reproduce.main(["--work", str(tmp_path), "--stale"])
    assert ran[1:] == ["papers.py engines --runs 3"]
    assert page.read_text().count("made on") == 2
    assert "11112222" not in page.read_text()


def test_the_list_makes_nothing(page, capsys):
    reproduce.main(["--list"])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert said[0].startswith("stale") and "at 0123abcd" in said[0]
    assert said[1].startswith("stale") and reproduce.NEVER in said[1]
    assert page.read_text() == PAGE


def test_another_default_makes_tables_stale(monkeypatch):
    before = reproduce.digest_defaults()
    assert before == reproduce.digest_defaults()
    changed = replace(BeliefPropagation.about, passes=10)
    monkeypatch.setattr(BeliefPropagation, "about", changed)
    assert reproduce.digest_defaults() != before


def test_the_marked_tables_name_commands_that_exist():
    tables = [t for page in sorted(reproduce.PAGES.glob("*.md")) for t in reproduce.tables_of(page)]
    assert len(tables) >= 28
    for table in tables:
        script, what, *_ = shlex.split(table.command)
        text = (ROOT / "scripts" / "benchmarks" / script).read_text()
        # defined there, or in a module beside it and named in its list of tables or of choices
        named = rf'^def {what}\(|^    {what},$|[("\[]{what}"'
        assert what.startswith("-") or re.search(named, text, re.MULTILINE)


@pytest.mark.parametrize(
    "page", sorted({p.name for p in reproduce.PAGES.glob("*.md")} - {"README.md"})
)
def test_a_page_prints_no_table_that_no_command_makes(page):
    text = (reproduce.PAGES / page).read_text()
    bare = [rows for rows in re.split(r"\n\n", text) if rows.startswith("|")]
    assert not bare


@pytest.mark.parametrize("page", sorted(p.name for p in reproduce.PAGES.glob("*.md")))
def test_the_scripts_that_a_page_runs_have_the_options_that_it_names(page):
    text = (reproduce.PAGES / page).read_text().replace("\\\n", " ")
    code = re.findall(r"^    (.+)$|`([^`]+)`|<!-- table: (.+?) -->", text, re.M)
    commands = [next(filter(None, found)).replace("\n", " ") for found in code]
    scripts = [c for c in commands if re.match(r"(?:python )?(?:scripts/benchmarks/)?\w+\.py", c)]
    assert scripts
    for command in scripts:
        name, options = re.match(r"(?:python )?(?:[\w/]+/)?(\w+\.py)(.*)", command).groups()
        source = (ROOT / "scripts" / "benchmarks" / name).read_text()
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", options):
            assert f'"{option}"' in source or option == "--help", command


@pytest.mark.product
def test_a_command_that_fails_writes_nothing(page, tmp_path):
    with pytest.raises(SystemExit, match="exit code"):
        reproduce.main(["--work", str(tmp_path), "--only", "--runs 3", "--data", "/nowhere"])
    assert page.read_text() == PAGE
