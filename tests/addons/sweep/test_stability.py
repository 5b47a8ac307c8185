"""How the topics of several seeds agree."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.addons.sweep import stability


@pytest.mark.parametrize(
    ("kinds", "mean"),
    [(["live", "dead", "background"], (0.5 + 0.7) / 2), (["live"] * 3, (0.5 + 0.7 + 0.9) / 3)],
)
def test_a_background_is_no_topic_that_seeds_agree_on(monkeypatch, kinds, mean):
    """Its words are those of the corpus, so it comes again with every seed."""
    model = SimpleNamespace(kinds=kinds)
    distances = np.array([[2.0, 1.0, 2.0], [0.6, 2.0, 2.0], [2.0, 2.0, 0.2]])
    monkeypatch.setattr(stability, "open_within", lambda *_: ((model, model), 1))
    monkeypatch.setattr(stability, "l1_distances", lambda *_: distances)
    found = stability.measure_agreement([Path("a"), Path("b")], None)
    assert found.mean == pytest.approx(mean)
    assert found.likeness[1].tolist() == pytest.approx([0.5, 0.7, 0.9])
