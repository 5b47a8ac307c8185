"""How well each held-out document is foretold: one row a document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import typed_ids
from topicstream.evaluation.completion import Score, score_model
from topicstream.evaluation.keys import documents


def score_documents(
    model: Any, corpus: Any, *, split: float | None = 0.8, heldout: bool = True, threads: int = 1, progress: Any = None
) -> tuple[Score, pa.Table]:
    """The score of a part and its documents: id string, tokens double (those scored), loglik double (their sum, natural
    logarithms), perplexity double; null where a document was too short to be split.  The rows' loglik and tokens add up to
    the score's."""
    logliks: list[np.ndarray] = []
    tokens: list[np.ndarray] = []

    def each(loglik: np.ndarray, scored: np.ndarray) -> None:
        logliks.append(loglik)
        tokens.append(scored)

    part = "heldout" if heldout else "train"
    score = score_model(model, corpus, split=split, threads=threads, parts=(part,), progress=progress, each=each)
    loglik, scored = np.concatenate(logliks), np.concatenate(tokens)
    names = [str(d) for d in range(len(loglik))]
    listed = np.full(len(loglik), not corpus.manifest.get("docs"))
    for numbers, batch in documents(corpus, heldout, ["id"]):
        listed[numbers] = True
        for number, name in zip(numbers.tolist(), batch.column("id").to_pylist(), strict=True):
            names[number] = name
    none = scored <= 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perplexity = np.exp(-loglik / scored)
    table = pa.table(
        {
            "id": typed_ids(pa.array(names, pa.string()), corpus.manifest.get("ids") == "integer"),
            "tokens": pa.array(scored),
            "loglik": pa.array(loglik, mask=none),
            "perplexity": pa.array(perplexity, mask=none),
        }
    )
    return score, table.filter(pa.array(listed))
