"""``topicstream.report``: a model as one HTML file that opens from disk, offline."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.coherence import coherence, diversity
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.memory import open_within
from topicstream.files.outputs import check_output, written
from topicstream.ingestion.opening.inputs_record import file_of
from topicstream.model.edits import View, seen, view_of
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.reporting import geometry, relevance
from topicstream.reporting.config import ReportConfig
from topicstream.reporting.gather import Gathered, Survey, describe_documents, gather_report, survey
from topicstream.reporting.labels import propose
from topicstream.reporting.metadata import columns_of
from topicstream.reporting.payload import our_page, pack, page, quantised
from topicstream.reporting.snippets import Passage, passage_of, snippets

HEAT_TOPICS = 2000
"""Topics up to which all pairs are in the page; of more, each topic's nearest only."""
NEAREST = 8
LINKS = 6
SHOWN = 160
"""Characters of a metadata value in the page."""
HISTORY = ("running_perplexity", "heldout_perplexity", "seconds", "cells_per_second", "rss_peak_bytes")


@configured(ReportConfig)
def report(config: ReportConfig) -> dict[str, Any]:
    """Write the report and return what it holds: out, bytes, topics, documents, periods, columns, notes.

    corpus  None: only what the model itself holds
    docs    typical documents a topic; None: 5, 3 where there are more than 300 topics
    text    True: their texts' beginnings from the raw files; False: none; None: where the files have at most 2 GB
    by      columns to compare; None: all that gather documents
    period  day, week, month, quarter, year, decade, century; None: by the dates
    scores  coherence and held-out perplexity, which read the corpus again

    The documents' topics are streamed once; memory does not grow with the corpus.  Edits (``topics edit``) are honoured;
    perplexity is the trained table's.  Raises InputError, StoreError, DoesNotFit; TopicsError where ``out`` exists.
    """
    model, corpus = config.model, config.corpus if config.documents else None
    out, force, progress = config.out, config.force, config.progress
    path = Path(out)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {path}: a report is an .html file")
    if not (path.parent if str(path.parent) else Path(".")).is_dir():
        raise UsageError(f"--out {path}: no such folder")
    check_output(
        path, "--out", [p for p in (_place(model), _place(corpus)) if p is not None], force=force, reads=our_page
    )
    trained, workers = open_within(model, config.mem_limit, config.threads)
    view = view_of(trained)
    shown = seen(trained, view)
    store = corpus if isinstance(corpus, Corpus) or corpus is None else Corpus.open(corpus)
    values, arrays = of_model(trained, shown, view, config.words)
    values["title"] = config.title or _title(trained)
    if store is not None:
        strangers(trained, store)
        per_topic = config.docs if config.docs is not None else (5 if len(view) <= 300 else 3)
        found = survey(store, by=config.by, grain=config.period)
        sums = gather_report(trained, view, store, found, docs=per_topic, threads=workers, progress=progress)
        of_documents(values, arrays, view, store, found, sums)
        typical(values, arrays, store, sums, config.text, config.text_field, 280 if len(view) <= 300 else 180)
        if config.scores:
            scored(values, arrays, trained, shown, store, workers)
    data = page(values["title"], pack(_tidy(values), arrays))
    with written(path, force=force, reads=our_page) as file:
        file.write(data.encode())
    return {
        "out": str(path),
        "bytes": len(data),
        "topics": len(view),
        "documents": values["docs"],
        "periods": len(values["periods"]),
        "columns": [c["name"] for c in values["columns"]],
        "notes": values["notes"],
    }


def _place(given: Any) -> Path | None:
    """Where a model or a corpus lies."""
    return Path(given) if isinstance(given, (str, Path)) else getattr(given, "path", None)


def _title(model: TopicModel) -> str:
    return f"{Path(model.path).resolve().name}" if model.path else "Topics"


def _tidy(value: Any) -> Any:
    """JSON's own values: what is not finite is null."""
    if isinstance(value, dict):
        return {str(k): _tidy(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_tidy(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Path):
        return str(value)
    return value


def of_model(
    trained: TopicModel, shown: TopicModel, view: View, words: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the model alone has: words, map, tree, settings."""
    k = shown.n_topics
    offsets, ids, log_p, marginal = relevance.candidates(shown, words)
    used, where = np.unique(ids, return_inverse=True)
    similar = geometry.gram(shown)
    grown = geometry.tree(similar, shown.sizes)
    arrays = {
        "wordOffsets": offsets.astype(np.uint32),
        "wordIds": where.astype(np.uint32),
        "wordLogP": np.clip(np.rint(-2000 * log_p), 0, 65535).astype(np.uint16),
        "wordMarginal": np.clip(np.rint(-2000 * marginal[used]), 0, 65535).astype(np.uint16),
        "tokens": shown.sizes.astype(np.float32),
        "position": geometry.layout(similar).astype(np.float32),
        "treeLeft": grown.left.astype(np.uint32),
        "treeRight": grown.right.astype(np.uint32),
        "treeHeight": grown.height.astype(np.float32),
        "order": grown.order.astype(np.uint32),
    }
    if k <= HEAT_TOPICS:
        upper = similar[np.triu_indices(k, 1)]
        arrays["similar"] = np.rint(63 * np.sqrt(upper)).astype(np.uint8)
    else:
        near, value = _nearest(similar, NEAREST)
        arrays["near"], arrays["nearValue"] = near.astype(np.uint32), value.astype(np.float32)
    proposals = propose(shown)
    values: dict[str, Any] = {
        "ids": view.ids,
        "labels": [view.labels.get(i, proposals[j]) for j, i in enumerate(view.ids)],
        "named": [i in view.labels for i in view.ids],
        "members": [len(m) for m in view.members],
        "ordered": view.ordered,
        "vocabulary": shown.vocabulary.texts(used),
        "words": shown.n_words,
        "dropped": len(view.dropped),
        "docs": 0,
        "periods": [],
        "columns": [],
        "notes": [],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "diversity": diversity(shown),
        "settings": _settings(trained, view),
    }
    history = trained.history
    for name in HISTORY[:3]:
        curve = [
            (int(r["pass"]), float(r[name])) for r in history if isinstance(r.get(name), int | float) and r.get("pass")
        ]
        if curve:
            values.setdefault("history", {})[name] = [list(c) for c in zip(*curve, strict=True)]
    return values, arrays


def _nearest(similar: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    other = similar.copy()
    np.fill_diagonal(other, -1.0)
    near = np.argsort(-other, axis=1, kind="stable")[:, :n]
    return near, np.take_along_axis(other, near, 1)


def _settings(model: TopicModel, view: View) -> list[list[str]]:
    rows: list[list[str]] = []

    def say(name: str, value: Any) -> None:
        if value not in (None, "", {}, []):
            rows.append([name, str(value)])

    manifest = model.manifest
    say("engine", manifest.get("engine"))
    say("source", manifest.get("cites"))
    say("topics", f"{model.n_topics:,}" + ("" if view.plain else f" trained, {len(view):,} shown after edits"))
    say("words", f"{model.n_words:,}")
    low, high = float(model.alpha.min()), float(model.alpha.max())
    say("alpha", f"{low:.4g} a topic" if low == high else f"{low:.3g} to {high:.3g} a topic")
    say("beta", f"{model.beta:.4g} a word")
    for name, value in sorted((manifest.get("options") or {}).items()):
        say(name.replace("_", "-"), value)
    say("seed", manifest.get("seed"))
    say("start", manifest.get("start"))
    say("passes", f"{manifest['passes']} ({manifest.get('stopped', '')})" if manifest.get("passes") else None)
    of = manifest.get("corpus")
    if isinstance(of, dict):
        say("trained on", f"{of.get('docs', 0):,} documents, {of.get('tokens', 0):,.0f} tokens")
        say("corpus fingerprint", of.get("fingerprint"))
    recipe = manifest.get("tokenizer")
    if isinstance(recipe, dict):
        stop = recipe.get("stopwords")
        parts = [f"{len(stop)} stop words" if isinstance(stop, list) else "", f"min length {recipe.get('min_length')}"]
        parts += [f"{k} {recipe[k]}" for k in ("ngrams", "stem") if recipe.get(k) not in (None, 1)]
        say("tokenizer", ", ".join(p for p in parts if p))
    say("vocabulary sha256", manifest.get("vocab_sha256"))
    say("trained", manifest.get("created"))
    for name, value in (manifest.get("versions") or {}).items():
        say(name, value)
    return rows


def of_documents(
    values: dict[str, Any],
    arrays: dict[str, np.ndarray],
    view: View,
    corpus: Corpus,
    found: Survey,
    sums: Gathered,
) -> None:
    """Shares over all documents, by period and by column, and links."""
    values["docs"], values["corpus"] = sums.docs, Path(corpus.path).name
    arrays["share"] = (sums.share / max(1, sums.docs)).astype(np.float32)
    arrays["first"] = sums.first.astype(np.uint32)
    fingerprint = next((v for n, v in values["settings"] if n == "corpus fingerprint"), None)
    if fingerprint is not None and fingerprint != corpus.fingerprint:
        values["notes"].append("The corpus is not the one the model was trained on (its fingerprint differs).")
    if found.time is not None and sums.over is not None:
        share, error = sums.over.shares()
        values["periods"], values["grain"] = found.time.names, found.time.grain.key
        arrays["periodDocs"] = sums.over.docs.astype(np.uint32)
        arrays["over"], arrays["overScale"] = quantised(share, np.uint16)
        arrays["overError"], arrays["overErrorScale"] = quantised(error, np.uint8)
        slope, slope_error = sums.over.slope(found.time.years)
        arrays["slope"], arrays["slopeError"] = (np.nan_to_num(a).astype(np.float32) for a in (slope, slope_error))
    elif "date" not in columns_of(corpus):
        values["notes"].append("No dates: ingest with --meta date=FIELD to see topics over time.")
    for i, column in enumerate(found.columns):
        share, error = sums.by[column.name].shares()
        values["columns"].append(
            {"name": column.name, "values": [_cut(v) for v in column.values], "distinct": column.distinct}
        )
        arrays[f"by{i}Docs"] = sums.by[column.name].docs.astype(np.uint32)
        arrays[f"by{i}"], arrays[f"by{i}Scale"] = quantised(share, np.uint16)
        arrays[f"by{i}Error"], arrays[f"by{i}ErrorScale"] = quantised(error, np.uint8)
    if sums.product is not None and sums.linked > 2 and len(view) > 2:
        _links(arrays, sums)
        values["linked"] = sums.linked


def _links(arrays: dict[str, np.ndarray], sums: Gathered) -> None:
    assert sums.product is not None
    mean = sums.share / max(1, sums.docs)
    covariance = sums.product / sums.linked - mean[:, None] * mean
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.nan_to_num(covariance / deviation / deviation[:, None])
    np.fill_diagonal(r, -2.0)
    n = min(LINKS, len(r) - 1)
    up = np.argsort(-r, axis=1, kind="stable")[:, :n]
    arrays["link"], arrays["linkValue"] = up.astype(np.uint32), np.take_along_axis(r, up, 1).astype(np.float32)


def _cut(text: Any, n: int = SHOWN) -> str:
    text = " ".join(str(text).split())
    return str(text if len(text) <= n else text[: n - 1] + "…")


def typical(
    values: dict[str, Any],
    arrays: dict[str, np.ndarray],
    corpus: Corpus,
    sums: Gathered,
    text: bool | None,
    text_field: str | None,
    characters: int,
) -> None:
    """Typical documents: ids, titles, dates, sources, beginnings of texts."""
    if not len(sums.top.ids) or not sums.docs:
        return
    columns = columns_of(corpus)
    numbers = np.unique(sums.top.ids)
    rows = describe_documents(corpus, numbers, ["source", *columns])
    texts: dict[Passage, str] = {}
    places = {number: passage_of(corpus, row) for number, row in rows.items()}
    if text is not False:
        wanted = [place for place in places.values() if place]
        texts, why = snippets(corpus, wanted, characters=characters, text_field=text_field, asked=bool(text))
        if why and wanted:
            values["notes"].append(f"No text snippets: {why}.")
    listed = []
    for number in numbers.tolist():
        row = rows[number]
        entry: dict[str, Any] = {"id": _cut(row.get("id") or number)}
        source = row.get("source")
        if source:
            file = file_of(source)
            entry["source"] = os.path.basename(file) + source[len(file) :]
        for name in columns:
            value = row.get(name)
            if value and name != "links":
                entry.setdefault("meta", {})[name] = _cut(", ".join(value) if isinstance(value, list) else value)
        if (passage := texts.get(places[number] or ("", 0))) is not None:
            entry["text"] = _without_title(passage, entry.get("meta", {}).get("title", ""))
        listed.append(entry)
    values["documents"] = listed
    good = np.isfinite(sums.top.scores)
    arrays["typical"] = np.where(good, np.searchsorted(numbers, sums.top.ids), len(listed)).T.astype(np.uint32)
    arrays["typicalShare"] = np.where(good, sums.top.scores, 0.0).T.astype(np.float32)


def _without_title(text: str, title: str) -> str:
    plain = " ".join(title.split())
    return text[len(plain) :].lstrip(" .:-") if plain and text.startswith(plain) else text


def scored(
    values: dict[str, Any],
    arrays: dict[str, np.ndarray],
    trained: TopicModel,
    shown: TopicModel,
    corpus: Corpus,
    threads: int,
) -> None:
    """Coherence of the topics shown; held-out perplexity of the trained table."""
    found = coherence(shown, corpus, threads=threads)
    arrays["npmi"] = np.array([-9.0 if v is None else v for v in found.npmi_by_topic], np.float32)
    values["coherence"] = {"npmi": found.npmi, "umass": found.umass, "measured": found.measured}
    if corpus.part(True)["docs"]:
        try:
            score = score_model(trained, corpus, threads=threads)
            values["heldout"] = {
                "perplexity": score.perplexity, "docs": score.docs, "tokens": score.tokens, "measured": score.measured,
                "oov": score.oov_rate,
            }  # fmt: skip
        except InputError as e:
            values["notes"].append(f"No held-out perplexity: {e}.")
