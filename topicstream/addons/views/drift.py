"""``topicstream.drift``: how well a model still fits documents, period by period.

The figures and the verdict are those by which ``topics retrain`` decides (``retraining/drift.py``).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.addons.views.config import DriftConfig
from topicstream.base import machine
from topicstream.base.dates import Day, parse
from topicstream.base.errors import InputError
from topicstream.base.options import configured
from topicstream.base.text import render, render_each
from topicstream.corpus.columns import check_columns
from topicstream.corpus.reader import Corpus
from topicstream.display import periods
from topicstream.evaluation.keys import BOTH_PARTS, open_other_corpus, stream_documents
from topicstream.inference.memory import plan_inference
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.config import Limits
from topicstream.retraining.drift import DocumentGroups, list_drift_reasons, measure_groups

MOST_PERIODS = 200


@configured(DriftConfig)
def drift(config: DriftConfig) -> dict[str, Any]:
    """Measure how well a model still fits documents, period by period.

    Returns
    -------
    dict
        ``periods``: a dict each with period, documents, words (distinct ones), seen_words (share of
        them that training has met), unknown_tokens (share), perplexity_new (document completion),
        perplexity_old (of the held-out documents of the corpus), perplexity (their ratio), usage
        (distance of topic usage) and why (reasons to train again); ``retrain``: the first period
        with a reason, or None; ``note``. A figure that cannot be measured is None.

    Raises
    ------
    InputError
        Without documents or dates.
    StoreError
        For a missing or damaged model or store.
    DoesNotFit
        Where the memory limit is too small.

    Examples
    --------
    >>> fit = topicstream.drift("model", "corpus.zarr", by="date", progress=False)
    >>> fit["retrain"] is None
    True
    """
    model = config.model
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    threads = config.threads or machine.default_threads()
    plan = plan_inference(opened, config.memory, threads, owned=opened is not model)
    if plan.load:
        opened.load()
    training, note = _open_training(config.corpus)
    with _open_documents(config, opened, training) as (corpus, parts):
        names, groups = _group_by_period(corpus, parts, config)
        figures = measure_groups(opened, training, groups, plan.threads)
    records = [
        {"period": name, **asdict(measured), "why": list_drift_reasons(measured, Limits())}
        for name, measured in zip(names, figures, strict=True)
        if measured.documents
    ]
    return {
        "model": opened.name,
        "periods": records,
        "retrain": next((record["period"] for record in records if record["why"]), None),
        "note": note,
    }


def _open_training(corpus: Any) -> tuple[Corpus | None, str | None]:
    """Open the corpus of the model, or return None with a note that there is none."""
    if isinstance(corpus, Corpus):
        return corpus, None
    if not (Path(corpus) / "manifest.json").exists():
        return None, f"{corpus}: no corpus store here; words that it pruned count as never seen"
    return Corpus.open(corpus), None


@contextlib.contextmanager
def _open_documents(
    config: DriftConfig, model: TopicModel, training: Corpus | None
) -> Iterator[tuple[Corpus, tuple[str, ...]]]:
    """Open the documents as a store, with its parts, where raw ones keep every word."""
    documents = config.documents
    if documents is None:
        if training is None or not training.part(True).docs:
            raise InputError(
                "--by: no documents were held out at ingest; name documents with --drift"
            )
        yield training, ("heldout",)
        return
    if isinstance(documents, Corpus):
        yield documents, BOTH_PARTS
        return
    meta = {config.by: config.by} if config.by else {}
    limit = None if config.mem_limit is None else machine.parse_bytes(config.mem_limit)
    with open_other_corpus(documents, model, mem_limit=limit, meta=meta) as corpus:
        yield corpus, BOTH_PARTS


def _group_by_period(
    corpus: Corpus, parts: tuple[str, ...], config: DriftConfig
) -> tuple[list[str], DocumentGroups]:
    """Return the names of the periods and their documents, all of them without ``by``."""
    numbers = {p: np.full(corpus.part(p == "heldout").docs, -1, np.int32) for p in parts}
    numbers = {part: of_part for part, of_part in numbers.items() if len(of_part)}
    if config.by is None:
        for part, of_part in numbers.items():
            for rows, _ in stream_documents(corpus, part == "heldout", []):
                of_part[rows] = 0
        return ["all"], _count_groups(corpus, numbers, 1)
    check_columns(corpus, [config.by], "--by")
    days = Counter[Day]()
    for batch in corpus.documents([config.by], parts=parts):
        texts = Counter[str | None](batch.column(config.by).to_pylist())
        days += periods.count_dates(texts.items())
    if not days:
        documents = config.documents if isinstance(config.documents, (str, Path)) else corpus.path
        raise InputError(f"--by {config.by}: no document of {documents} has a date there")
    chosen = periods.choose_grain(days, config.period)
    if chosen is None or len(chosen[1]) > MOST_PERIODS:
        raise InputError(f"--by {config.by}: too many periods; choose a longer --period")
    grain, starts = chosen
    for part, of_part in numbers.items():
        for rows, batch in stream_documents(corpus, part == "heldout", [config.by]):
            dates = batch.column(config.by).to_pylist()
            place = {date: _find_place(date, grain, starts[0]) for date in {*dates}}
            of_part[rows] = [place[date] for date in dates]
    return [grain.name(number) for number in starts], _count_groups(corpus, numbers, len(starts))


def _find_place(date: str | None, grain: periods.Grain, first: int) -> int:
    """Return the place of a date's period, counted from the first one, or -1 without a period."""
    number = grain.find_period(parse(date) if date else None)
    return -1 if number is None else number - first


def _count_groups(corpus: Corpus, numbers: dict[str, np.ndarray], groups: int) -> DocumentGroups:
    """Make groups of documents by the number of each document's group."""
    all_numbers = np.concatenate(list(numbers.values())) if numbers else np.zeros(0, np.int32)
    sizes = np.bincount(all_numbers[all_numbers >= 0], minlength=groups)
    return DocumentGroups(corpus, numbers, sizes.tolist())


HEAD = (
    f"{'period':12} {'documents':>9} {'words seen':>10} {'tokens unknown':>14} {'perplexity':>11} "
    f"{'over old':>8} {'usage':>6}"
)
ROW = (
    "{period:12} {documents:9,} {seen_words:8.1p} % {unknown_tokens:12.1p} % "
    "{perplexity_new:11.1f} {perplexity:8.2f} {usage:6.2f}"
)


def drift_lines(result: dict[str, Any]) -> list[str]:
    """Describe the result of ``drift`` for people."""
    drifted = [period for period in result["periods"] if period["why"]]
    end = (
        "drifted first in {retrain}: train again with documents from there on"
        if drifted
        else "no period has drifted"
    )
    return [
        *render("{model}", result),
        HEAD,
        *render_each(ROW, result["periods"]),
        *render_each("{period}: {why:; }", drifted),
        *render(end + "\n[  {note}]", result),
    ]
