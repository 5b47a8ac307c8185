"""safetensors: the length of a JSON header (eight bytes), the header, the tensors' bytes; beside it a model card.

    phi float32[W, K] counts without the prior, alpha float64[K], beta float64[1], counts and df int64[W],
    words uint8[bytes] (UTF-8) with word_offsets int64[W+1]

A file of another program needs ``phi`` [W, K] or ``topic_word`` [K, W] and the words (``--words``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.exchange.common import BUDGET, Imported, check_size, checked_words, prior
from topicstream.exchange.parquet import about, origin
from topicstream.files.outputs import is_ours, written
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import string_buffers

FILE, CARD = "model.safetensors", "README.md"
TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "|u1", "I32": "<i4"}
MOST_HEADER = 100_000_000


def write(model: TopicModel, corpus: Any, path: Path, *, force: bool) -> dict[str, Any]:
    """``path``: a folder, that the hub takes as it is."""
    offsets, text = string_buffers(model.words)
    small: dict[str, tuple[str, np.ndarray]] = {
        "alpha": ("F64", model.alpha.astype("<f8")),
        "beta": ("F64", np.array([model.beta], "<f8")),
        "counts": ("I64", model.vocabulary.counts.astype("<i8")),
        "df": ("I64", model.vocabulary.df.astype("<i8")),
        "word_offsets": ("I64", offsets.astype("<i8")),
        "words": ("U8", text),
    }
    said = json.dumps({k: v for k, v in about(model).items() if k not in ("alpha", "beta", "totals")})
    header: dict[str, Any] = {"__metadata__": {"format": "topicstream", "about": said}}
    at = 0
    for name, (kind, values) in small.items():
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    size = 4 * model.n_words * model.n_topics
    header["phi"] = {"dtype": "F32", "shape": [model.n_words, model.n_topics], "data_offsets": [at, at + size]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with written(path / FILE, force=force) as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for _, values in small.values():
            file.write(np.ascontiguousarray(values).tobytes())
        for _, rows in model.spans():
            file.write(np.ascontiguousarray(rows, "<f4").data)
    if not os.path.lexists(path / CARD) or (force and is_ours(path / CARD)):  # one that was edited is the user's
        with written(path / CARD, force=force) as file:
            file.write(_card(model).encode())
    return {"topics": model.n_topics, "words": model.n_words}


def _card(model: TopicModel) -> str:
    from topicstream import __version__

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


def _header(path: Path, fd: int) -> tuple[dict[str, Any], int]:
    size = os.fstat(fd).st_size
    head = os.pread(fd, 8, 0)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 2 <= length <= min(MOST_HEADER, size - 8):
        raise InputError(f"{path}: not a safetensors file, or cut short")
    try:
        header = json.loads(os.pread(fd, length, 8))
        tensors = {k: v for k, v in header.items() if k != "__metadata__"}
        for name, entry in tensors.items():
            begin, end = entry["data_offsets"]
            if not all(isinstance(n, int) and n >= 0 for n in (begin, end, *entry["shape"])) or end < begin:
                raise ValueError(name)
            if 8 + length + end > size:
                raise InputError(f"{path}: cut short: {name} ends behind the file")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: its header is damaged") from None
    return header, 8 + length


def read(path: Path, folder: Path, *, words: Any, alpha: Any, beta: float | None) -> Imported:
    """A file, or the folder that holds ``model.safetensors``."""
    path = path / FILE if path.is_dir() else path
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from None
    fd = file.fileno()
    header, start = _header(path, fd)
    metadata = header.get("__metadata__") or {}
    try:
        said = json.loads(metadata.get("about", "{}"))
        said = said if isinstance(said, dict) else {}
    except (ValueError, TypeError, AttributeError, RecursionError):
        said = {}

    def tensor(name: str, dims: int) -> np.ndarray | None:
        entry = header.get(name)
        if entry is None:
            return None
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        kind = TYPES.get(entry.get("dtype"))
        if (
            kind is None
            or len(shape) != dims
            or int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize != end - begin
        ):
            raise InputError(f"{path}: the tensor {name} is not what it must be ({entry.get('dtype')}, {shape})")
        return np.frombuffer(os.pread(fd, end - begin, start + begin), kind)

    name = next((n for n in ("phi", "topic_word", "components_", "beta_kw") if n in header), None)
    if name is None:
        raise InputError(f"{path}: no tensor phi [W, K] or topic_word [K, W]; it has {', '.join(sorted(header))[:200]}")
    entry = header[name]
    kind, shape = TYPES.get(entry.get("dtype")), entry["shape"]
    begin, end = entry["data_offsets"]
    if kind not in ("<f4", "<f8") or len(shape) != 2:
        raise InputError(f"{path}: the tensor {name} is not what it must be ({entry.get('dtype')}, {shape})")
    n_words, topics = shape if name == "phi" else shape[::-1]
    check_size(str(path), n_words, topics)
    item = np.dtype(kind).itemsize
    if n_words * topics * item != end - begin:
        raise InputError(f"{path}: the tensor {name} has another size than its shape says")
    found = words
    if found is None:
        offsets, text = tensor("word_offsets", 1), tensor("words", 1)
        if offsets is None or text is None:
            raise InputError(f"{path}: holds no words; give --words FILE, a word a line")
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
            raise InputError(f"{path}: the words are damaged")
        buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(text.copy())]
        found = pa.LargeStringArray.from_buffers(len(offsets) - 1, buffers[1], buffers[2])
        try:
            found.validate(full=True)
        except pa.ArrowException:
            raise InputError(f"{path}: the words are not UTF-8") from None
        found = checked_words(found, str(path))
    if len(found) != n_words:
        raise InputError(f"{path}: {len(found)} words for {n_words} rows")

    def rows() -> Iterator[np.ndarray]:
        with file:
            step = max(1, BUDGET // 4 // (item * topics))
            for at in range(0, n_words, step):
                n = min(step, n_words - at)
                if name == "phi":
                    raw = os.pread(fd, n * topics * item, start + begin + at * topics * item)
                    yield np.frombuffer(raw, kind).reshape(n, topics).astype(np.float32, copy=False)
                else:
                    parts = [os.pread(fd, n * item, start + begin + (k * n_words + at) * item) for k in range(topics)]
                    yield np.stack([np.frombuffer(p, kind) for p in parts], axis=1).astype(np.float32)

    own_alpha, own_beta = tensor("alpha", 1), tensor("beta", 1)
    given = alpha if alpha is not None else own_alpha if own_alpha is not None else 1.0 / topics
    least = float(own_beta[0]) if own_beta is not None and len(own_beta) == 1 else 0.01
    if not (np.isfinite(least) and least >= 0):
        raise InputError(f"{path}: beta is {least}")
    counts, df = tensor("counts", 1), tensor("df", 1)
    return Imported(
        words=found,
        topics=topics,
        rows=rows(),
        alpha=prior(given, topics, f"{path}: alpha"),
        beta=least if beta is None else beta,
        counts=counts if counts is not None and len(counts) == n_words else None,
        df=df if df is not None and len(df) == n_words else None,
        about=origin(said),
    )
