"""safetensors, the tensors of the Hugging Face hub, by its own library (extra ``safetensors``); beside them a model card.

    phi float32[W, K] counts without the prior, alpha float64[K], beta float64[1], counts and df int64[W],
    words uint8[bytes] (UTF-8) with word_offsets int64[W+1]

A file of another program needs ``phi`` [W, K] or ``topic_word`` [K, W] and the words (``--words``).
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import __version__
from topicstream.errors import InputError, TopicsError, one_line
from topicstream.exchange.common import Imported, check_size, checked_words, prior, table_of
from topicstream.exchange.parquet import about, origin
from topicstream.files.outputs import is_ours, written
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import string_buffers

FILE, CARD = "model.safetensors", "README.md"
TABLES = ("phi", "topic_word", "components_", "beta_kw")
"""Names of the topics: ours [W, K], then those of others [K, W]."""


def library() -> Any:
    """The library; TopicsError where it is missing."""
    try:
        import safetensors.numpy
    except ImportError:
        raise TopicsError("--format safetensors needs its library: pip install 'topicstream[safetensors]'") from None
    return safetensors


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder, that the hub takes as it is."""
    offsets, text = string_buffers(model.words)
    tensors = {
        "phi": table_of(model),
        "alpha": model.alpha,
        "beta": np.array([model.beta]),
        "counts": model.vocabulary.counts.astype(np.int64),
        "df": model.vocabulary.df.astype(np.int64),
        "word_offsets": offsets.astype(np.int64),
        "words": text,
    }
    said = {k: v for k, v in about(model).items() if k not in ("alpha", "beta", "totals")}
    raw = library().numpy.save(tensors, {"format": "topicstream", "about": json.dumps(said)})
    with written(path / FILE, force=force) as file:
        file.write(raw)
    if not os.path.lexists(path / CARD) or (force and is_ours(path / CARD)):  # one that was edited is the user's
        with written(path / CARD, force=force) as file:
            file.write(_card(model).encode())
    return {"topics": model.n_topics, "words": model.n_words}


def _card(model: TopicModel) -> str:
    corpus = model.manifest.get("corpus") or {}
    words = model.top_words(10)
    order = np.argsort(-model.shares, kind="stable")[:50].tolist()
    escape = str.maketrans({c: "\\" + c for c in "\\`*_{}[]<>#|!"})
    rows = "\n".join(
        f"| {k} | {100 * model.shares[k]:.1f} % | {' '.join(words['words'][k].as_py()).translate(escape)} |"
        for k in order
    )
    facts = [
        f"- {model.n_topics} topics over {model.n_words:,} words",
        f"- engine: {model.manifest.get('engine', 'unknown')}, passes: {model.manifest.get('passes', 'unknown')}",
        f"- alpha (sum over topics): {model.alpha.sum():g}, beta: {model.beta:g}",
    ]
    if corpus.get("docs"):
        facts.append(f"- trained on {corpus['docs']:,} documents, {float(corpus.get('tokens', 0)):,.0f} tokens")
    return (
        "---\nlibrary_name: topicstream\ntags:\n- topic-modeling\n- lda\n---\n\n# Topic model\n\n"
        + "\n".join(facts)
        + f"\n\nRead it with `topics import {FILE} --model model` (topicstream {__version__}), or with any reader of"
        " safetensors: p(word w | topic k) = (phi[w, k] + beta) / (sum of phi[:, k] + W beta).\n\n"
        + f"| topic | share | words |\n|---|---|---|\n{rows}\n"
    )


def read(path: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A file, or the folder that holds ``model.safetensors``."""
    path = path / FILE if path.is_dir() else path
    tensors, said = _tensors(path)
    name = next((n for n in TABLES if n in tensors), None)
    if name is None:
        raise InputError(f"{path}: no tensor phi [W, K] or topic_word [K, W]; it has {', '.join(sorted(tensors))[:200]}")
    phi = tensors[name]
    if phi.ndim != 2 or phi.dtype not in (np.float32, np.float64):
        raise InputError(f"{path}: {name} is {phi.dtype}{list(phi.shape)}; give float32 or float64 of two dimensions")
    phi = np.ascontiguousarray(phi if name == "phi" else phi.T, np.float32)
    n_words, topics = phi.shape
    check_size(str(path), n_words, topics)
    listed = words if words is not None else _words(path, tensors)
    if len(listed) != n_words:
        raise InputError(f"{path}: {len(listed)} words for {n_words} rows")
    given = alpha if alpha is not None else tensors.get("alpha", 1.0 / topics)
    least = beta if beta is not None else tensors.get("beta", 0.01)
    counts, df = (v if (v := tensors.get(n)) is not None and v.shape == (n_words,) else None for n in ("counts", "df"))
    return Imported(
        words=listed,
        phi=phi,
        alpha=prior(given, topics, f"{path}: alpha"),
        beta=float(prior(least, 1, f"{path}: beta")[0]),
        counts=counts,
        df=df,
        about=origin(said),
    )


def _tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(all tensors of numbers, what our metadata say)."""
    real = library()
    try:
        with real.safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            said = json.loads((file.metadata() or {}).get("about", "{}"))
    except (real.SafetensorError, OSError, ValueError, TypeError, RecursionError) as e:
        raise InputError(f"{path}: not a whole safetensors file ({one_line(e)[:200]})") from None
    return tensors, said if isinstance(said, dict) else {}


def _words(path: Path, tensors: dict[str, np.ndarray]) -> Any:
    """The words that lie beside the topics."""
    offsets, text = tensors.get("word_offsets"), tensors.get("words")
    if offsets is None or text is None:
        raise InputError(f"{path}: holds no words; give --words FILE, a word a line")
    try:
        edges = offsets.tolist()
        return checked_words([bytes(text[a:b]).decode() for a, b in pairwise(edges)], str(path))
    except (TypeError, ValueError):
        raise InputError(f"{path}: the words are damaged") from None
