"""The answers of one inference, block by block, and what was answered so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import typed_ids
from topicstream.errors import UsageError
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import EMPTY, UNKNOWN, Documents
from topicstream.inference.memory import plan_inference
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_method, make_method, method_of
from topicstream.inference.output import (
    AnswerFormat,
    AnswerTable,
    Lists,
    answer_batch,
    answer_schema,
    facts_of,
    keep,
)
from topicstream.inference.source import TEXT, TEXTS, open_source
from topicstream.kernels.jit import notify_compiling
from topicstream.machine import default_threads, return_freed_memory
from topicstream.model.edits import view_of
from topicstream.model.topic_model import TopicModel
from topicstream.options import listed_names
from topicstream.parallel.order import in_order
from topicstream.progress import listener
from topicstream.records import Json

NAMES = "names"


@dataclass
class Tally:
    """What was answered so far."""

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
        """Count what another tally has counted."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def possible_words(model: TopicModel) -> np.ndarray | None:
    """Tell which words some topic can explain, bool[W]; None: all, by the prior of each word.

    A word that no topic of a model without a prior has is as good as unknown."""
    if model.beta > 0 or model.manifest.width:
        return None
    known = np.concatenate([(rows > 0).any(axis=1) for _, rows in model.spans()])
    return None if known.all() else known


class Answers:
    """One inference: a model, its method and where the documents come from.

    ``schema``: of its answers.
    """

    def __init__(self, config: InferConfig) -> None:
        find_method(config.method)  # before anything is opened
        return_freed_memory()
        self.progress, self.tally, self.config = listener(config.progress), Tally(), config
        notify_compiling(self.progress.say)
        own = not isinstance(
            config.model, TopicModel
        )  # a caller's own model stays where the caller has it
        model = (
            config.model
            if isinstance(config.model, TopicModel)
            else TopicModel.open(config.model, -1, dense=True)
        )
        self.model, name = model, method_of(model, config.method)
        method, threads = (
            find_method(name),
            1 if config.follow else config.threads or default_threads(),
        )
        self.plan = plan_inference(
            model,
            config.memory,
            threads,
            owned=own,
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
        self.source = open_source(replace(config, with_columns=list(columns)), model, self.plan)
        self.view = None if self.method.dense else view_of(model, edits=config.edits)
        shown, self._labels = self.source.columns, None
        named = self.view is not None and config.edits and bool(model.manifest.label_docs)
        if named and self.view is not None and NAMES not in shown:
            names = [self.view.label_of(k) for k in range(max(self.view.ids) + 1)]
            shown, self._labels = {NAMES: TEXTS, **shown}, pa.array(names, TEXT)
        facts, integer_ids = not self.method.dense, self.source.integer_ids
        self.schema = answer_schema(shown, facts=facts, integer_ids=integer_ids)

    def encoded(self, encode: Callable[[pa.RecordBatch], Any]) -> Iterator[Any]:
        """``encode(answers)`` of every block, in input order; it may run in any thread."""

        def answer(documents: Documents) -> tuple[Any, Documents]:
            return encode(self._answer(documents)), documents

        gathered = self.source.documents()
        if (possible := possible_words(self.model)) is not None and not self.method.dense:
            gathered = (block.only_words(possible) for block in gathered)
        blocks = iter(self.method.gather(gathered))
        # following, every answer must be out before the next line is waited for: no thread, nothing
        # held back
        results = (
            map(answer, blocks)
            if self.config.follow
            else in_order(answer, blocks, self.plan.threads)
        )
        for encoded, documents in results:
            yield encoded
            self.tally.add(documents)
            self.progress.step(
                "topics of documents", self.tally.documents, self.source.total or None, "documents"
            )

    def _answer(self, docs: Documents) -> pa.RecordBatch:
        shares, view = self.method.shares(docs), self.view
        lists = keep(
            shares if view is None else view.shares(shares), self.config.top, self.config.min_prob
        )
        if view is not None:
            lists = Lists(lists.offsets, view.numbers[lists.topics], lists.shares)
        beside = [] if self.method.dense else facts_of(docs)
        if self._labels is not None:
            offsets = pa.array(lists.offsets.astype(np.int32))
            beside.append(
                pa.ListArray.from_arrays(offsets, self._labels.take(pa.array(lists.topics)))
            )
        beside += [docs.columns[name] for name in self.source.columns]
        return answer_batch(self.schema, typed_ids(docs.ids, docs.integer_ids), lists, beside)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every answer, as record batches."""
        return self.encoded(AnswerTable(self.schema).encode)

    def write(self, format: AnswerFormat, flush: Callable[[], None] | None = None) -> None:
        """Every answer into a format."""
        for encoded in self.encoded(format.encode):
            format.write(encoded)
            if flush is not None:
                flush()

    def summary(self, begin: float) -> dict[str, Json]:
        """What was answered since ``begin`` (``time.perf_counter``)."""
        notify_compiling(None)
        seconds, tally = time.perf_counter() - begin, self.tally
        return {
            **asdict(tally),
            "oov_rate": None
            if self.method.dense
            else tally.oov_tokens / tally.tokens
            if tally.tokens
            else 0.0,
            "rejected": self.source.rejected,
            "seconds": seconds,
            "documents_per_second": tally.documents / seconds,
            "method": self.method.name,
            "topics": self.model.n_topics,
            "model": self.model.name,
        }
