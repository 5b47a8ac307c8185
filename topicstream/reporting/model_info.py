"""What ``topics info MODEL`` says of a model: where it comes from and how it got there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from topicstream.errors import StoreError
from topicstream.model.classifier import described
from topicstream.model.store import read_history, read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.reporting.sparkline import sparkline

_OWN = ("schema", "kind", "files", "words", "topics", "alpha", "alpha_sum", "beta", "vocab_sha256")


def describe(path: str | Path, *, verify: bool = False) -> dict[str, Any]:
    """Plain values: engine, cites, options, corpus, passes, ... as the manifest has them; topics, words, priors; empty
    topics; ``history``, a record a pass.  ``verify`` reads every chunk and checks it, and adds the content hash.

    Raises StoreError naming what is damaged.
    """
    manifest = read_manifest(path)
    model = TopicModel.open(path, memory_limit=-1, vectors=True)
    out: dict[str, Any] = {
        "path": str(path),
        "kind": "model",
        **{k: manifest.get(k) for k in ("engine", "cites", "topics", "words", "alpha", "alpha_sum", "beta", "passes")},
        **{k: v for k, v in manifest.items() if k not in _OWN},
        "vocab_sha256": manifest["vocab_sha256"],
        "tokens": float(model.sizes.sum()),
        "empty_topics": [k for k in range(model.n_topics) if model.sizes[k] < 1.0],
        "bytes": sum(
            f.stat().st_size for f in (Path(path) / manifest["files"]["topics"]["name"]).rglob("*") if f.is_file()
        ),
        "history": read_history(path, verify=verify),
    }
    if (learned := described(model)) is not None:
        out["classifier"] = learned
    if verify:
        last = max((int(r.get("pass") or 0) for r in out["history"]), default=0)
        # a model saved from Python has no history
        if (Path(path) / "history.jsonl").exists() and last != (manifest.get("passes") or 0):
            raise StoreError(
                f"{path}/history.jsonl: cut short: its last pass is {last}, the model made {manifest.get('passes')}; "
                "restore the file"
            )
        out["content_hash"] = model.content_hash()
        out["verified"] = True
    return out


def lines(info: dict[str, Any]) -> list[str]:
    """``describe`` for people."""
    out = [f"{info['path']}: {info['topics']} topics over {info['words']:,} words"]

    def say(name: str, value: Any) -> None:
        if value not in (None, "", {}, []):
            out.append(f"  {name:12} {value}")

    say("engine", f"{info['engine']} ({info['cites']})" if info.get("cites") else info.get("engine"))
    say("options", _pairs(info.get("options")))
    say("weighting", (info.get("weighting") or {}).get("kind"))
    seeded = info.get("seed_words") or []
    say("seed words", f"{sum(len(s['words']) for s in seeded)} of {len(seeded)} topics" if seeded else None)
    alpha = info["alpha"]
    say("alpha", f"{alpha:g} a topic" if isinstance(alpha, (int, float)) else of_each(alpha))
    say("beta", f"{info['beta']:g} a word")
    corpus = info.get("corpus")
    say("corpus", _pairs(corpus) if isinstance(corpus, dict) else corpus)
    say("sample", f"{info['sample']:.4g} of the training documents" if info.get("sample") else None)
    say("seed", info.get("seed"))
    passes = info.get("passes")
    say("passes", f"{passes} ({info['stopped']})" if info.get("stopped") else passes)
    say("created", info.get("created"))
    say("versions", _pairs(info.get("versions")))
    if learned := info.get("classifier"):
        state = "; STALE: the topics have changed since" if learned["stale"] else ""
        say(
            "classifier",
            f"{learned.get('documents', 0):,} documents by {learned.get('features', 'counts')}, {learned.get('divergence', math.nan):.3f} nats from theta{state}",
        )
    say("size", f"{info['bytes'] / 2**20:.1f} MB")
    if info["empty_topics"]:
        shown = " ".join(map(str, info["empty_topics"][:20]))
        say("empty", f"{len(info['empty_topics'])} topics with less than one token: {shown}")
    out += history_lines(info["history"])
    if info.get("verified"):
        say("verified", f"all checksums match; content {info['content_hash'][:16]}")
    return out


def of_each(alpha: list[float]) -> str:
    """An alpha of each topic: what a document is taken for before its first word."""
    total, least, most = sum(alpha), min(alpha), max(alpha)
    said = f"{least:.3g} .. {most:.3g} a topic, {total:.3g} in all"
    if not total > 0 or least == most:
        return said
    low, high = (f"{100 * v / total:.2g} % topic {alpha.index(v)}" for v in (least, most))
    return f"{said}: before its first word a document counts as {total:.3g} words, {low} the least, {high} the most"


def history_lines(history: list[dict[str, Any]]) -> list[str]:
    """Curves over the passes with first and last values."""
    out = []
    history = [r for r in history if r.get("pass") != 0]  # the start
    for name, title, digits in (
        ("running_perplexity", "running perplexity", 1),
        ("heldout_perplexity", "held-out perplexity", 1),
        ("cells_per_second", "cells a second", 0),
    ):
        values = [float(r[name]) for r in history if isinstance(r.get(name), (int, float)) and math.isfinite(r[name])]
        if values:
            curve = f"{sparkline(values)}  " if len(values) > 1 else ""
            ends = " -> ".join(f"{v:,.{digits}f}" for v in dict.fromkeys((values[0], values[-1])))
            out.append(f"  {title:20} {curve}{ends}")
    seconds = sum(float(r.get("seconds") or 0) for r in history)
    if seconds:
        peak = max((float(r.get("rss_peak_bytes") or 0) for r in history), default=0.0)
        memory = f", peak memory {peak / 2**20:,.0f} MB" if peak else ""
        out.append(f"  {len(history)} {'pass' if len(history) == 1 else 'passes'} in {seconds:,.1f} s{memory}")
    return out


def _pairs(values: Any) -> str:
    if not isinstance(values, dict):
        return ""
    return ", ".join(f"{k.replace('_', '-')} {v}" for k, v in values.items() if v is not None)
