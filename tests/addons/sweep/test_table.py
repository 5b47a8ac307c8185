"""The table of a sweep for a paper: a row a setting, a column a figure."""

from __future__ import annotations

import pytest

from topicstream.addons.sweep.sweep import SweepSummary
from topicstream.cli.main import run


def test_a_row_has_every_figure_with_its_standard_error():
    perplexity = {"value": 500.5, "error": 2.5, "tie": True}
    settings = [
        {"algo": "auto", "topics": 20, "seeds": 3, "perplexity": perplexity, "by_topic": {}},
        {"algo": "auto", "topics": 40, "seeds": 3, "npmi": {"value": 0.1, "error": None}},
    ]
    first, second = SweepSummary(settings=settings).table().to_pylist()
    assert (first["perplexity"], first["perplexity_se"], first["npmi"]) == (500.5, 2.5, None)
    assert (second["topics"], second["npmi"], second["perplexity"]) == (40, 0.1, None)
    assert "by_topic" not in first


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--out table.tex", "--out table.tex: is the folder of the models; --table table.tex"),
        ("--table table.xls", "--table table.xls: the name must end in .parquet, .csv"),
        ("--table missing/table.tex", "--table missing/table.tex"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_training(
    tmp_path, monkeypatch, capsys, line, said
):
    monkeypatch.chdir(tmp_path)
    assert run(["sweep", "-K", "4", *line.split()]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
