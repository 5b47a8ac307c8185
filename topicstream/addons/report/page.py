"""Plain values and number arrays as one compressed text, and the page that carries it.

Bytes: uint32 length of the JSON (little-endian), the JSON, padding to 8, then the arrays one after
another, each at a multiple of 8; gzip, base64. The JSON's member ``arrays`` says of each: type,
offset (from the first array), shape.

``topicstream.report``: one HTML file that shows a model, from one stream over the corpus and one
over the table.
"""

from __future__ import annotations

import base64
import gzip
import html
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from msgspec.structs import asdict

from topicstream.base.errors import InputError, UsageError, show_addresses
from topicstream.base.files.outputs import check_output, written
from topicstream.base.options import configured
from topicstream.base.shown import Summary
from topicstream.base.text import render, shortened
from topicstream.corpus.columns import DATE, columns_of
from topicstream.corpus.format import LINKS
from topicstream.corpus.reader import Corpus
from topicstream.display import geometry
from topicstream.display.config import ReportConfig
from topicstream.display.gather import (
    ReportSums,
    Survey,
    correlations,
    describe_documents,
    gather_report,
    survey,
)
from topicstream.display.groups import LIMITS, Groups
from topicstream.display.html import fill_page
from topicstream.display.metadata import open_model_corpus
from topicstream.display.passages import MARKED, DocumentTexts, count_candidates, skip_duplicates
from topicstream.display.view import ShownModel, open_shown
from topicstream.evaluation.coherence import coherence, diversity
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.visiting import left_out_text
from topicstream.ingestion.open.inputs_record import file_of
from topicstream.model.manifest import origin_of
from topicstream.model.top import words_by_relevance
from topicstream.model.topic_kinds import describe_topics

SCRIPTS = (
    "data.js",
    "charts.js",
    "table.js",
    "map.js",
    "heat.js",
    "overview.js",
    "topic.js",
    "about.js",
    "main.js",
)
TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i2": "Int16Array",
    "f4": "Float32Array",
}


def pack(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Pack values and arrays into a compressed payload.

    The same values give the same bytes. Numbers that are not finite become null.
    """
    directory = {}
    body = b""
    for name, array in arrays.items():
        array_le = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        directory[name] = [TYPES[array_le.dtype.str.lstrip("<|=")], len(body), list(array.shape)]
        body += array_le.tobytes()
        body += bytes(-len(body) % 8)
    text = orjson.dumps(
        {**values, "arrays": directory},
        default=str,
        option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS,
    )
    head = len(text).to_bytes(4, "little") + text
    return gzip.compress(head + bytes(-len(head) % 8) + body, 9, mtime=0)


def format_page(title: str, data: bytes) -> str:
    """Format one HTML file that draws itself from the data."""
    return fill_page(
        files("topicstream.addons.report") / "page_files",
        "page.html",
        SCRIPTS,
        TITLE=html.escape(title),
        DATA=base64.b64encode(data).decode(),
    )


def quantise(
    values: np.ndarray, dtype: Any, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Turn non-negative numbers into whole ones, with a scale for each column.

    Parameters
    ----------
    values
        float[rows, columns]; NaN counts as 0.
    dtype
        Type of the whole numbers.
    most
        The largest whole number. None: that of the type.

    Returns
    -------
    tuple
        Whole numbers and scales, float32[columns]; a value is its number times its column's scale.
    """
    clean = np.nan_to_num(values, nan=0.0, posinf=0.0)
    most = np.iinfo(dtype).max if most is None else most
    scale = (clean.max(axis=0, initial=0.0) / most).astype(np.float32)
    number = np.rint(
        np.divide(clean, scale, out=np.zeros_like(clean), where=scale > 0, dtype=np.float64)
    )
    return np.clip(number, 0, most).astype(dtype), scale


HEAT_TOPICS = 2000
"""Topics up to which all pairs are in the page; of more, each topic's nearest only."""
NEAREST = 8
CROSSED = 300
"""Topics up to which the page has the lines of groups over time."""
LINES = 5
"""Groups that have a line."""
CORRELATED = 6
CHARACTERS = 160
"""Most characters of a metadata value in the page."""
MISSING = 65535
"""Code of a missing interval; the page's script knows the number."""
HISTORY = ("running_perplexity", "heldout_perplexity", "seconds")


@dataclass
class Page:
    """The contents of the page: values and arrays of numbers, by the names that its script uses."""

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def _add_documents(built: Page, shown: ShownModel, store: Corpus, config: ReportConfig) -> None:
    """Add what the corpus tells: groups, trends, likeness, typical documents and scores."""
    many_topics = len(shown.view) > 300
    built.values["title"] = config.title or choose_title(store)
    metadata = survey(store, by=config.by, grain=config.period)
    crossed = (
        metadata.columns[0].name
        if metadata.columns and metadata.time is not None and len(shown.view) <= CROSSED
        else None
    )
    per_topic = 3 if many_topics else 5
    if config.docs is not None:
        per_topic = config.docs
    ranked = count_candidates(per_topic) if config.text is not False and per_topic else per_topic
    sums = gather_report(
        shown,
        store,
        metadata,
        docs=ranked,
        cross=crossed,
        progress=config.progress,
    )
    add_groups(built, store, metadata, sums)
    add_links(built, sums)
    add_typical(built, shown, store, sums, config, per_topic, 180 if many_topics else 280)
    if config.scores:
        add_scores(built, shown, store)


class WrittenPage(Summary):
    """The result of a report: what the page shows.

    ``notes`` say what it lacks, and why.
    """

    out: str
    bytes: int
    topics: int
    background_topic: int | None
    documents: int
    left_out: int
    periods: int
    columns: list[str]
    notes: list[str]


@configured(ReportConfig)
def report(config: ReportConfig) -> WrittenPage:
    """Write one HTML file that shows a model, offline.

    Topics of the documents are streamed once; memory does not grow with the corpus. Edits of the
    model are honoured; perplexity is that of the trained table.

    Returns
    -------
    dict
        out, bytes, topics (a background included), background_topic (its number),
        documents, periods, columns, notes.

    Raises
    ------
    InputError
        For a column that the corpus does not have.
    StoreError
        For a missing or damaged model or store.
    DoesNotFit
        Where the memory limit is too small.
    TopicsError
        Where ``out`` exists, without ``force``.

    Examples
    --------
    >>> topicstream.report("model", "corpus.zarr", out="report.html", progress=False)["topics"]
    4
    """
    corpus = config.corpus if config.documents else None
    path = Path(config.out)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {path}: the name of a report must end in .html")
    check_output(path, "--out", [config.model, corpus], force=config.force)
    shown = open_shown(config.model, config.mem_limit, config.threads)
    built = Page()
    add_model(built, shown, config.words)
    values = built.values
    values["title"] = config.title or (
        Path(shown.trained.name).resolve().name if shown.trained.path else "Topics"
    )
    if corpus is not None:
        _add_documents(built, shown, open_model_corpus(shown.trained, corpus), config)
    data = format_page(values["title"], pack(values, built.arrays))
    with written(path, force=config.force) as file:
        file.write(data.encode())
    return WrittenPage(
        out=str(path),
        bytes=len(data),
        topics=len(shown.view),
        background_topic=shown.model.background_topic,
        documents=values["docs"],
        left_out=values["leftOut"],
        periods=len(values["periods"]),
        columns=[c["name"] for c in values["columns"]],
        notes=values["notes"],
    )


def choose_title(corpus: Corpus) -> str:
    """Return a title: the corpus' name or, if that is the default, its file's."""
    name = Path(show_addresses(str(corpus.path))).stem
    sources = corpus.manifest.sources.first
    if name != "corpus" or len(sources) != 1 or corpus.manifest.generation > 1:
        return name
    return Path(file_of(sources[0])).name.partition(".")[0] or name


def add_model(built: Page, shown: ShownModel, words: int) -> None:
    """Add the parts that need only the model: words, map, tree, settings."""
    model = shown.model
    view = shown.view
    offsets, ids, log_p, marginal = words_by_relevance(model, words)
    word_ids, place_of_word = np.unique(ids, return_inverse=True)
    similar = geometry.gram(model)
    tree = geometry.tree(similar, model.sizes)
    built.arrays |= {
        "wordOffsets": offsets.astype(np.uint32),
        "wordIds": place_of_word.astype(np.uint32),
        "wordLogP": np.clip(np.rint(-2000 * log_p), 0, 65535).astype(np.uint16),
        "wordMarginal": np.clip(np.rint(-2000 * marginal[word_ids]), 0, 65535).astype(np.uint16),
        "tokens": model.sizes.astype(np.float32),
        "position": geometry.layout(similar).astype(np.float32),
        "treeLeft": tree.left.astype(np.uint32),
        "treeRight": tree.right.astype(np.uint32),
        "treeHeight": tree.height.astype(np.float32),
        "order": tree.order.astype(np.uint32),
    }
    if model.n_topics <= HEAT_TOPICS:
        upper = similar[np.triu_indices(model.n_topics, 1)]
        built.arrays["similar"] = np.rint(63 * np.sqrt(upper)).astype(np.uint8)
    else:
        built.arrays["near"], built.arrays["nearValue"] = _find_nearest(similar, NEAREST)
    passes = [r for r in shown.trained.history if r.get("pass")]
    curves = {
        name: [(r["pass"], r[name]) for r in passes if isinstance(r.get(name), (int, float))]
        for name in HISTORY
    }
    history = {name: list(zip(*curve, strict=True)) for name, curve in curves.items() if curve}
    built.values |= {
        "ids": view.ids,
        "names": shown.names,
        "kinds": model.kinds,
        "named": [view.label_of(number) is not None for number in view.ids],
        "members": [len(members) for members in view.members],
        "listing": view.listing if view.ordered else None,
        "vocabulary": model.vocabulary.texts(word_ids),
        "words": model.n_words,
        "dropped": len(view.dropped),
        "docs": 0,
        "leftOut": 0,
        "limits": LIMITS,
        "periods": [],
        "columns": [],
        "notes": [],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "diversity": diversity(model),
        "settings": list_settings(shown),
        **({"history": history} if history else {}),
    }


def _find_nearest(similar: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the n topics most like each topic.

    Returns
    -------
    tuple
        Their numbers, uint32[K, n], and likenesses, float32[K, n].
    """
    other = similar.copy()
    np.fill_diagonal(other, -2.0)
    near = np.argsort(-other, axis=1, kind="stable")[:, :n]
    return near.astype(np.uint32), np.take_along_axis(other, near, 1).astype(np.float32)


SETTINGS = """[engine\t{engine}]
[source\t{cites}]
topics\t{topics}[ trained, {edited:,} shown after edits]
words\t{words:,}
alpha\t{alpha}
beta\t{beta:.4g} a word
"""
PROVENANCE = """[seed\t{seed}]
[start\t{start}]
[passes\t{passes} ({stopped})]
[trained on\t{corpus.docs:document}, {corpus.tokens:,.0f} tokens]
[corpus fingerprint\t{corpus.fingerprint}]
[tokenizer\t{stopwords} stop words, min length {tokenizer.min_length}[, ngrams {ngrams}][, stem \
{tokenizer.stem}]]
[vocabulary sha256\t{vocab_sha256}]
[trained\t{created}]
"""


def list_settings(shown: ShownModel) -> list[list[str]]:
    """List settings and provenance of a model: name, value."""
    model = shown.trained
    manifest = shown.trained.manifest
    low = float(model.alpha.min())
    high = float(model.alpha.max())
    tokenizer = manifest.tokenizer or {}
    about = {
        **asdict(origin_of(manifest)),
        "vocab_sha256": getattr(manifest, "vocab_sha256", None),
        "topics": describe_topics(model.n_topics, model.background_topic),
        "edited": len(shown.view) if shown.view.edited else 0,
        "words": model.n_words,
        "alpha": f"{low:.4g} a topic" if low == high else f"{low:.3g} to {high:.3g} a topic",
        "beta": model.beta,
        "seed": None if manifest.seed is None else str(manifest.seed),
        "stopwords": str(len(tokenizer.get("stopwords") or ())),
        "ngrams": tokenizer.get("ngrams") if tokenizer.get("ngrams") != 1 else None,
    }
    rows = [line.split("\t") for line in render(SETTINGS, about)]
    options = sorted(manifest.options.items())
    rows += [
        [name.replace("_", "-"), str(value)]
        for name, value in options
        if value not in (None, "", {}, [])
    ]
    rows += [line.split("\t") for line in render(PROVENANCE, about)]
    return rows + [[name, str(value)] for name, value in manifest.versions.items()]


def add_groups(built: Page, corpus: Corpus, metadata: Survey, sums: ReportSums) -> None:
    """Add the shares over all documents, by period and by column."""
    values = built.values
    arrays = built.arrays
    values["docs"] = sums.docs
    values["leftOut"] = sums.left_out
    values["corpus"] = Path(show_addresses(str(corpus.path))).name
    left_out_note = left_out_text(sums.left_out)
    if left_out_note:
        values["notes"].append(f"{left_out_note}.")
    arrays["share"] = (sums.share / max(1, sums.docs)).astype(np.float32)
    arrays["first"] = sums.first.astype(np.uint32)
    if dict(values["settings"]).get("corpus fingerprint", corpus.fingerprint) != corpus.fingerprint:
        values["notes"].append(
            "The corpus is not the one the model was trained on (its fingerprint differs)."
        )
    if metadata.time is not None:
        values["notes"] += [f"{metadata.time.note}."] if metadata.time.note else []
        over = sums.by[DATE]
        values["periods"] = metadata.time.values
        values["grain"] = metadata.time.grain.key
        _add_means(arrays, "over", "periodDocs", over)
        slope, slope_error = over.slope(metadata.time.years)
        arrays["slope"] = np.nan_to_num(slope).astype(np.float32)
        arrays["slopeError"] = np.nan_to_num(slope_error).astype(np.float32)
    elif DATE not in columns_of(corpus):
        values["notes"].append("No dates: ingest with --meta date=FIELD to see topics over time.")
    for i, column in enumerate(metadata.columns):
        texts = [shortened(value, CHARACTERS) for value in column.values]
        values["columns"].append(
            {"name": column.name, "values": texts, "distinct": column.distinct}
        )
        _add_means(arrays, f"by{i}", f"by{i}Docs", sums.by[column.name])
    for name, over in sums.by_over.items():
        cells = min(LINES, len(metadata.columns[0].values)) * len(values["periods"])
        values["crossed"] = [column.name for column in metadata.columns].index(name)
        arrays["crossDocs"] = over.docs[:cells].astype(np.uint32)
        arrays["cross"], arrays["crossScale"] = quantise(over.means().share[:cells], np.uint16)


def _add_means(arrays: dict[str, np.ndarray], name: str, docs: str, groups: Groups) -> None:
    """Add the mean shares of groups, and half of their intervals: ``MISSING`` where none holds."""
    means = groups.means()
    arrays[docs] = groups.docs.astype(np.uint32)
    arrays[name], arrays[f"{name}Scale"] = quantise(means.share, np.uint16)
    reach, arrays[f"{name}ReachScale"] = quantise(means.reach, np.uint16, most=MISSING - 1)
    reach[np.isnan(means.reach)] = MISSING
    arrays[f"{name}Reach"] = reach


def add_links(built: Page, sums: ReportSums) -> None:
    """Add the topics whose shares rise together most, by correlation over documents."""
    if sums.product is None or sums.linked <= 2 or len(sums.share) <= 2:
        return
    correlation = correlations(sums)
    built.arrays["link"], built.arrays["linkValue"] = _find_nearest(
        correlation, min(CORRELATED, len(correlation) - 1)
    )
    built.values["linked"] = sums.linked


def add_typical(
    built: Page,
    shown: ShownModel,
    corpus: Corpus,
    sums: ReportSums,
    config: ReportConfig,
    per_topic: int,
    characters: int,
) -> None:
    """Add typical documents, without near-duplicates.

    They have ids, titles, dates, sources, and passages with the topic's words marked.
    """
    if not len(sums.top.ids) or not sums.docs:
        return
    ids = sums.top.ids
    scores = sums.top.scores
    lists = [ids[np.isfinite(scores[:, k]), k].tolist() for k in range(ids.shape[1])]
    texts = None
    if config.text is not False:
        texts = DocumentTexts(corpus, ids, text_field=config.text_field, any_file=bool(config.text))
        if texts.missing:
            built.values["notes"].append(f"No text snippets: {texts.missing}.")
        else:
            lists = [
                [documents[i] for i in skip_duplicates([texts.words(d) for d in documents])]
                for documents in lists
            ]
    lists = [documents[:per_topic] for documents in lists]
    numbers = np.unique(np.array(list(chain.from_iterable(lists)), np.int64))
    columns = columns_of(corpus)
    rows = describe_documents(corpus, numbers, ["source", *columns])
    shown_columns = [name for name in columns if name != LINKS]
    built.values["documents"] = [
        _describe_document(rows[number], shown_columns) for number in numbers.tolist()
    ]
    words = shown.first_words(MARKED, 0.6)
    passages = []
    for k, documents in enumerate(lists):
        quoted = [
            texts.passage(d, words[k], characters) if texts is not None else None for d in documents
        ]
        passages.append([passage and [passage.text, *chain(*passage.marks)] for passage in quoted])
    built.values["passages"] = passages
    width = max(map(len, lists), default=0)
    typical = np.full((len(lists), width), len(numbers), np.uint32)
    share = np.zeros((len(lists), width), np.float32)
    for k, documents in enumerate(lists):
        typical[k, : len(documents)] = np.searchsorted(numbers, documents)
        place = {number: i for i, number in enumerate(ids[:, k].tolist())}
        share[k, : len(documents)] = [scores[place[number], k] for number in documents]
    built.arrays |= {"typical": typical, "typicalShare": share}


def _describe_document(row: dict[str, Any], columns: list[str]) -> dict[str, str | dict[str, str]]:
    """Describe a typical document for the page."""
    values = {name: row[name] for name in columns if row.get(name)}
    meta = {
        k: shortened(", ".join(v) if isinstance(v, list) else v, CHARACTERS)
        for k, v in values.items()
    }
    entry: dict[str, str | dict[str, str]] = {
        "id": shortened(row["id"], CHARACTERS),
        **({"meta": meta} if meta else {}),
    }
    source = row.get("source")
    if source:
        file = file_of(source)
        entry["source"] = os.path.basename(file) + source[len(file) :]
    return entry


def add_scores(built: Page, shown: ShownModel, corpus: Corpus) -> None:
    """Add the coherence of the shown topics and the trained table's held-out perplexity."""
    scores = coherence(shown.model, corpus, threads=shown.threads)
    built.arrays["npmi"] = np.array(
        [-9.0 if v is None else v for v in scores.by_topic("npmi")], np.float32
    )
    built.values["coherence"] = {
        "npmi": scores.mean("npmi"),
        "dead": scores.dead,
        "umass": scores.mean("umass"),
        "measured": scores.measured,
    }
    if corpus.part(True).docs:
        try:
            score = score_model(shown.trained, corpus, threads=shown.threads)
        except InputError as e:
            built.values["notes"].append(f"No held-out perplexity: {e}.")
            return
        figures = {
            name: getattr(score, name) for name in ("perplexity", "docs", "tokens", "measured")
        }
        built.values["heldout"] = {**figures, "oov": score.oov_rate}
