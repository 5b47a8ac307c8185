"""``topicstream.infer``: topics of new documents, streamed; on a Dask cluster, workers answer
batches of a store's documents into files, which are joined in input order."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.inference.answers import Answers, Tally
from topicstream.inference.config import InferConfig
from topicstream.inference.output import AnswerTable, JsonAnswers, check_answers, written_answers
from topicstream.inference.source import StoredDocuments
from topicstream.model.topic_model import TopicModel
from topicstream.options import openly_configured
from topicstream.parallel.order import in_order
from topicstream.parallel.scheduler import Cluster, connected, threads_of_worker
from topicstream.records import Json

BATCHES_OF_TASK = 8
"""Of 8,192 documents each, at most: some seconds of work."""


@openly_configured(InferConfig)
def infer(config: InferConfig) -> Any:
    """Find the topics of documents, in input order.

    Text is tokenised as the model's corpus was.  The answers do not depend on threads.  A document
    without a token, or without one
    that the model knows, gets the prior's mean and the flag ``empty`` or ``unknown``.
    ``topicstream.inference.infer.answers``
    streams record batches instead.

    Returns
    -------
    pyarrow.Table or dict
        Without ``out``, a table: id, topics, shares, tokens, oov_rate, flag; of labelled LDA, also
        names.  With ``out``, the
        summary of what was written there: documents, empty, unknown, tokens, oov_tokens, oov_rate,
        rejected, seconds, documents_per_second, method, topics, model, out.

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
    >>> answers = topicstream.infer(
    ...     "model", ["the captain of the crew", "a comet and a planet"], top=1
    ... )
    >>> answers.column_names[:3], answers["tokens"].to_pylist()
    (['id', 'topics', 'shares'], [2.0, 2.0])
    """
    begin, out = time.perf_counter(), config.out
    path = Path(out) if isinstance(out, str | Path) else None
    documents = (
        config.documents if isinstance(config.documents, list | tuple) else [config.documents]
    )
    inputs: list[object] = [
        config.model,
        *(d for d in documents if isinstance(d, Path | Corpus) and d != Path("-")),
    ]
    if path is not None:
        check_answers(path, "--out", inputs, force=config.force)
        if config.follow:
            raise UsageError(
                f"--follow writes to standard output as it goes; leave out --out {path}"
            )
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
        with written_answers(
            path, run.schema, option="--out", force=config.force, inputs=inputs
        ) as file:
            run.write(file)
    else:
        stream: Any = out
        run.write(JsonAnswers(stream, run.schema), stream.flush if config.follow else None)
        stream.flush()
    return {**run.summary(begin), "out": str(path) if path is not None else None}


@openly_configured(InferConfig)
def answers(config: InferConfig) -> Iterator[pa.RecordBatch]:
    """The answers of ``infer``, streamed as record batches of some thousand documents; ``out`` is
    ignored.
    """
    yield from Answers(config).batches()


def infer_on_cluster(config: InferConfig, out: Path, inputs: list[object]) -> dict[str, Json]:
    """``infer`` with ``scheduler``: the same file as one machine writes, and the summary.

    Raises
    ------
    UsageError
        For documents that are not those of one stored corpus, a model in memory, or a method that
        needs all documents.
    """
    begin = time.perf_counter()
    if isinstance(config.model, TopicModel):
        raise UsageError(
            "scheduler: workers open the model themselves; give the path of its folder"
        )
    run = Answers(replace(config, scheduler=None))
    if not isinstance(run.source, StoredDocuments) or run.source.corpus.path is None:
        raise UsageError(
            "--scheduler: workers read a corpus store; run `topics ingest` on the documents first"
        )
    if run.method.needs_all:
        raise UsageError(
            f"--scheduler: --method {run.method.name} with these options needs all documents "
            f"before it answers"
        )
    batches = sum(1 for _ in run.source.corpus.placed(["id"], run.source.parts))
    with (
        connected(
            config.scheduler, [run.source.corpus.whole.path, config.model, out.absolute().parent]
        ) as cluster,
        written_answers(out, run.schema, option="--out", force=config.force, inputs=inputs) as file,
        tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".topics-infer-") as folder,
    ):
        for answered, tally in _parts(run, cluster, batches, Path(folder)):
            with pa.ipc.open_file(answered) as reader:
                batches_of_part = (reader.get_batch(i) for i in range(reader.num_record_batches))
                for encoded in in_order(file.encode, batches_of_part, run.plan.threads):
                    file.write(encoded)
            run.tally.join(tally)
            run.progress.step(
                "topics of documents", run.tally.documents, run.source.total or None, "documents"
            )
    return run.summary(begin)


def _parts(
    run: Answers, cluster: Cluster, batches: int, folder: Path
) -> Iterator[tuple[Path, Tally]]:
    config = run.config
    model = Path(config.model).absolute()  # type: ignore[arg-type]
    store = run.source.corpus.whole.path.absolute()  # type: ignore[attr-defined]
    worker_config = replace(
        config,
        model=model,
        documents=store,
        out=None,
        progress=False,
        mem_limit=cluster.memory(config.memory),
    )
    return cluster.map(
        partial(_answer, config=worker_config, folder=folder),
        cluster.spans([1] * batches, BATCHES_OF_TASK),
    )


def _answer(batches: tuple[int, int], config: InferConfig, folder: Path) -> tuple[Path, Tally]:
    """Answer some batches of documents into a file of Arrow's, on a worker: the file, and what was
    answered.
    """
    run = Answers(replace(config, threads=threads_of_worker(config.threads)))
    assert isinstance(run.source, StoredDocuments)
    run.source.batches = batches
    file = folder / f"{batches[0]:09d}.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
        for batch in run.batches():
            writer.write_batch(batch)
    return file, run.tally
