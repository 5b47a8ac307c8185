"""What a cycle looks at before it decides: what is new, how long ago the last training was, how new documents differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json
from topicstream.model.manifest import Test, count, listed, mapped, text
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import decide as rules
from topicstream.retraining.config import Config
from topicstream.retraining.drift import measure, stage
from topicstream.retraining.files import MEASURED, Found
from topicstream.retraining.log import Log


def fingerprint(config: Config) -> str | None:
    """Of the corpus store; None without one."""
    return Corpus.open(config.corpus).fingerprint if (config.corpus / "manifest.json").exists() else None


def news(config: Config, state: Mapping[str, Any], found: Found, model: Mapping[str, Any] | None) -> str:
    """What is new, in words: files, or documents in the corpus that the model has not been trained on (unless the gate
    refused the model that was); empty when nothing is."""
    if found.any:
        parts = [(len(found.new), "new"), (len(found.changed), "changed")]
        return " and ".join(f"{n} {what} file{'s' if n > 1 else ''}" for n, what in parts if n)
    if fingerprint(config) is None:
        return ""
    corpus = Corpus.open(config.corpus)
    if model is not None and corpus.is_of((model.get("corpus") or {}).get("fingerprint", "")):
        return ""
    if corpus.is_of((state.get("refused") or {}).get("corpus", "")):
        return ""
    return "documents in the corpus that the model was not trained on"


def age(state: Mapping[str, Any], log: Log) -> float | None:
    """Seconds since the last training, done or tried; 0 when the clock has gone back; None before the first."""
    dates = [d for d in (state["last_trained"], state["last_tried"]) if d is not None]
    seconds = rules.seconds_since(max(dates), rules.now()) if dates else None
    if seconds is not None and seconds < 0:
        log(f"warning: the clock stands {-seconds:.0f} s before the last training; no time is taken to have passed")
        return 0.0
    return seconds


def tell(config: Config, state: Mapping[str, Any], found: Found, log: Log) -> None:
    """What the scan found, as log lines."""
    log(
        f"{config.raw}: {len(found.new)} new, {len(found.changed)} changed, {len(found.gone)} deleted files, "
        f"{len(state['files'])} known"
    )
    for name in found.unsettled:
        log(f"warning: {config.raw / name} is being written to; it waits for the next run")


def raw_names(error: InputError, sources: list[Path], raw: Path) -> InputError:
    """The error in terms of the raw files instead of their copies."""
    message = str(error)
    for source in sources:
        message = message.replace(str(source), str(raw))
    return type(error)(message)


def drift_of(config: Config, model: TopicModel, found: Found, incoming: Path, threads: int, log: Log) -> dict[str, Any]:
    """Figures of the documents of the new and changed files (``drift.measure``)."""
    corpus = Corpus.open(config.corpus)
    sources = [incoming / n for n, files in (("new", found.new), ("changed", found.changed)) if files]
    limits = {"mem_limit": config.train.mem_limit, "workers": config.train.threads}
    place = incoming / MEASURED
    try:
        staged = stage(sources, place, corpus, dict(config.ingest), **limits)
    except InputError as e:
        raise raw_names(e, sources, config.raw) from None
    figures = measure(model, corpus, staged, threads)
    owned.remove(place, "corpus")
    shown = ", ".join(f"{k} {v:.3f}" if v < 2 else f"{k} {v:,.0f}" for k, v in figures.items() if v is not None)
    log(f"drift: {shown}")
    return figures


def read_home(path: Path) -> dict[str, Any]:
    """What the last cycles left; StoreError where the file does not say what one needs."""
    found: dict[str, Any] = read_json(path)
    good = isinstance(found, dict) and isinstance(found.get("files", {}), dict) and isinstance(found.get("version", 0), int)
    good = good and all(isinstance(e, dict) and {"size", "mtime_ns"} <= set(e) for e in found.get("files", {}).values())
    good = good and all(isinstance(found.get(n), (str, type(None))) for n in ("last_trained", "last_tried"))
    good = good and isinstance(found.get("refused") or {}, dict)
    if not good:
        raise StoreError(f"{path}: is not what a cycle wrote; restore it, or remove it to ingest all files anew")
    return found


def _group(value: Any) -> bool:
    """A folder of ``incoming`` that is taken in by a rule."""
    if not isinstance(value, dict) or value.get("name") not in ("new", "changed") or not isinstance(value.get("rule"), str):
        return False
    added = [n for n in ("docs_before", "added") if n in value]
    return all(count(value[n]) for n in added) and ("docs_before" in value or not {"base", "added"} & value.keys())


def read_journal(path: Path) -> dict[str, Any]:
    """The cycle at work; StoreError where the file does not say what one needs."""
    found: dict[str, Any] = read_json(path)
    kinds: dict[str, Test] = {
        **dict.fromkeys(("began", "decision"), text),
        **dict.fromkeys(("files", "summary"), mapped()),
        "stage": lambda value: value in ("append", "train", "gate", "publish"),
        "groups": listed(_group),
        "base": lambda value: value is None or count(value),
        "version": count,
    }
    good = isinstance(found, dict) and kinds.keys() <= found.keys() and all(test(found[n]) for n, test in kinds.items())
    if good and found["stage"] == "publish":
        good = isinstance(found.get("ids"), dict) and isinstance(found["ids"].get("kept"), list)
    if not good:
        raise StoreError(f"{path}: is not what a cycle wrote; remove it, and the next run looks at all files anew")
    return found
