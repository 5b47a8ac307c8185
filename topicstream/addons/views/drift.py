"""``topicstream.drift``: how well a model still fits documents, period by period.

seen        share of the period's distinct words (as tokenised, before any pruning) that training
            has met, pruned ones too: below 70 % a classifier's answers lose quality (Yao, Mimno
            and McCallum 2009, section 5)
cosine, f1  of the fast method's answers against the reference's, on the same documents
perplexity  document completion of the period's documents
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.addons.views.comparing import (
    completion,
    cosine,
    f1,
    joined,
    opened_to_compare,
    parts_of,
    shares_by,
)
from topicstream.base import machine
from topicstream.base.dates import parse
from topicstream.base.errors import InputError
from topicstream.base.options import configured
from topicstream.base.progress import listener
from topicstream.base.text import each, render
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.display import periods
from topicstream.display.config import DriftConfig
from topicstream.display.metadata import check_columns
from topicstream.evaluation.keys import BOTH_PARTS, mark_known_words, other_corpus
from topicstream.evaluation.visiting import left_out_text
from topicstream.inference.documents import Documents, documents_of_cells
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_variant, make_variant
from topicstream.model.parts import has_part
from topicstream.model.topic_model import TopicModel

MOST_PERIODS = 200


@dataclass
class _Period:
    """What is known of a period.

    words: bool[U], distinct words of its documents; kept: blocks of those looked at.
    """

    name: str
    words: np.ndarray
    docs: int = 0
    tokens: float = 0.0
    unknown: float = 0.0
    left_out: int = 0
    kept: list[Documents] = field(default_factory=list)


@configured(DriftConfig)
def drift(config: DriftConfig) -> dict[str, Any]:
    """How a model fits documents, period by period.

    Returns
    -------
    dict
        ``periods``: a dict each with period, documents, left_out (those without a known word, which
        the last three figures leave out), seen (share of distinct words that training
        has met), unknown_tokens, cosine, f1 and perplexity; ``retrain``: the first period whose
        ``seen`` lies below the threshold, or None; ``method``, ``reference``, ``threshold`` and
        ``note``.

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
    >>> fit = topicstream.drift(
    ...     "model", "corpus.zarr", by="date", reference="bp", method="vb", progress=False
    ... )
    >>> fit["retrain"] is None
    True
    """
    opened, _ = opened_to_compare(config.model, config.memory)
    name = config.method or ("maxent" if has_part(opened.path, "classifier") else "bp")
    find_variant(name, "--method")
    find_variant(config.reference, "--reference")
    training, note = _training(config.corpus)
    with _store(config, opened, training) as (corpus, parts):
        vocabulary = Vocabulary.read(corpus.file("vocab"))
        met = _met(vocabulary.words, opened, training)
        index = opened.vocabulary.find(vocabulary.words)
        if opened.manifest.sample is not None:
            index[~met] = -1
        gathered = _gathered(corpus, parts, config, index, len(vocabulary))
    rows = TopicRows(opened)
    records = []
    tell = listener(config.progress)
    for done, p in enumerate(gathered):
        tell.step("drift", done, len(gathered), "periods")
        record: dict[str, Any] = {
            "period": p.name,
            "documents": p.docs,
            "left_out": p.left_out,
            "seen": float(met[p.words].mean()) if p.words.any() else None,
            "unknown_tokens": p.unknown / p.tokens if p.tokens else None,
        }
        records.append(record | (_figures(opened, rows, p, name, config) if p.kept else {}))
    below = next(
        (r["period"] for r in records if r["seen"] is not None and r["seen"] < config.seen), None
    )
    return {
        "model": opened.name,
        "method": name,
        "reference": config.reference,
        "threshold": config.seen,
        "periods": records,
        "retrain": below,
        "note": note,
    }


def _training(corpus: Any) -> tuple[Corpus | None, str | None]:
    if isinstance(corpus, Corpus):
        return corpus, None
    if not (Path(corpus) / "manifest.json").exists():
        return None, f"{corpus}: no corpus store here; words that it pruned count as never seen"
    return Corpus.open(corpus), None


@contextlib.contextmanager
def _store(
    config: DriftConfig, model: TopicModel, training: Corpus | None
) -> Iterator[tuple[Corpus, tuple[str, ...]]]:
    """The documents as a store (raw ones read with the model's tokenizer, every word kept), and its
    parts.
    """
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
    with other_corpus(documents, model, mem_limit=limit, meta=meta) as corpus:
        yield corpus, BOTH_PARTS


def _met(words: Any, model: TopicModel, training: Corpus | None) -> np.ndarray:
    """bool[U]: which words training has met: the model's, and those that its corpus holds or
    pruned.
    """
    at = model.vocabulary.find(words)
    met = at >= 0
    if model.manifest.sample is not None:  # the corpus' words are those of all its documents
        met &= model.vocabulary.counts[at] > 0
    elif training is not None:
        met |= mark_known_words(words, training)
    return np.asarray(met)


def _periods(
    corpus: Corpus, parts: tuple[str, ...], config: DriftConfig
) -> tuple[dict[str | None, int], list[str], list[int]]:
    """(the period of each date, the periods' names, the documents of each), of one period where
    there is no ``by``.
    """
    if config.by is None:
        return {None: 0}, ["all"], [sum(corpus.part(p == "heldout").docs for p in parts)]
    check_columns(corpus, [config.by], "--by")
    texts = Counter[str | None]()
    for batch in corpus.documents([config.by], parts=parts):
        texts.update(batch.column(config.by).to_pylist())
    days = periods.count(texts.items())
    if not days:
        documents = config.documents if isinstance(config.documents, (str, Path)) else corpus.path
        raise InputError(f"--by {config.by}: no document of {documents} has a date there")
    chosen = periods.choose(days, config.period)
    if chosen is None or len(chosen[1]) > MOST_PERIODS:
        raise InputError(f"--by {config.by}: too many periods; choose a longer --period")
    grain, numbers = chosen
    of_text = {text: grain.find_period(parse(text)) for text in texts if text}
    place = {text: number - numbers[0] for text, number in of_text.items() if number is not None}
    sizes = [0] * len(numbers)
    for text, number in place.items():
        sizes[number] += texts[text]
    return place, [grain.name(number) for number in numbers], sizes  # type: ignore[return-value]


def _gathered(
    corpus: Corpus, parts: tuple[str, ...], config: DriftConfig, index: np.ndarray, words: int
) -> list[_Period]:
    """The periods in order, with their words and some of their documents: read twice, first for
    what there is.
    """
    place, names, sizes = _periods(corpus, parts, config)
    gathered = [_Period(name, np.zeros(words, bool)) for name in names]
    for batch in corpus.documents([config.by] if config.by else [], parts=parts):
        number = np.zeros(len(batch), np.int64)
        if config.by is not None:
            number = np.array([place.get(text, -1) for text in batch.column(config.by).to_pylist()])
        cells = batch.column("words").values.to_numpy()
        counts = batch.column("counts").values.to_numpy()
        indptr = batch.column("words").offsets.to_numpy().astype(np.int64)
        docs = documents_of_cells(batch.column("id"), indptr, cells, counts, index)
        lengths = np.diff(indptr)
        for n in np.unique(number[number >= 0]).tolist():
            p = gathered[n]
            mine = np.flatnonzero(number == n)
            p.words[cells[np.repeat(number == n, lengths)]] = True
            p.tokens += float(docs.tokens[mine].sum())
            p.unknown += float(docs.unknown[mine].sum())
            every = max(1, -(-sizes[n] // config.most))
            with_topics = docs.flags[mine] == 0
            use = mine[((p.docs + np.arange(len(mine))) % every == 0) & with_topics]
            p.docs += len(mine)
            p.left_out += int((~with_topics).sum())
            if len(use):
                p.kept.append(docs.take(use))
    return [p for p in gathered if p.docs]


def _figures(
    model: TopicModel, rows: TopicRows, period: _Period, name: str, config: DriftConfig
) -> dict[str, float]:
    docs = joined(period.kept)

    def answer(method: str, docs: Documents) -> np.ndarray:
        made_method = make_variant(
            method, rows, burn=config.burn, sweeps=config.sweeps, trained_on=config.corpus
        )
        return shares_by(made_method, [docs])

    fast = answer(name, docs)
    slow = answer(config.reference, docs)
    out = {"cosine": float(cosine(slow, fast).mean()), "f1": float(f1(slow, fast).mean())}
    with contextlib.suppress(InputError):  # documents of one word each
        seen, rest = parts_of(docs, model, 0.8)
        out["perplexity"] = completion(rows, answer("bp", seen), rest)
    return out


HEAD = (
    f"{'period':12} {'documents':>9} {'words seen':>10} {'tokens unknown':>14} {'cosine':>7} "
    f"{'F1 0.8':>7} {'perplexity':>11}"
)
ROW = (
    "{period:12} {documents:9,} {seen:8.1p} % {unknown_tokens:12.1p} % {cosine:7.3f} {f1:7.3f} "
    "{perplexity:11.1f}"
)


def drift_lines(result: dict[str, Any]) -> list[str]:
    """``drift`` for people."""
    rule = f"{100 * result['threshold']:g} % of distinct words seen"
    end = (
        f"below {rule} first in {{retrain}}: train again from there on"
        if result["retrain"]
        else f"no period lies below {rule}"
    )
    said = left_out_text(sum(period["left_out"] for period in result["periods"]))
    left_out_line = [f"{said} of cosine, F1 and perplexity"] if said else []
    return [
        *render("{model}: {method} against {reference}", result),
        HEAD,
        *each(ROW, result["periods"]),
        *left_out_line,
        *render(end + "\n[  {note}]", result),
    ]
