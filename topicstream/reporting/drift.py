"""``topicstream.drift``: how well a model still fits documents, period by period.

seen        share of the period's distinct words (as tokenised, before any pruning) that training has met, pruned ones too:
            below 70 % a classifier's answers lose quality (Yao, Mimno and McCallum 2009, section 5)
cosine, f1  of the fast method's answers against the reference's, on the same documents
perplexity  document completion of the period's documents
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream import machine
from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError
from topicstream.evaluation.likeness import cosine, f1
from topicstream.files.parquet import batches
from topicstream.inference.documents import Documents, known
from topicstream.inference.infer import make
from topicstream.inference.memory import fit
from topicstream.inference.method import TopicRows
from topicstream.inference.stored import stored
from topicstream.model.classifier import RECORD
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.options import configured
from topicstream.progress import listener
from topicstream.reporting.comparing import completion, joined, parts_of
from topicstream.reporting.config import METHODS, DriftConfig
from topicstream.reporting.periods import Day, choose, parse, period_number

MOST_PERIODS = 200


@dataclass
class _Period:
    """What is known of a period.  words: bool[U], distinct words of its documents; kept: blocks of those looked at."""

    name: str
    words: np.ndarray
    docs: int = 0
    taken: int = 0
    tokens: float = 0.0
    unknown: float = 0.0
    kept: list[Documents] = field(default_factory=list)


@configured(DriftConfig)
def drift(config: DriftConfig) -> dict[str, Any]:
    """How a model fits documents, period by period: a dict with ``periods`` (a record each: period, documents, seen,
    unknown_tokens, cosine, f1, perplexity), ``retrain`` (the first period whose share of seen words lies below ``seen``,
    or None), ``method``, ``reference``, ``threshold`` and ``note``.

    Raises InputError (no documents, no dates), StoreError, DoesNotFit.
    """
    opened = config.model if isinstance(config.model, TopicModel) else TopicModel.open(config.model, memory_limit=-1)
    place = fit(opened, config.mem_limit, 1, own=opened is not config.model, tables=2)
    if place.load:
        opened.load()
    name = config.method or ("maxent" if opened.path and (opened.path / RECORD).exists() else "bp")
    training, note = _training(config.corpus)
    with _store(config, opened, training) as (corpus, parts):
        vocabulary = Vocabulary.read(corpus.file("vocab"))
        met = _met(vocabulary.words, opened, training)
        index = opened.vocabulary.find(vocabulary.words)
        if "sample" in opened.manifest:
            index[~met] = -1
        periods = _gathered(corpus, parts, config, index, len(vocabulary))
    rows = TopicRows(opened)
    records, tell = [], listener(config.progress)
    for done, p in enumerate(periods):
        tell.step("drift", done, len(periods), "periods")
        record: dict[str, Any] = {
            "period": p.name,
            "documents": p.docs,
            "seen": float(met[p.words].mean()) if p.words.any() else None,
            "unknown_tokens": p.unknown / p.tokens if p.tokens else None,
        }
        records.append(record | (_figures(opened, rows, p, name, config) if p.kept else {}))
    below = next((r["period"] for r in records if r["seen"] is not None and r["seen"] < config.seen), None)
    return {
        "model": str(opened.path or "in memory"),
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
def _store(config: DriftConfig, model: TopicModel, training: Corpus | None) -> Iterator[tuple[Corpus, tuple[str, ...]]]:
    """The documents as a store (raw ones read with the model's tokenizer, every word kept), and its parts."""
    given = config.documents
    if given is None:
        if training is None or not training.part(True)["docs"]:
            raise InputError("--by: no documents were set aside at ingest; name documents with --drift")
        yield training, ("heldout",)
        return
    if isinstance(given, Corpus) or (Path(given) / "manifest.json").exists():
        yield given if isinstance(given, Corpus) else Corpus.open(given), ("train", "heldout")
        return
    if not Path(given).exists():
        raise InputError(f"--drift {given}: no such file or folder")
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.read_options import ReadOptions
    from topicstream.ingestion.settings import Heldout, IngestOptions
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.get("tokenizer")
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {given} and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-drift-") as folder:
        out = Path(folder) / "corpus.zarr"
        read = ReadOptions(meta={config.by: config.by}) if config.by else ReadOptions()
        options = IngestOptions(
            read=read,
            recipe=Recipe.from_json(recipe),
            min_df=1,
            max_df=1.0,
            heldout=Heldout.of(0),
            mem_limit=None if config.mem_limit is None else machine.parse_bytes(config.mem_limit),
        )
        ingest([Path(given)], out, options=options)
        yield Corpus.open(out), ("train",)


def _met(words: Any, model: TopicModel, training: Corpus | None) -> np.ndarray:
    """bool[U]: which words training has met: the model's, and those that its corpus holds or pruned."""
    at = model.vocabulary.find(words)
    found = at >= 0
    if "sample" in model.manifest:  # the corpus' words are those of all its documents
        found &= model.vocabulary.counts[at] > 0
    elif training is not None:
        found |= Vocabulary.read(training.file("vocab")).find(words) >= 0
        if "pruned" in training.manifest.get("files", {}):
            for batch in batches(training.file("pruned"), ["word"]):
                some = batch.column(0).cast(words.type)
                found |= pc.is_in(words, value_set=some).to_numpy(zero_copy_only=False)
    return np.asarray(found)


def _gathered(
    corpus: Corpus, parts: tuple[str, ...], config: DriftConfig, index: np.ndarray, words: int
) -> list[_Period]:
    """The periods in order, with their words and some of their documents: read twice, first for what there is."""
    if config.by is not None and config.by not in (corpus.manifest.get("columns") or {}):
        there = ", ".join(corpus.manifest.get("columns") or {}) or "none"
        raise InputError(
            f"--by {config.by}: {corpus.path} has no such column (it has {there}); ingest with --meta {config.by}"
        )
    columns = [config.by] if config.by else []
    number: dict[str | None, int | None] = {}
    if config.by:
        texts = Counter[str | None]()
        for cells in stored(corpus, parts, columns):
            texts.update(_column(cells.ids, config.by))
        days = Counter[Day]()
        for t, n in texts.items():
            if t and (day := parse(t)) is not None:
                days[day] += n
        if not days:
            given = config.documents if isinstance(config.documents, (str, Path)) else corpus.path
            raise InputError(f"--by {config.by}: no document of {given} has a date there")
        found = choose(days, config.period)
        if found is None or len(found[1]) > MOST_PERIODS:
            raise InputError(f"--by {config.by}: the dates make too many periods; give a longer --period")
        grain = found[0]
        number = {t: period_number(t, grain) if t else None for t in texts}
        names = {n: grain.name(n) for n in found[1]}
        sizes = Counter[int]()
        for t, n in texts.items():
            if (which := number[t]) is not None:
                sizes[which] += n
    else:
        names = {0: "all"}
        sizes = Counter({0: sum(corpus.part(p == "heldout")["docs"] for p in parts)})
    periods = {n: _Period(name, np.zeros(words, bool)) for n, name in names.items() if sizes[n]}
    for cells in stored(corpus, parts, columns):
        at = [number[t] for t in _column(cells.ids, config.by)] if config.by else [0] * (len(cells.indptr) - 1)
        of = np.array([-1 if a is None else a for a in at])
        ids = _ids(cells.ids)
        docs, lengths = known(ids, cells.indptr, cells.words, cells.counts, index), np.diff(cells.indptr)
        for n in np.unique(of[of >= 0]).tolist():
            p, mine = periods[n], np.flatnonzero(of == n)
            p.words[cells.words[np.repeat(of == n, lengths)]] = True
            p.tokens += float(docs.tokens[mine].sum())
            p.unknown += float(docs.unknown[mine].sum())
            every = max(1, -(-sizes[n] // config.most))
            use = mine[((p.docs + np.arange(len(mine))) % every == 0) & (np.diff(docs.indptr)[mine] > 0)]
            p.docs += len(mine)
            if len(use):
                p.kept.append(docs.take(use))
    return list(periods.values())


def _column(ids: pa.Array, name: str) -> list[str | None]:
    return list(ids.field(name).to_pylist()) if pa.types.is_struct(ids.type) else [None] * len(ids)


def _ids(ids: pa.Array) -> pa.Array:
    return ids.field(0) if pa.types.is_struct(ids.type) else ids


def _figures(model: TopicModel, rows: TopicRows, period: _Period, name: str, config: DriftConfig) -> dict[str, float]:
    docs = joined(period.kept)

    def answer(named: str, docs: Documents) -> np.ndarray:
        about = METHODS[named]
        options: dict[str, Any] = dict(about.options)
        if about.sampled:
            options |= (
                {"burn": config.burn, "sweeps": config.sweeps} if about.sampled == "long" else {"burn": 1, "sweeps": 1}
            )
        if about.method == "gibbs1":
            options["trained_on"] = config.corpus
        method = make(about.method, rows, **options)
        if model.phi is not None:
            method.load()
        return np.concatenate([method.shares(b) for b in method.gather([docs])])

    fast, slow = answer(name, docs), answer(config.reference, docs)
    out = {"cosine": float(cosine(slow, fast).mean()), "f1": float(f1(slow, fast).mean())}
    with contextlib.suppress(InputError):  # documents of one word each
        seen, rest = parts_of(docs, model, 0.8)
        out["perplexity"] = completion(rows, answer("bp", seen), rest)
    return out
