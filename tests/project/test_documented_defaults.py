"""The pages of defaults and of engines say what the code does."""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from topicstream.engines import engines, find
from topicstream.engines.about import TOPICS, About
from topicstream.engines.base import Shape
from topicstream.training.auto import FEW_DISTINCT, MOST_REACH, PRIORS, SMALLEST, choose
from topicstream.training.config import TrainConfig

DEFAULTS = (ROOT / "docs" / "defaults.md").read_text()
ENGINES = (ROOT / "docs" / "which-engine.md").read_text()
REAL = Shape(docs=1000, words=500, cells=50_000, tokens=5e4, topics=20, weighted=True)


def default_of(option: str) -> str:
    """The second cell of the row of an option."""
    row = re.search(rf"^\| `{re.escape(option)}`[^|]*\| ([^|]*) \|", DEFAULTS, re.M)
    assert row is not None, option
    return row[1]


def test_real_valued_cells_get_the_engine_that_the_pages_name():
    chosen = choose(REAL, {}).algo
    assert find(chosen).about.real_cells
    assert f"`{chosen}`, for counts and for real-valued cells" in default_of("--algo")
    assert f"`{SMALLEST}` where a stated" in default_of("--algo")
    line = next(line for line in ENGINES.splitlines() if "counts with weights" in line)
    named = re.findall(r"[a-z]+-?bp", line)
    assert f"auto ({chosen})" in line
    assert all(find(name).about.real_cells for name in named)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("-K", str(TOPICS)),
        ("--seed", str(TrainConfig.__dataclass_fields__["seed"].default)),
        ("--aim", f"`{TrainConfig.__dataclass_fields__['aim'].default}`"),
        ("--passes", f"{About().passes} at most"),
        ("--passes", f"less than {About().tol}".replace("%", " %")),
        ("--learn-priors", f"from pass {PRIORS['learn_after'] + 1:g} on"),
        ("--learn-priors", f"documents a topic, and {MOST_REACH:g}"),
        ("--sparsity", f"fewer than {FEW_DISTINCT} different words"),
        ("--sparsity", f"{choose(REAL, {}).options['sparsity']} active topics"),
    ],
)
def test_a_default_of_training_is_that_of_the_code(option, value):
    assert value in default_of(option)


def test_every_engine_of_the_tree_exists():
    tree = ENGINES.split("```text")[1].split("```")[0]
    last = [line.split(". ")[-1] for line in tree.splitlines() if "...." in line]
    words = {word for line in last for word in re.findall(r"\b[a-z]+(?:-bp)?\b", line)}
    named = words & {"atm", "llda", "rtm", "mixture", "fdm", "atbp", "sparselda", "vb", "mvi"}
    assert {"llda", "atm", "rtm", "mixture", "fdm", "sparselda"} <= named <= set(engines())
