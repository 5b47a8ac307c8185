"""safetensors, the tensors of the Hugging Face hub, by its own library (extra ``safetensors``);
beside them a model card.

    phi float32[W, K] counts without the prior, alpha float64[K], topic_ids int64[K] (the numbers
    that `topics show` prints), beta float64[1], counts and df int64[W], words uint8[bytes] (UTF-8)
    with word_offsets int64[W+1]

A file of another program needs ``phi`` [W, K] or ``topic_word`` [K, W] and the words (``--words``).
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from topicstream.addons.exchange.parquet import ExportedFacts, about, origin, read_facts
from topicstream.base.errors import InputError, TopicsError, one_line
from topicstream.base.files.outputs import written
from topicstream.base.machine import __version__
from topicstream.base.text import render
from topicstream.corpus.vocabulary import string_buffers
from topicstream.model.exchange import Export, Given, Imported, check_words, read_counts
from topicstream.model.top import topic_table
from topicstream.model.topic_kinds import mark_kind, ranked
from topicstream.model.topic_model import TopicModel

FILE = "model.safetensors"
CARD = "README.md"
TABLES = ("phi", "topic_word", "components_", "beta_kw")
"""Names of the topics: ours [W, K], then those of others [K, W]."""
FACTS = """- {topics} topics over {words:word}
- engine: {engine}, passes: {passes}
- alpha (sum over topics): {alpha_sum:g}, beta: {beta:g}
[- trained on {corpus.docs:document}, {corpus.tokens:,.0f} tokens]"""
LISTED = 50
"""Topics in the card."""


def library() -> Any:
    """The library; TopicsError where it is missing."""
    try:
        import safetensors.numpy
    except ImportError:
        raise TopicsError(
            "--format safetensors needs its library: pip install 'topicstream[safetensors]'"
        ) from None
    return safetensors


def write(job: Export) -> dict[str, float]:
    """A folder, that the hub takes as it is."""
    model = job.model
    card = job.path / CARD
    offsets, text = string_buffers(model.vocabulary.words)
    tensors = {
        "phi": read_counts(model),
        "alpha": model.alpha,
        "topic_ids": np.array(job.numbers, np.int64),
        "beta": np.array([model.beta]),
        "counts": model.vocabulary.counts.astype(np.int64),
        "df": model.vocabulary.df.astype(np.int64),
        "word_offsets": offsets.astype(np.int64),
        "words": text,
    }
    told = replace(about(model), alpha=[], beta=0.01, totals=[])  # which are tensors
    # one member alone, for the library writes several in any order
    raw = library().numpy.save(tensors, {"about": msgspec.json.encode(told).decode()})
    with written(job.path / FILE, force=job.force) as file:
        file.write(raw)
    if not os.path.lexists(card):  # one that was edited is the user's
        with written(card, force=job.force) as file:
            file.write(card_text(model).encode())
    return {"topics": model.n_topics, "words": model.n_words}


def card_text(model: TopicModel) -> str:
    """The model card, in Markdown."""
    escape = str.maketrans({c: "\\" + c for c in "\\`*_{}[]<>#|!"})
    topics = topic_table(model, 10).to_pylist()
    marks = [f"({mark}) " if (mark := mark_kind(kind)) else "" for kind in model.kinds]
    rows = "\n".join(
        f"| {topics[k]['topic']} | {100 * topics[k]['share']:.1f} % "
        f"| {marks[k]}{' '.join(topics[k]['words']).translate(escape)} |"
        for k in ranked(model.kinds, model.shares)[:LISTED]
    )
    manifest = model.manifest
    facts = {"topics": model.n_topics, "words": model.n_words, "corpus": model.manifest.corpus}
    facts |= {
        "engine": manifest.engine or "unknown",
        "passes": "unknown" if manifest.passes is None else manifest.passes,
    }
    facts |= {"alpha_sum": float(model.alpha.sum()), "beta": model.beta}
    return (
        "---\nlibrary_name: topicstream\ntags:\n- topic-modeling\n- lda\n---\n\n# Topic model\n\n"
        + "\n".join(render(FACTS, facts))
        + f"\n\nRead it with `topics import {FILE} --model model` (topicstream "
        f"{__version__}), or with any reader of"
        " safetensors: p(word w | topic k) = (phi[w, k] + beta) / (sum of phi[:, k] + W beta).\n\n"
        + f"| topic | share | words |\n|---|---|---|\n{rows}\n"
    )


def read(path: Path, given: Given) -> Imported:
    """A file, or the folder that holds ``model.safetensors``."""
    path = path / FILE if path.is_dir() else path
    tensors, told = _tensors(path)
    name = next((n for n in TABLES if n in tensors), None)
    if name is None:
        raise InputError(
            f"{path}: no tensor phi [W, K] or topic_word [K, W]; it has "
            f"{', '.join(sorted(tensors))[:200]}"
        )
    phi = tensors[name]
    if phi.ndim != 2 or phi.dtype not in (np.float32, np.float64):
        raise InputError(
            f"{path}: {name} is {phi.dtype}{list(phi.shape)}; give float32 or float64 of two "
            f"dimensions"
        )
    phi = np.ascontiguousarray(phi if name == "phi" else phi.T, np.float32)
    counts, df = (
        v if (v := tensors.get(n)) is not None and v.shape == phi.shape[:1] else None
        for n in ("counts", "df")
    )
    return Imported(
        words=given.words if given.words is not None else _words(path, tensors),
        phi=phi,
        alpha=tensors.get("alpha"),
        beta=tensors.get("beta", 0.01),  # type: ignore[arg-type]
        counts=counts,
        df=df,
        about=origin(told),
    )


def _tensors(path: Path) -> tuple[dict[str, np.ndarray], ExportedFacts]:
    """(all tensors of numbers, what our metadata say)."""
    real = library()
    try:
        with real.safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            told = (file.metadata() or {}).get("about", "{}")
    except (real.SafetensorError, OSError, ValueError, TypeError) as e:
        raise InputError(f"{path}: not a whole safetensors file ({one_line(e)[:200]})") from None
    return tensors, read_facts(told.encode(), path)


def _words(path: Path, tensors: dict[str, np.ndarray]) -> pa.Array:
    """The words that lie beside the topics."""
    offsets = tensors.get("word_offsets")
    text = tensors.get("words")
    if offsets is None or text is None:
        raise InputError(f"{path}: contains no words; give --words FILE with one word per line")
    try:
        return check_words([bytes(text[a:b]).decode() for a, b in pairwise(offsets.tolist())], path)
    except (TypeError, ValueError):
        raise InputError(f"{path}: the words are damaged") from None
