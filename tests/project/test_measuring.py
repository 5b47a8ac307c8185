"""The measuring scripts' own arithmetic: the table of time to quality, and figures that are made
once.
"""

from __future__ import annotations

import bench_quality
from measure import Figures


def record(name: str, peer: bool, points: list[list[float]]) -> dict:
    return {"name": name, "peer": peer, "points": points}


RECORDS = [
    record("sparse-bp", False, [[1, 2.0, 6000, 3.0], [2, 4.0, 4500, 7.0], [3, 6.0, 4300, 10.0]]),
    record("vb", False, [[1, 5.0, 7000, 9.0]]),
    record(
        "tomotopy",
        True,
        [[20, 8.0, 6000, 15.0], [100, 40.0, 4700, 70.0], [500, 200.0, 4500, 350.0]],
    ),
    record("gensim", True, [[1, 11.0, 8000, 30.0]]),
]


def test_the_table_says_when_each_is_as_good_as_the_peers(capsys):
    bench_quality.report("made", 7, RECORDS)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    cells = {r.split("|")[1].strip(): [c.strip() for c in r.split("|")[2:-1]] for r in rows}
    both = "pass 2, 4.0 s (7.0), "
    assert cells["sparse-bp"][:3] == ["3", "4,300", "pass 3, 6.0 s (10.0)"]
    assert cells["sparse-bp"][3:] == [both + "1/10.0 (1/10.0)", both + "1/50.0 (1/50.0)"]
    assert cells["vb"][3:] == ["-", "-"]
    assert cells["tomotopy"][3].endswith("1/1.0 (1/1.0)")


def test_a_figure_is_made_once_and_a_cut_line_again(tmp_path):
    made = []

    def make(value: float):
        made.append(value)
        return {"perplexity": value, "points": [(1, 2.0)]}

    file = tmp_path / "figures.jsonl"
    key = {"corpus": "kos", "K": 50, "options": {"alpha": 0.1}}
    assert Figures(file).get(key, lambda: make(3.0))["perplexity"] == 3.0
    assert Figures(file).get(key, lambda: make(4.0))["perplexity"] == 3.0
    assert (
        Figures(file).get({**key, "options": {"alpha": 0.2}}, lambda: make(5.0))["perplexity"]
        == 5.0
    )
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])  # killed in the middle of a line
    figures = Figures(file)
    assert len(figures.kept) == 1
    assert figures.get({**key, "options": {"alpha": 0.2}}, lambda: make(5.0))["perplexity"] == 5.0
    assert made == [3.0, 5.0, 5.0] and file.read_bytes() == whole
