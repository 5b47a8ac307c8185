"""The answers of an inference: ``topicstream.infer``.

Documents are answered block by block, and answers are streamed. On a Dask cluster, workers answer
batches of a store's documents into files, which are joined in input order.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topicstream.base.cluster import Cluster, connected, threads_of_worker
from topicstream.base.errors import UsageError
from topicstream.base.machine import default_threads, return_freed_memory
from topicstream.base.options import listed_names, openly_configured
from topicstream.base.progress import listener
from topicstream.base.records import Json
from topicstream.base.shown import Summary
from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import EMPTY, UNKNOWN, Documents
from topicstream.inference.memory import plan_inference
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_method, make_method, method_of
from topicstream.inference.output import (
    AnswerFormat,
    AnswerTable,
    JsonAnswers,
    Lists,
    answer_batch,
    answer_schema,
    check_answers,
    document_facts,
    open_answers,
    select_topics,
)
from topicstream.inference.source import TEXT, TEXTS, StoredDocuments, open_source
from topicstream.model.edits import view_of
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.jit import notify_compiling
from topicstream.numeric.parallel import in_order

if TYPE_CHECKING:
    from topicstream.inference.priors import CovariateReader

NAMES = "names"  # column of the names of labels


def _covariate_reader(model: TopicModel, columns: list[str]) -> CovariateReader:
    """Open the priors of a model with covariates."""
    from topicstream.inference.priors import CovariateReader  # few models have them

    return CovariateReader(model, columns)


@dataclass
class Tally:
    """Counts of the documents answered so far.

    Attributes
    ----------
    documents
        Number of documents.
    empty, unknown
        Documents without a token, and with tokens but no word that the model knows.
    tokens, oov_tokens
        Tokens, and those of words that the model does not know.
    """

    documents: int = 0
    empty: int = 0
    unknown: int = 0
    tokens: float = 0.0
    oov_tokens: float = 0.0

    @property
    def without_known_word(self) -> int:
        """Count the documents that have the prior as their topics."""
        return self.empty + self.unknown

    def add(self, docs: Documents) -> None:
        """Count a block."""
        flags = docs.flags
        self.documents += len(docs)
        self.empty += int((flags == EMPTY).sum())
        self.unknown += int((flags == UNKNOWN).sum())
        self.tokens += float(docs.tokens.sum())
        self.oov_tokens += float(docs.unknown.sum())

    def join(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def possible_words(model: TopicModel) -> np.ndarray | None:
    """Mark the words that some topic can explain, bool[W], or return None for all.

    A word that no topic of a model without a prior has is as good as unknown.
    """
    if model.beta > 0 or model.manifest.width:
        return None
    possible = np.concatenate([(rows > 0).any(axis=1) for _, rows in model.spans()])
    return None if possible.all() else possible


class Answers:
    """An inference: a model, its method and the source of the documents.

    Parameters
    ----------
    config
        All settings. Everything that can be refused is refused here.

    Attributes
    ----------
    schema
        Schema of the answers.
    tally
        Counts of the documents answered so far.
    """

    def __init__(self, config: InferConfig) -> None:
        find_method(config.method)  # before anything is opened
        return_freed_memory()
        self.progress = listener(config.progress)
        self.tally = Tally()
        self.config = config
        notify_compiling(self.progress.say)
        # a caller's own model stays where the caller has it
        if isinstance(config.model, TopicModel):
            model = config.model
        else:
            model = TopicModel.open(config.model, -1, dense=True)
        self.model = model
        name = method_of(model, config.method)
        method = find_method(name)
        threads = 1 if config.follow else config.threads or default_threads()
        self.plan = plan_inference(
            model,
            config.memory,
            threads,
            owned=model is not config.model,
            tables=method.tables,
            table_bytes=method.table_bytes(model),
        )
        self.method = make_method(name, TopicRows(model), type(config), **(config.options or {}))
        self.method.room = self.plan.room
        if self.plan.load:
            self.method.load()
        if config.follow and self.method.needs_all:
            raise UsageError(
                f"--follow: --method {name} with these options needs all documents before it "
                f"answers"
            )
        columns = dict.fromkeys([*listed_names(config.with_columns), *self.method.columns])
        of_formula = self._covariate_columns()
        self.source = open_source(
            replace(config, with_columns=list(columns)), model, self.plan, of_formula
        )
        self.covariates = None
        if of_formula:
            self.covariates = _covariate_reader(model, list(self.source.columns))
        self.view = None if self.method.dense else view_of(model, edits=config.edits)
        written = {name: kind for name, kind in self.source.columns.items() if name in columns}
        self._written_columns = list(written)
        self._labels = None
        if self._has_names() and NAMES not in written:
            assert self.view is not None
            names = [self.view.label_of(k) for k in range(max(self.view.ids) + 1)]
            written = {NAMES: TEXTS, **written}
            self._labels = pa.array(names, TEXT)
        facts = not self.method.dense
        integer_ids = self.source.integer_ids
        self.schema = answer_schema(written, facts=facts, integer_ids=integer_ids)

    def _has_names(self) -> bool:
        """Tell whether answers have the names of labels."""
        if self.view is None or not self.config.edits:
            return False
        return bool(self.model.manifest.label_docs)

    def _covariate_columns(self) -> list[str]:
        """Return the columns that the documents' priors depend on, none where they are not used."""
        entry = self.model.manifest.covariates
        if entry is None or self.model.coefficients is None or not self.config.covariates:
            return []
        if not self.method.takes_priors:
            self.progress.say(
                f"covariates: --method {self.method.name} gives all documents the mean prior of "
                f"the model; bp and vb give each its own"
            )
            return []
        from topicstream.model.design import decode_design  # few models need it

        columns = decode_design(entry).columns
        if self.config.follow:  # the counts of the end may never come
            self.progress.say(
                f"covariates: each document has the prior of its {', '.join(columns)}; without "
                f"them, the mean prior of the model"
            )
        return columns

    def encode_all(self, encode: Callable[[pa.RecordBatch], Any]) -> Iterator[Any]:
        """Yield the encoded answers of every block, in input order.

        ``encode`` may run in any thread.
        """

        def answer(block: Documents) -> tuple[Any, Documents]:
            return encode(self._answer(block)), block

        documents = self.source.documents()
        possible = possible_words(self.model)
        if possible is not None and not self.method.dense:
            documents = (block.keep_words(possible) for block in documents)
        blocks = iter(self.method.gather(documents))
        results: Iterator[tuple[Any, Documents]]
        if self.config.follow:
            # an answer must be out before the next line is waited for, so no thread reads ahead
            results = map(answer, blocks)
        else:
            results = in_order(answer, blocks, self.plan.threads)
        for encoded, block in results:
            yield encoded
            self.tally.add(block)
            self.progress.step(
                "topics of documents", self.tally.documents, self.source.total or None, "documents"
            )
        if self.covariates is not None:
            for line in self.covariates.lines():
                self.progress.say(f"covariates: {line}")
        self.warn_of_short_documents()

    def _answer(self, docs: Documents) -> pa.RecordBatch:
        """Find the topics of a block, as the model's edits show them."""
        if self.covariates is not None:
            docs = self.covariates.add_priors(docs)
        shares = self.method.shares(docs)
        if self.view is not None:
            shares = self.view.shares(shares)
        lists = select_topics(shares, self.config.top, self.config.min_prob)
        if self.view is not None:
            lists = Lists(lists.offsets, self.view.numbers[lists.topics], lists.shares)
        beside = [] if self.method.dense else document_facts(docs)
        if self._labels is not None:
            offsets = pa.array(lists.offsets.astype(np.int32))
            names = self._labels.take(pa.array(lists.topics))
            beside.append(pa.ListArray.from_arrays(offsets, names))
        beside += [docs.columns[name] for name in self._written_columns]
        return answer_batch(self.schema, typed_ids(docs.ids, docs.integer_ids), lists, beside)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield every answer, as record batches."""
        return self.encode_all(AnswerTable(self.schema).encode)

    def write(self, format: AnswerFormat, flush: Callable[[], None] | None = None) -> None:
        """Write every answer in a format."""
        for encoded in self.encode_all(format.encode):
            format.write(encoded)
            if flush is not None:
                flush()

    def warn_of_short_documents(self) -> None:
        """Warn if the documents answered are too short for the method.

        Where nobody asked for progress or silence, in Python, it is a Python warning.
        """
        tally = self.tally
        answered = tally.documents - tally.without_known_word
        for line in self.method.warn_of_length(tally.tokens - tally.oov_tokens, answered):
            self.progress.say(line)
            if self.config.progress is None:
                warnings.warn(line.removeprefix("warning: "), UserWarning, stacklevel=2)

    def summary(self, begin: float) -> dict[str, Json]:
        """Summarise the answers since ``begin`` (``time.perf_counter``)."""
        notify_compiling(None)
        seconds = time.perf_counter() - begin
        tally = self.tally
        oov_rate = None
        if not self.method.dense:
            oov_rate = tally.oov_tokens / tally.tokens if tally.tokens else 0.0
        return {
            **asdict(tally),
            "oov_rate": oov_rate,
            "rejected": self.source.rejected,
            "seconds": seconds,
            "documents_per_second": tally.documents / seconds,
            "method": self.method.name,
            "topics": self.model.n_topics,
            "model": self.model.name,
        }


BATCHES_OF_TASK = 8
"""Most batches (of 8,192 documents) in a task: some seconds of work."""


@openly_configured(InferConfig)
def infer(config: InferConfig) -> Any:
    """Find the topics of documents, in input order.

    Text is tokenised as the model's corpus was. The answers do not depend on threads. A document
    without a token, or without one that the model knows, gets the prior's mean and the flag
    ``empty`` or ``unknown``. ``topicstream.inference.infer.answers`` streams record batches
    instead.

    Returns
    -------
    pyarrow.Table or Summary
        Without ``out``, a table: id, topics, shares, tokens, oov_rate, flag; of labelled LDA, also
        names. With ``out``, the summary of what was written there: documents, empty, unknown,
        tokens, oov_tokens, oov_rate, rejected, seconds, documents_per_second, method, topics,
        model, out.

    Raises
    ------
    InputError
        The documents cannot be read.
    StoreError
        The model is missing or damaged.
    DoesNotFit
        The memory limit is too small.
    TopicsError
        ``out`` exists, and ``force`` is not set.

    Examples
    --------
    >>> answers = topicstream.infer(
    ...     "model", ["the captain of the crew", "a comet and a planet"], top=1
    ... )
    >>> answers.column_names[:3], answers["tokens"].to_pylist()
    (['id', 'topics', 'shares'], [2.0, 2.0])
    """
    begin = time.perf_counter()
    out = config.out
    path = Path(out) if isinstance(out, str | Path) else None
    documents = config.documents
    if not isinstance(documents, list | tuple):
        documents = [documents]
    stored = [d for d in documents if isinstance(d, Path | Corpus) and d != Path("-")]
    inputs: list[object] = [config.model, *stored]
    if path is not None:
        check_answers(path, "--out", inputs, force=config.force)
        if config.follow:
            raise UsageError(
                f"--follow writes to standard output as it goes; leave out --out {path}"
            )
    if config.scheduler is not None:
        if path is None:
            raise UsageError("--scheduler: give --out FILE, in a folder that all workers can reach")
        return Summary(infer_on_cluster(config, path, inputs), out=str(path))
    run = Answers(config)
    if out is None:
        table = AnswerTable(run.schema)
        run.write(table)
        return table.table()
    if path is not None:
        with open_answers(
            path, run.schema, option="--out", force=config.force, inputs=inputs
        ) as file:
            run.write(file)
    else:
        stream: Any = out
        run.write(JsonAnswers(stream, run.schema), stream.flush if config.follow else None)
        stream.flush()
    return Summary(run.summary(begin), out=str(path) if path is not None else None)


@openly_configured(InferConfig)
def answers(config: InferConfig) -> Iterator[pa.RecordBatch]:
    """Stream the answers of ``infer`` as record batches of some thousand documents.

    ``out`` is ignored.
    """
    yield from Answers(config).batches()


def infer_on_cluster(config: InferConfig, out: Path, inputs: list[object]) -> dict[str, Json]:
    """Answer documents on the workers of a scheduler, and return the summary.

    The file is the same as one machine writes.

    Raises
    ------
    UsageError
        The documents are not those of one stored corpus, the model is in memory, or the method
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
            config.scheduler,
            [run.source.corpus.full_corpus.path, config.model, out.absolute().parent],
        ) as cluster,
        open_answers(out, run.schema, option="--out", force=config.force, inputs=inputs) as file,
        tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".topics-infer-") as folder,
    ):
        for answer_file, tally in _answer_in_parts(run, cluster, batches, Path(folder)):
            with pa.ipc.open_file(answer_file) as reader:
                answers_read = (reader.get_batch(i) for i in range(reader.num_record_batches))
                for encoded in in_order(file.encode, answers_read, run.plan.threads):
                    file.write(encoded)
            run.tally.join(tally)
            run.progress.step(
                "topics of documents", run.tally.documents, run.source.total or None, "documents"
            )
    run.warn_of_short_documents()
    return run.summary(begin)


def _answer_in_parts(
    run: Answers, cluster: Cluster, batches: int, folder: Path
) -> Iterator[tuple[Path, Tally]]:
    """Yield the file and the counts of each task of the cluster, in input order."""
    config = run.config
    model = Path(config.model).absolute()  # type: ignore[arg-type]
    store = run.source.corpus.full_corpus.path.absolute()  # type: ignore[attr-defined]
    worker_config = replace(
        config,
        model=model,
        documents=store,
        out=None,
        progress=False,
        mem_limit=cluster.memory(config.memory),
    )
    return cluster.map(
        partial(_answer_batches, config=worker_config, folder=folder),
        cluster.task_ranges([1] * batches, BATCHES_OF_TASK),
    )


def _answer_batches(
    batches: tuple[int, int], config: InferConfig, folder: Path
) -> tuple[Path, Tally]:
    """Answer a range of batches into an Arrow file, on a worker.

    Returns
    -------
    The file and the counts of the answers.
    """
    run = Answers(replace(config, threads=threads_of_worker(config.threads)))
    assert isinstance(run.source, StoredDocuments)
    run.source.batches = batches
    file = folder / f"{batches[0]:09d}.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
        for batch in run.batches():
            writer.write_batch(batch)
    return file, run.tally
