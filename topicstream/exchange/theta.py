"""Topics of documents as Parquet: id, topics, shares, tokens, oov_rate, flag; what ``topics infer --out x.parquet`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.files.outputs import written
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.output import ParquetAnswers
from topicstream.model.topic_model import TopicModel


def write(
    model: TopicModel, corpus: Corpus, path: Path, *, force: bool, edits: bool, top: int | None = None
) -> dict[str, Any]:
    """``path``: one file; top: only so many topics a document, the largest first."""
    run = Answers(InferConfig(model, corpus, top=top, edits=edits))
    with written(path, force=force) as file:
        format = ParquetAnswers(file, True, run.columns)
        run.write(format)
        format.close()
    return {"documents": run.tally.docs, "topics": len(run.view) if run.view is not None else model.n_topics}
