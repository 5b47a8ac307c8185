"""``topicstream.infer``: topics of new documents, streamed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.inference.answers import Answers
from topicstream.inference.config import InferConfig
from topicstream.inference.output import AnswersFile, AnswerTable, JsonAnswers, check_answers
from topicstream.inference.spread import infer_on_cluster
from topicstream.model.topic_model import TopicModel
from topicstream.options import openly_configured


@openly_configured(InferConfig)
def infer(config: InferConfig) -> Any:
    """Find the topics of documents, in input order.

    Text is tokenised as the model's corpus was.  The answers do not depend on threads.  A document without a token, or without one
    that the model knows, gets the prior's mean and the flag ``empty`` or ``unknown``.  ``topicstream.inference.infer.answers``
    streams record batches instead.

    Returns
    -------
    pyarrow.Table or dict
        Without ``out``, a table: id, topics, shares, tokens, oov_rate, flag; of labelled LDA, also names.  With ``out``, the
        summary of what was written there: documents, empty, unknown, tokens, oov_tokens, oov_rate, rejected, seconds,
        documents_per_second, method, topics, model, out.

    Raises
    ------
    InputError
        For documents that cannot be read.
    StoreError
        For a missing or damaged model.
    DoesNotFit
        Where the memory limit is too small.
    TopicsError
        Where ``out`` exists, without ``force``.

    Examples
    --------
    >>> answers = topicstream.infer("model", ["the captain of the crew", "a comet and a planet"], top=1)
    >>> answers.column_names[:3], answers["tokens"].to_pylist()
    (['id', 'topics', 'shares'], [2.0, 2.0])
    """
    begin, out = time.perf_counter(), config.out
    path = Path(out) if isinstance(out, str | Path) else None
    inputs = _places(config)
    if path is not None:
        check_answers(path, "--out", inputs, force=config.force)
        if config.follow:
            raise UsageError(f"--follow writes to standard output as it goes; leave out --out {path}")
    if config.scheduler is not None:
        if path is None:
            raise UsageError("--scheduler: give --out FILE, in a folder that all workers can reach")
        return {**infer_on_cluster(config, path, inputs), "out": str(path)}
    run = Answers(config)
    if out is None:
        table = AnswerTable(run.schema)
        run.write(table)
        return table.table()
    if path is not None:
        with AnswersFile(path, run.schema, option="--out", force=config.force, inputs=inputs) as file:
            run.write(file.format)
            file.commit()
    else:
        stream: Any = out
        run.write(JsonAnswers(stream, run.schema), stream.flush if config.follow else None)
        stream.flush()
    return {**run.summary(begin), "out": str(path) if path is not None else None}


@openly_configured(InferConfig)
def answers(config: InferConfig) -> Iterator[pa.RecordBatch]:
    """The answers of ``infer``, streamed as record batches of some thousand documents; ``out`` is ignored."""
    yield from Answers(config).batches()


def _places(config: InferConfig) -> list[Path]:
    """The files and folders that are read: the documents' and the model's."""
    given = config.documents if isinstance(config.documents, list | tuple) else [config.documents]
    read = [Path(d.path) if isinstance(d, Corpus) else d for d in given if isinstance(d, Path | Corpus)]
    own = config.model.path if isinstance(config.model, TopicModel) else Path(config.model)
    return [p for p in [*read, own] if p is not None and str(p) != "-"]
