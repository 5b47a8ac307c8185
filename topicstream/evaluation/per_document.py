"""How well each held-out document is predicted: one row a document."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import Score, score_model
from topicstream.evaluation.keys import documents
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.scheduler import Cluster


def score_documents(
    model: TopicModel,
    corpus: Corpus,
    *,
    part: str = "heldout",
    split: float | None = 0.8,
    threads: int | Cluster = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Score, pa.Table]:
    """Score the documents set aside (or of another part), together and one by one.

    Returns
    -------
    The score, and a table: id, tokens double (those scored), loglik double (their sum, natural logarithms), perplexity
    double; null where a document was too short to be split.  The rows' loglik and tokens add up to the score's.
    """
    logliks: list[np.ndarray] = []
    tokens: list[np.ndarray] = []

    def each(loglik: np.ndarray, scored: np.ndarray) -> None:
        logliks.append(loglik)
        tokens.append(scored)

    score = score_model(model, corpus, split=split, threads=threads, parts=(part,), progress=progress, each=each)
    loglik, scored = np.concatenate(logliks), np.concatenate(tokens)
    names = [str(d) for d in range(len(loglik))]
    listed = np.zeros(len(loglik), bool)
    for numbers, batch in documents(corpus, part == "heldout", ["id"]):
        listed[numbers] = True
        for number, name in zip(numbers.tolist(), batch.column("id").to_pylist(), strict=True):
            names[number] = name
    too_short = scored <= 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perplexity = np.exp(-loglik / scored)
    table = pa.table(
        {
            "id": typed_ids(pa.array(names, pa.string()), corpus.manifest.ids == "integer"),
            "tokens": pa.array(scored),
            "loglik": pa.array(loglik, mask=too_short),
            "perplexity": pa.array(perplexity, mask=too_short),
        }
    )
    return score, table.filter(pa.array(listed))
