"""The description of a model by ``topics info MODEL``: its origin and its training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.base.errors import StoreError
from topicstream.base.records import Json
from topicstream.base.text import render, sparkline
from topicstream.model.formula import parse_formula
from topicstream.model.manifest import manifest_json, read_manifest
from topicstream.model.parts import model_parts
from topicstream.model.store import read_history
from topicstream.model.topic_kinds import BACKGROUND, DEAD, describe_topics
from topicstream.model.topic_model import TopicModel

_OWN = ("schema", "kind", "files", "words", "topics", "alpha", "alpha_sum", "beta", "vocab_sha256")


def describe(path: str | Path, *, verify: bool = False) -> dict[str, Json]:
    """Describe a model in plain values.

    Parameters
    ----------
    path
        The model's folder.
    verify
        Read and check every chunk, and add the content hash.

    Returns
    -------
    dict
        engine, cites, options, corpus, passes, ... as the manifest has them. ``topic_ids`` are the
        numbers of the topics in the order of ``alpha``, ``empty_topics`` those of topics with less
        than one token, ``history`` has a record a pass.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    manifest = read_manifest(path)
    model = TopicModel.open(path, memory_limit=-1, dense=True)
    about = manifest_json(manifest)
    table = Path(path) / manifest.files.topics.name
    order = np.argsort(model.column_ids)
    if isinstance(manifest.alpha, list):
        about["alpha"] = model.alpha[order].tolist()
    out: dict[str, Any] = {
        "path": str(path),
        "kind": "model",
        **{
            k: about.get(k)
            for k in ("engine", "cites", "topics", "words", "alpha", "alpha_sum", "beta", "passes")
        },
        **{k: v for k, v in about.items() if k not in _OWN},
        "vocab_sha256": manifest.vocab_sha256,
        "tokens": float(model.sizes.sum()),
        "topic_ids": model.column_ids[order].tolist(),
        "empty_topics": model.column_ids[order][model.sizes[order] < 1.0].tolist(),
        **_unusual_topics(model, order),
        "bytes": sum(f.stat().st_size for f in table.rglob("*") if f.is_file()),
        "history": read_history(path, verify=verify),
    }
    for name, part in model_parts().items():
        description = part.describe(model)
        if description is not None:
            out[name] = dict(description)
    if verify:
        last = max((int(r.get("pass") or 0) for r in out["history"]), default=0)
        # a model saved from Python has no history
        if (Path(path) / "history.jsonl").exists() and last != (manifest.passes or 0):
            raise StoreError(
                f"{path}/history.jsonl: cut short: its last pass is {last}, the model made "
                f"{manifest.passes}; restore the file"
            )
        out |= {"content_hash": model.content_hash(), "verified": True}
    return out


def _unusual_topics(model: TopicModel, order: np.ndarray) -> dict[str, list[int]]:
    """List dead topics and the background by number, none if the table cannot be read."""
    if model.manifest.width:
        return {}
    try:
        kinds = np.array(model.kinds)[order]
    except StoreError:  # `info` describes a damaged model, too; --verify says what is damaged
        return {}
    numbers = model.column_ids[order]
    return {
        "dead_topics": numbers[kinds == DEAD].tolist(),
        "background_topics": numbers[kinds == BACKGROUND].tolist(),
    }


SUMMARY = """{path}: {described} over {words:word}
[  engine       {engine}[ ({cites})]]
[  options      {options}]
[  weighting    {weighting.kind}]
[  seed words   {seeded} of {seed_words} topics]
[  covariates   {covariates.formula}; alpha is its mean over the training documents]
[               deviations learned: {deviations}]
[  regimes      {regimes}]
  alpha        {alpha}
  beta         {beta:g} a word
[  corpus       {corpus.docs:document}[, {corpus.cells:value}][, {corpus.tokens:,.0f} tokens][, \
generation {corpus.generation}][, fingerprint {corpus.fingerprint:.16}]]
[  sample       {sample:.4g} of the training documents]
[  seed         {seed}]
[  passes       {passes}[ ({stopped})]]
[  created      {created}]
[  versions     {versions}]
"""
SIZES = """  size         {bytes:size}
[  empty        {empty_topics:topic} with less than one token: {first_empty: }]
[  dead         {dead_topics:topic} with next to nothing of the corpus: {first_dead: }]
[  background   topic {background_topics}]
"""


def lines(info: dict[str, Any]) -> list[str]:
    """Format the description of a model as lines."""
    alpha = info["alpha"]
    seeds = info.get("seed_words") or []
    empty = info["empty_topics"]
    dead = info.get("dead_topics", [])
    background = info.get("background_topics", [])
    about = {
        **info,
        "alpha": f"{alpha:g} a topic" if isinstance(alpha, (int, float)) else alpha_text(alpha),
        **{
            name: None if info.get(name) is None else str(info[name]) for name in ("seed", "passes")
        },
        "described": describe_topics(info["topics"], next(iter(background), None)),
        "seeded": sum(len(topic["words"]) for topic in seeds),
        "seed_words": len(seeds),
        "empty_topics": len(empty),
        "first_empty": [str(k) for k in empty[:20]],
        "dead_topics": len(dead),
        "first_dead": [str(k) for k in dead[:20]],
        "options": _join_settings(info.get("options")),
        "deviations": deviations_text(info.get("covariates")),
        "regimes": regimes_text(info.get("covariates")),
        "versions": _join_settings(info.get("versions")),
    }
    verified = render("[  verified     all checksums match; content {content_hash:.16}]", info)
    parts = [part.line for name, part in model_parts().items() if name in info and part.line]
    summary = SUMMARY + "".join(f"{line}\n" for line in parts) + SIZES
    return render(summary, about) + history_lines(info["history"]) + verified


def deviations_text(covariates: Mapping[str, Any] | None) -> str | None:
    """Format the learned deviation of each term of a formula, None without any."""
    if covariates is None or not covariates["learned_sd"]:
        return None
    terms = [":".join(map(str, term)) for term in parse_formula(covariates["formula"])]
    learned = zip(terms, covariates["learned_sd"], strict=True)
    return ", ".join(f"{term} {sd:.2g}" for term, sd in learned)


def regimes_text(covariates: Mapping[str, Any] | None) -> str | None:
    """Name the regimes of a date, None without any."""
    columns = [] if covariates is None else covariates["columns"]
    timed = [column for column in columns if column.get("regimes")]
    return f"of {timed[0]['column']}: {', '.join(timed[0]['levels'])}" if timed else None


def alpha_text(alpha: list[float]) -> str:
    """Summarize an alpha of each topic, with its weight before a document's first word."""
    total = sum(alpha)
    least = min(alpha)
    most = max(alpha)
    bounds = f"{least:.3g} .. {most:.3g} a topic, {total:.3g} in all"
    if not total > 0 or least == most:
        return bounds
    low, high = (f"{100 * v / total:.2g} % of topic {alpha.index(v)}" for v in (least, most))
    return (
        f"{bounds}: the prior of a document weighs as much as {total:.3g} words, from {low} to "
        f"{high}"
    )


CURVES = {
    "running_perplexity": ("running perplexity", 1),
    "heldout_perplexity": ("held-out perplexity", 1),
    "cells_per_second": ("values a second", 0),
}


def history_lines(history: list[dict[str, Any]]) -> list[str]:
    """Draw figures of the passes as curves, with their first and last values."""
    out = []
    curves: dict[str, tuple[str, int]] = {}
    passes = []
    for record in history:
        if record.get("pass") == 0:  # the start
            continue
        objectives = _objectives(record)  # of engines that maximise something else than likelihood
        curves |= {name: (name, 4) for name in objectives}
        passes.append({**record, **objectives})
    curves |= CURVES
    width = max(20, *map(len, curves))
    for name, (title, digits) in curves.items():
        values = [
            float(r[name])
            for r in passes
            if isinstance(r.get(name), (int, float)) and math.isfinite(r[name])
        ]
        if values:
            curve = f"{sparkline(values)}  " if len(values) > 1 else ""
            ends = " -> ".join(f"{v:,.{digits}f}" for v in dict.fromkeys((values[0], values[-1])))
            out.append(f"  {title:{width}} {curve}{ends}")
    seconds = sum(float(r.get("seconds") or 0) for r in passes)
    peak = max((float(r.get("rss_peak_bytes") or 0) for r in passes), default=0.0)
    count = f"{len(passes)} {'pass' if len(passes) == 1 else 'passes'}"
    about = {"passes": count, "seconds": seconds, "peak": peak / 2**20}
    return out + render("[  {passes} in {seconds:,.1f} s[, peak memory {peak:,.0f} MB]]", about)


def _objectives(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the objectives that an engine reports of a pass, by title."""
    return {
        **(record.get("objective") or {}),
        **{f"held-out {k}": v for k, v in (record.get("heldout") or {}).items()},
    }


def _join_settings(values: Mapping[str, Any] | None) -> str:
    """Join names and values that are set, separated by commas."""
    return ", ".join(
        f"{k.replace('_', '-')} {v}" for k, v in (values or {}).items() if v is not None
    )
