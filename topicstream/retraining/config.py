"""The one config file of ``topics retrain`` (TOML): what it may say, the defaults, and the commented one of ``--init``."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from topicstream.engines import find
from topicstream.errors import TopicsError, UsageError
from topicstream.files.ownership import kind_of, told
from topicstream.files.plain import read_given
from topicstream.ingestion.settings import IngestOptions
from topicstream.machine import parse_bytes
from topicstream.model.seeds import read_seeds
from topicstream.options import seconds
from topicstream.training.stopping import tolerance

TEMPLATE = """\
# Everything `topics retrain --config THIS-FILE` needs.  Paths are relative to this file.

folder = "."              # state.json, corpus.zarr, versions/NNNN, current -> versions/NNNN; runs/ and incoming/ while at work
raw = "raw"               # the folder that new files come into; hidden files and *.tmp, *.part are left alone
patterns = ["*"]          # which files below raw count, by their path below it ("*.jsonl", "2026/*.txt")
changed = "replace"       # a file whose content has changed is read again: "replace" puts its documents in the place of
                          # those with the same id (a copy moved to the end: the next update then starts every block
                          # anew), "add" takes only ids not seen before (logs that grow), "ignore" leaves it alone.
                          # Documents that a changed file no longer holds stay, as do those of a deleted file.

[ingest]                  # the options of `topics ingest`, with underscores; the tokenizer is fixed by the first run
# format = "jsonl"
# text_field = "text"
# id_field = "id"         # without ids a document is called FILE:LINE
# heldout = "1%"
grow_vocab = true         # new words get ids behind the old ones

[train]
algo = "auto"             # chosen by corpus, topics and mem_limit; `topics engines` lists them all
# aim = "reading"         # what auto chooses for; or prediction
# allow_smaller = true    # auto may take an engine that keeps less where the disk is too small
topics = 100
seed = 0
# passes = 100            # of a full training; the engine's own when left out
# update_passes = 10      # of an update, at most (20 where every block starts anew)
# tol = "0.1%"            # settled: change of the running perplexity over ten passes
# max_time = "2h"         # training stops after the pass in which this time is over
# mem_limit = "2G"        # of the whole process
# threads = 2
# seed_words = "seeds.toml"  # topics that are told some of their words; an update keeps its model's
# weighting = "tfidf"     # weights in the place of counts; none, tf or tfidf
# [train.options]         # the engine's own: alpha, beta, ...

[when]                    # a run acts when one of these holds; flags of the command line take their place
new_docs = true           # new documents: an update
drift = true              # new documents that have drifted: a full training
# at_least_every = "30d"  # so long after the last training: a full training, new documents or not

[drift]                   # any one of these is drift
seen_words = 0.70         # share of the new documents' distinct words that the training has seen (pruned ones count), below
unknown_tokens = 0.20     # share of the new documents' tokens whose word was never seen, above
perplexity = 2.0          # perplexity of new documents over that of the held-out old ones, above
usage = 0.40              # Jensen-Shannon distance (0..1) of topic usage, new against old documents, above

[gate]
tolerance = 0.02          # held-out perplexity may be worse than the present model's by this share
topics = true             # no empty and no identical topics, or no more of them than the present model has

[store]
compact = "auto"          # merge the small blocks of many appends and purge removed documents before a training:
                          # "auto" when every block starts anew anyway, or there are 32 blocks and half of them to spare;
                          # "never"; "always" (the update then starts every block from the model)

[publish]
keep = 5                  # versions that stay on disk, at least 2: a reader of the last one is not cut off
far = 1.0                 # l1 distance (0..2) beyond which a topic is not the old one any more
classifier = false        # learn a classifier of every version as well: `topics infer --method maxent`
"""


def write_template(path: Path) -> dict[str, Any]:
    """Write the commented config file and make the folder ``raw`` beside it; TopicsError where there is a file."""
    raw = path.resolve().parent / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as f:
            f.write(TEMPLATE)
    except FileExistsError:
        raise TopicsError(f"{path}: is there already; name another with --config") from None
    return {"config": str(path), "raw": str(raw)}


def parse_seconds(value: Any, name: str) -> float | None:
    """``90``, ``"5min"``, ``"2h"``, ``"30d"`` -> seconds; UsageError otherwise."""
    try:
        return cast("float | None", seconds(value))
    except UsageError as e:
        raise UsageError(f"{name} = {e}") from None


@dataclass(frozen=True)
class Train:
    """[train]; options: the engine's own."""

    algo: str = "auto"
    aim: str = "prediction"
    allow_smaller: bool = False
    topics: int = 100
    seed: int = 0
    passes: int | None = None
    update_passes: int | None = None
    tol: float | str | None = None
    max_time: float | None = None
    mem_limit: int | None = None
    threads: int | None = None
    seed_words: str | None = None
    weighting: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class When:
    """[when]; at_least_every in seconds."""

    new_docs: bool = True
    drift: bool = True
    at_least_every: float | None = None


@dataclass(frozen=True)
class Limits:
    """[drift]: beyond any one of them new documents have drifted."""

    seen_words: float = 0.70
    unknown_tokens: float = 0.20
    perplexity: float = 2.0
    usage: float = 0.40


@dataclass(frozen=True)
class Gate:
    """[gate]."""

    tolerance: float = 0.02
    topics: bool = True


@dataclass(frozen=True)
class Store:
    """[store]."""

    compact: str = "auto"


@dataclass(frozen=True)
class Publish:
    """[publish]."""

    keep: int = 5
    far: float = 1.0
    classifier: bool = False


@dataclass(frozen=True)
class Config:
    """The whole file; paths absolute."""

    folder: Path
    raw: Path
    patterns: tuple[str, ...] = ("*",)
    changed: str = "replace"
    ingest: Mapping[str, Any] = field(default_factory=dict)
    train: Train = field(default_factory=Train)
    when: When = field(default_factory=When)
    drift: Limits = field(default_factory=Limits)
    gate: Gate = field(default_factory=Gate)
    store: Store = field(default_factory=Store)
    publish: Publish = field(default_factory=Publish)

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus.zarr"


def _table(kind: Any, given: Any, name: str, path: Path) -> Any:
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [{name}] must be a table")
    values = dict(given)
    fields = {f.name: str(f.type) for f in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise UsageError(f"{path}: [{name}] has no setting {key!r}; it has {', '.join(fields)}")
        if key in ("max_time", "at_least_every"):
            values[key] = parse_seconds(value, f"{path}: {key}")
        elif key == "mem_limit":
            values[key] = parse_bytes(value)
        elif key == "tol" and isinstance(value, str):
            tolerance(value)
        else:
            want: tuple[type, ...] = {"bool": (bool,), "str": (str,)}.get(fields[key].split(" ")[0], (int, float))
            if fields[key].startswith("int"):
                want = (int,)
            if fields[key].startswith("Mapping"):
                want = (dict,)
            if not isinstance(value, want) or (isinstance(value, bool) and bool not in want):
                raise UsageError(f"{path}: {key} = {value!r} in [{name}]: must be {fields[key].split(' ')[0]}")
    return kind(**values)


def load_config(path: str | Path) -> Config:
    """Read a config file; UsageError (one line) naming what is wrong in it."""
    path = Path(path)
    try:
        value = tomllib.loads(read_given(path).decode())
    except FileNotFoundError:
        raise UsageError(f"{path}: not found; `topics retrain --init --config {path}` writes one") from None
    except OSError as e:
        raise UsageError(f"{path}: cannot be read ({e.strerror or e})") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path}: not TOML: {e}") from None
    if "\\u0000" in json.dumps(value, default=str):
        raise UsageError(f"{path}: holds a NUL character, which no name can have")
    names = [f.name for f in dataclasses.fields(Config)]
    if unknown := [k for k in value if k not in names]:
        raise UsageError(f"{path}: no setting {unknown[0]!r}; there are {', '.join(names)}")
    home = path.resolve().parent
    for name in ("folder", "raw", "changed"):
        if not isinstance(value.get(name, ""), str):
            raise UsageError(f"{path}: {name} must be a string")
    changed = value.get("changed", "replace")
    if changed not in ("replace", "add", "ignore"):
        raise UsageError(f'{path}: changed = "{changed}": give replace, add or ignore')
    patterns = value.get("patterns", ["*"])
    if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
        raise UsageError(f"{path}: patterns must be a list of strings")
    ingest = dict(value.get("ingest", {"grow_vocab": True}))
    for name in ("append", "force", "on_duplicate", "mem_limit", "workers"):
        if name in ingest:
            raise UsageError(f"{path}: {name} in [ingest] is set by retrain itself; leave it out")
    IngestOptions.of(**{k: v for k, v in ingest.items() if k != "grow_vocab"})
    config = Config(
        folder=home / value.get("folder", "."),
        raw=home / value.get("raw", "raw"),
        patterns=tuple(patterns),
        changed=changed,
        ingest=ingest,
        train=_table(Train, value.get("train", {}), "train", path),
        when=_table(When, value.get("when", {}), "when", path),
        drift=_table(Limits, value.get("drift", {}), "drift", path),
        gate=_table(Gate, value.get("gate", {}), "gate", path),
        store=_table(Store, value.get("store", {}), "store", path),
        publish=_table(Publish, value.get("publish", {}), "publish", path),
    )
    if config.train.seed_words is not None:
        seeds = home / config.train.seed_words
        read_seeds(seeds)
        config = dataclasses.replace(config, train=dataclasses.replace(config.train, seed_words=str(seeds)))
    algo = config.train.algo
    if algo != "auto" and find(algo).topics_axis:
        raise UsageError(
            f'{path}: algo = "{algo}": its topics are the {find(algo).topics_axis} and keep their names, so there is nothing to '
            "match from version to version; use `topics ingest --append` and `topics update`"
        )
    if config.store.compact not in ("auto", "never", "always"):
        raise UsageError(f'{path}: compact = "{config.store.compact}": give auto, never or always')
    if config.publish.keep < 2:
        raise UsageError(f"{path}: keep = {config.publish.keep}: at least 2, so that no reader is cut off")
    check_raw(config, path)
    return config


def check_raw(config: Config, path: Path) -> None:
    """UsageError where the raw files would lie in a folder that retrain writes and empties, or hold one."""
    raw, home = Path(os.path.realpath(config.raw)), Path(os.path.realpath(config.folder))
    if raw == home or raw in home.parents:
        raise UsageError(f"{path}: raw = {config.raw}: holds the folder of the retrain; new files need a folder of their own")
    for name in ("corpus.zarr", "corpus.zarr.wip", "incoming", "runs", "versions", "current"):
        own = Path(os.path.realpath(home / name))
        if own == raw or own in raw.parents or raw in own.parents:
            raise UsageError(f"{path}: raw = {config.raw}: {home / name} is retrain's own; give new files another folder")
    for place in (raw, *raw.parents):
        if (kind := kind_of(place)) not in (None, "retrain"):
            raise UsageError(f"{path}: raw = {config.raw}: {place} is {told(kind)}; give new files another folder")
