"""``topics cite``: BibTeX of the tool and of the engine's papers."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from topicstream import TopicModel
from topicstream.addons.views.cite_command import REFERENCES, escape_tex, find_papers
from topicstream.cli.main import run
from topicstream.engines import engines


@pytest.mark.parametrize("name", sorted(engines()))
def test_every_engine_has_a_paper(name):
    assert find_papers(engines()[name].cites)


def test_every_paper_has_an_entry_and_every_entry_a_paper():
    text = (files("topicstream.addons.views") / "references.bib").read_text(encoding="utf-8")
    assert text.count("\n@") + 1 == len(REFERENCES)
    for name in REFERENCES:
        (entry,) = find_papers(name)
        assert entry.count("{") == entry.count("}")


def test_the_entry_names_engine_seed_and_corpus(tmp_path, capsys):
    model = TopicModel.from_arrays([[1.0], [2.0]], ["a", "b"], 0.1, 0.01)
    model.save(tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    assert json.loads(manifest.read_text())["topics"] == 1
    assert run(["cite", str(tmp_path / "m")]) == 0
    assert capsys.readouterr().out.startswith("@software{topicstream,\n")
    assert run(["cite", str(tmp_path / "nothing")]) == 3
    assert "nothing" in capsys.readouterr().err


def test_values_of_a_file_are_no_tex():
    assert escape_tex(r"a_b \input{x} 5 %") == r"a\_b \textbackslash input\{x\} 5 \%"
