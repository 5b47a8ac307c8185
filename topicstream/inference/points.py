"""``infer`` of a model of vectors: the components of new ones, streamed, in input order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.inference import keep as choice
from topicstream.inference.config import InferConfig
from topicstream.inference.output import AnswerFormat, AnswersFile, AnswerTable, JsonAnswers
from topicstream.inference.stored import stored
from topicstream.ingestion.opening.memory import as_inputs
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.tasks import parse_all
from topicstream.model.gaussians import POINTS, GaussianModel, threads_within
from topicstream.parallel.order import in_order
from topicstream.tokens.documents import CountRun

Points = tuple[pa.Array, np.ndarray]


def infer_vectors(config: InferConfig) -> Any:
    """As ``infer``: a table of id, topics (components) and shares, or the summary where ``out`` is given."""
    begin = time.perf_counter()
    choice.check(config.top, config.min_prob)
    if config.follow or config.with_columns or config.of_method():
        raise UsageError(
            f"{config.model}: a model of vectors; --follow, --with and the methods' options are for documents"
        )
    config = replace(config, threads=threads_within(config.model, config.mem_limit, config.threads))  # type: ignore[arg-type]
    model, done = GaussianModel(config.model), 0  # type: ignore[arg-type]
    out = config.out
    if out is None:
        table = AnswerTable(about=False)
        _write(model, config, table)
        return table.table()
    if isinstance(out, str | Path):
        inputs = [p for p in config.documents if isinstance(p, Path)] if isinstance(config.documents, list) else []
        with AnswersFile(out, about=False, option="--out", force=config.force, inputs=[*inputs, model.path]) as file:
            done, rejected = _write(model, config, file.format)
            file.commit()
    else:
        done, rejected = _write(model, config, JsonAnswers(out, False, {}))
        out.flush()
    seconds = time.perf_counter() - begin
    return {
        "documents": done,
        "empty": 0,
        "unknown": 0,
        "tokens": float(done),
        "oov_tokens": 0.0,
        "oov_rate": 0.0,
        "rejected": rejected,
        "seconds": seconds,
        "documents_per_second": done / seconds,
        "method": "gmm",
        "topics": len(model.pi),
        "model": str(model.path),
        "out": str(out) if isinstance(out, str | Path) else None,
    }


def _write(model: GaussianModel, config: InferConfig, format: AnswerFormat) -> tuple[int, int]:
    """Every answer into a format; (points, records left out)."""
    rejected = [0]

    def answer(points: Points) -> tuple[pa.Array, choice.Lists]:
        return points[0], choice.keep(model.answer(points[1])[1], config.top, config.min_prob)

    done = 0
    for ids, lists in in_order(answer, _points(model, config, rejected), config.threads or 1):
        format.write(format.encode(ids, lists, None, {}))
        done += len(ids)
    if not done:
        raise InputError("no vectors to answer for")
    return done, rejected[0]


def _points(model: GaussianModel, config: InferConfig, rejected: list[int]) -> Iterator[Points]:
    """(ids, float32[D, n]) of a store of vectors or of files of them."""
    names: Any = [config.documents] if isinstance(config.documents, Corpus) else as_inputs(config.documents, path=True)
    first = names[0] if isinstance(names, list) and names else None
    if isinstance(first, Corpus) or (first is not None and (Path(first) / "manifest.json").exists()):
        store = first if isinstance(first, Corpus) else Corpus.open(first, vectors=True)
        model.check(store.vectors, str(store.path))
        for cells in stored(store, config.of_parts()):
            yield cells.ids, cells.counts.reshape(-1, model.n)
        return
    options = ReadOptions(**config.given()).recall(model.manifest.get("reading"), ("patches", "stride", "vector_field"))
    options = replace(options, vectors=True)
    for run, bad in parse_all(names, options):
        rejected[0] += len(bad)
        if bad.records and options.on_error == "fail":
            raise bad.records[0].error()
        if not isinstance(run, CountRun) or not run.vectors:
            raise UsageError(f"{first}: no vectors; the model is of vectors of {model.n} numbers")
        if len(run):
            model.check(len(run.words) // len(run), str(run.about.source[0].as_py()))
            x = run.counts.reshape(-1, model.n)
            for at in range(0, len(x), POINTS):
                yield run.about.ids.slice(at, POINTS), x[at : at + POINTS]
