"""How even the topics' sizes are: their entropy over the logarithm of their number, 0 to 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.evaluation.scoring import Scorer, Scoring


def evenness(run: Scoring, options: Any) -> dict[str, Any]:
    """The entry of the result."""
    p = run.model.shares[run.model.shares > 0]
    value = float(-(p * np.log(p)).sum() / np.log(run.model.n_topics))
    return {
        "evenness": {
            "value": value,
            "measured": "entropy of the topics' sizes over that of even ones",
        }
    }


EVENNESS = Scorer("evenness", evenness, needs_corpus=lambda config, options: False)
