"""The config file of ``topics retrain`` (TOML): its settings with their defaults.

``template.py`` writes a file with all of them.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.marker import KINDS, kind_of
from topicstream.base.files.plain import read_text
from topicstream.base.options import checked, fits, like, names_tagged, option, seconds
from topicstream.base.places import places
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.open.inputs_record import InputReading, matches
from topicstream.ingestion.settings import make_options
from topicstream.ingestion.tokens.stopwords import language_named
from topicstream.model.seeds import read_seeds
from topicstream.training.config import TrainConfig
from topicstream.training.setup import engine_facts

GROUPS = ("new", "changed")
"""Folders of copies below ``incoming``."""
FILE_OPTIONS = {"meta_files", "links", "replace", "drop_words", "vocab", "words"}
"""Options of an ingest that name files."""
OWN_FOLDERS = ("corpus.zarr", "corpus.zarr.wip", "incoming", "runs", "versions", "current")
"""Names in the folder of a retrain that are its own."""


@dataclass(frozen=True)
class Train:
    """[train]: settings of ``topics train``, and ``update_passes`` of an update."""

    algo: str = like(
        TrainConfig,
        "algo",
        help="Engine; auto chooses by corpus, topics and mem_limit; `topics engines` lists all.",
    )
    aim: str = like(
        TrainConfig,
        "aim",
        help='What auto chooses for: "prediction" of new documents, or "reading" (distinct topics '
        "and a background topic, at a cost of up to 5 % of held-out perplexity).",
        example="reading",
    )
    allow_smaller: bool = like(
        TrainConfig,
        "allow_smaller",
        help="auto may take an engine that stores less where the disk is too small.",
        example=True,
    )
    topics: int = like(TrainConfig, "topics", default=100, help="Number of topics.")
    seed: int = like(TrainConfig, "seed")
    passes: int | None = like(TrainConfig, "passes", example=100)
    update_passes: int | None = like(
        TrainConfig,
        "passes",
        help="Passes of an update at most (default: 15; samplers: 120).",
        example=10,
    )
    tol: float | str | None = like(TrainConfig, "tol", example="0.1%")
    max_time: float | None = like(TrainConfig, "max_time", example="2h")
    mem_limit: int | None = like(TrainConfig, "mem_limit", example="2G")
    threads: int | None = like(TrainConfig, "threads", example=2)
    scheduler: str | None = like(
        TrainConfig,
        "scheduler",
        help="A Dask cluster that trains: docs/scale.md.",
        example="tcp://10.0.0.5:8786",
    )
    workers_min: int = like(
        TrainConfig,
        "workers_min",
        help="End with exit code 7 if the cluster has fewer workers.",
        example=2,
    )
    seed_words: str | None = like(
        TrainConfig,
        "seed_words",
        help="Words that people give to topics; an update keeps its model's.",
        example="seeds.toml",
    )
    weighting: str = like(TrainConfig, "weighting", example="tfidf")
    covariates: str | None = like(
        TrainConfig,
        "covariates",
        help="Formula of metadata that each document's alpha depends on.",
        example="party + s(date)",
    )
    covariate_sd: float | None = like(TrainConfig, "covariate_sd", example=0.5)
    covariate_means: float = like(TrainConfig, "covariate_means", example=1.0)
    intercept_sd: float = like(TrainConfig, "intercept_sd", example=5.0)
    options: Mapping[str, Any] = field(default_factory=dict)

    def limits(self) -> dict[str, Any]:
        """Return the keywords of ``train`` that bound a run."""
        return {name: getattr(self, name) for name in ("tol", *names_tagged(Train, "machine"))}

    def model_settings(self) -> dict[str, Any]:
        """Return the settings that a model depends on."""
        machine = names_tagged(Train, "machine")
        return {name: value for name, value in asdict(self).items() if name not in machine}


@dataclass(frozen=True)
class When:
    """[when]: the conditions on which a cycle acts."""

    new_docs: bool = option(True, "New documents: an update.")
    drift: bool = option(True, "New documents that have drifted: a full training.")
    at_least_every: float | None = option(
        None,
        "So long after the last full training: another, new documents or not.",
        parse=seconds,
        example="30d",
    )
    after_rollback: str = option(
        "hold",
        'After `topics rollback`: "hold" until `topics retrain --release`, or "new_docs" until '
        "there are new files.",
        choices=("hold", "new_docs"),
    )


@dataclass(frozen=True)
class Limits:
    """[drift]: beyond any one of them new documents have drifted."""

    unknown_tokens: float = option(
        0.20, "Share of the new documents' tokens whose word was never seen, at most."
    )
    perplexity: float = option(
        2.0, "Perplexity of new documents over that of the held-out old ones, at most."
    )
    usage: float = option(
        1.0,
        "Jensen-Shannon distance (0..1) of topic usage, new against old documents, at most; off by "
        "default, because a night of one source of several, or of few documents, moves it.",
        max=1,
        example=0.60,
    )
    seen_words: float = option(
        0.0,
        "Share of the new documents' distinct words that the training has seen, at least; off by "
        "default, because it falls with the number of new documents.",
        example=0.50,
    )


@dataclass(frozen=True)
class Gate:
    """[gate]: conditions on a new model."""

    tolerance: float = option(
        0.02,
        "Share by which held-out perplexity may be worse than the present model's.",
        min=-1,
    )
    topics: bool = option(
        True, "No empty and no identical topics, or no more of them than the present model has."
    )


@dataclass(frozen=True)
class Store:
    """[store]: upkeep of the corpus."""

    compact: str = option(
        "auto",
        "Merge the small blocks of many appends and purge removed documents before a training: "
        '"auto" when half of the blocks are to spare, documents were removed, or before a full '
        'training; "never"; "always".',
        choices=("auto", "never", "always"),
    )


@dataclass(frozen=True)
class Publish:
    """[publish]: versions, and how topics are matched between them."""

    keep: int = option(
        5,
        "Versions that stay on disk, at least 2, so that a reader of the last one is not cut off.",
        min=2,
    )
    far: float = option(1.0, "l1 distance (0..2) beyond which a topic is not the old one any more.")
    classifier: bool = option(
        False, "Learn a classifier of every version as well: `topics infer --method maxent`."
    )
    address: str | None = option(
        None,
        "Every version is uploaded there, too: docs/storage.md.",
        parse=places().check_upload,
        example="s3://bucket/models/news",
    )


@dataclass(frozen=True)
class RawSource:
    """[[source]]: raw files by their patterns, and how they are read."""

    patterns: Sequence[str]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Config:
    """A configuration file with absolute paths."""

    folder: Path = option(
        Path("."),
        "Folder of state.json, corpus.zarr, versions/NNNN and current -> versions/NNNN; runs/ and "
        "incoming/ while at work.",
        parse=Path,
    )
    raw: Path = option(
        Path("raw"),
        "The folder that new files come into; hidden files and *.tmp, *.part are left alone.",
        parse=Path,
    )
    patterns: Sequence[str] = option(
        ("*",),
        'Which files below raw count, by their path below it ("*.jsonl", "2026/*.txt").',
    )
    changed: str = option(
        "replace",
        'A file whose content has changed is read again: "replace" puts its documents in the place '
        'of those with the same id, "add" takes only ids not seen before (logs that grow), '
        '"ignore" leaves it alone. Documents that a changed file no longer holds stay, as do those '
        "of a deleted file.",
        choices=("replace", "add", "ignore"),
    )
    ingest: Mapping[str, Any] = field(default_factory=lambda: {"grow_vocab": True})
    source: Sequence[RawSource] = ()
    train: Train = field(default_factory=Train)
    when: When = field(default_factory=When)
    drift: Limits = field(default_factory=Limits)
    gate: Gate = field(default_factory=Gate)
    store: Store = field(default_factory=Store)
    publish: Publish = field(default_factory=Publish)

    @property
    def corpus(self) -> Path:
        """Return the path of the corpus store."""
        return self.folder / "corpus.zarr"

    @property
    def group_names(self) -> list[str]:
        """Return the names of the folders of copies, which end with the number of a source."""
        names = list(GROUPS)
        for number in range(1, len(self.source) + 1):
            names += [f"{group}.{number}" for group in GROUPS]
        return names

    def group_of(self, group: str, below: str) -> str:
        """Return the folder that a new or changed file is copied to, by its path below ``raw``."""
        for number, source in enumerate(self.source, 1):
            if matches(below, source.patterns):
                return f"{group}.{number}"
        return group

    def ingest_options(self, group: str) -> dict[str, Any]:
        """Return the options of an ingest of a folder of copies.

        If files are read in several ways, none is read as the store remembers it of another.
        """
        if not self.source:
            return dict(self.ingest)
        number = int(group.partition(".")[2] or 0)
        of_source = self.source[number - 1].options if 0 < number <= len(self.source) else {}
        return {**self.ingest, **of_source, "as_store": False}

    def readings(self) -> list[InputReading]:
        """Return how the files below ``raw`` are read, those of each source and the others."""
        patterns = [list(source.patterns) for source in self.source]
        names = [f"new.{number}" for number in range(1, len(patterns) + 1)]
        return [
            InputReading(options=self._remembered(name), patterns=of_source)
            for name, of_source in zip([*names, "new"], [*patterns, []], strict=True)
        ]

    def _remembered(self, group: str) -> dict[str, Any]:
        """Return the options that a store would keep of an ingest of a folder of copies."""
        return make_options(append=True, **self.ingest_options(group)).remembered()


TABLES = {
    "train": Train,
    "when": When,
    "drift": Limits,
    "gate": Gate,
    "store": Store,
    "publish": Publish,
}


def load_config(path: str | Path) -> Config:
    """Read a configuration file, or raise UsageError about what is wrong in it."""
    path = Path(path)
    try:
        values = tomllib.loads(read_text(path).decode())
    except FileNotFoundError:
        raise UsageError(
            f"{path}: not found; `topics retrain --init --config {path}` writes one"
        ) from None
    except OSError as e:
        raise UsageError(f"{path}: cannot be read ({e.strerror or e})") from None
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path}: not TOML: {e}") from None
    if "\\u0000" in json.dumps(values, default=str):
        raise UsageError(f"{path}: contains a NUL character")
    tables = {
        name: _read_table(kind, values[name], f"{path}: [{name}]")
        for name, kind in TABLES.items()
        if name in values
    }
    if "source" in values:
        tables["source"] = _read_sources(values["source"], str(path))
    config = Config(
        **checked(Config, values | tables, str(path), lambda field: f"{path}: {field.name}")
    )
    home = path.resolve().parent
    for name in ("folder", "raw"):
        place = str(getattr(config, name))
        if re.match("[a-z][a-z0-9+.-]+:/", place):  # a path has one slash of two
            address = re.sub(":/+", "://", place, count=1)
            raise UsageError(
                f'{path}: {name} = "{address}": an address, and retrain works in folders of this '
                f"machine; copy the files to one first (`aws s3 sync`, `gcloud storage rsync`)"
            )
    seeds = config.train.seed_words
    if seeds is not None:
        read_seeds(home / seeds)
        config = replace(config, train=replace(config.train, seed_words=str(home / seeds)))
    config = replace(
        config,
        folder=home / config.folder,
        raw=home / config.raw,
        ingest=_beside_file(config.ingest, home),
        source=tuple(
            RawSource(source.patterns, _beside_file(source.options, home))
            for source in config.source
        ),
    )
    _check(config, path)
    return config


def _beside_file(options: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """Find the files that options of an ingest name beside the config file.

    Parameters
    ----------
    options
        Of ``[ingest]`` or of a ``[[source]]``.
    home
        The folder of the config file.
    """
    absolute = dict(options)
    for name in sorted(FILE_OPTIONS & set(options)):
        absolute[name] = _place_beside(options[name], home)
    stops = options.get("stopwords")
    if isinstance(stops, str):  # a list holds the words themselves
        parts = [stops] if (home / stops).is_file() else stops.split("+")
        absolute["stopwords"] = "+".join(_list_beside(part, home) for part in parts)
    return absolute


def _place_beside(value: Any, home: Path) -> Any:
    """Turn a path, or each of several, into one that holds from any folder."""
    if isinstance(value, (list, tuple)):
        return [_place_beside(item, home) for item in value]
    if not isinstance(value, (str, os.PathLike)) or not places().on_this_machine(value):
        return value
    return str(home / value)


def _list_beside(name: str, home: Path) -> str:
    """Name a list of stop words: a file beside the config file, else a language, or none."""
    if not (home / name).is_file() and (name == "none" or language_named(name) is not None):
        return name
    return str(home / name)


def in_words_of_config(message: str) -> str:
    """Rewrite a message about options of a command line in the words of a config file."""

    def spell(flag: re.Match[str]) -> str:
        off, name, value = flag.groups()
        setting = name.replace("-", "_")
        if value:
            setting += f' = "{value}"'
        elif off:
            setting += " = false"
        return f"{setting} under [ingest]"

    options = re.sub(r"(?<![\w-])--(no-)?([a-z]+(?:-[a-z]+)*)(?:=(\w+))?", spell, message)
    first, mark, others = options.partition(" under [ingest]")
    return first + mark + others.replace(" under [ingest]", " there")


def _read_table(kind: Callable[..., Any], values: Any, prefix: str) -> Any:
    """Read a table of the file as its dataclass."""
    if not isinstance(values, dict):
        raise UsageError(f"{prefix}: must be a table")
    return kind(**checked(cast(type, kind), values, prefix, lambda field: f"{prefix} {field.name}"))


def _read_sources(values: Any, path: str) -> tuple[RawSource, ...]:
    """Read the tables [[source]], or raise UsageError about what is wrong in one."""
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise UsageError(f"{path}: source: write a table [[source]] for each")
    allowed = {*names_tagged(IngestConfig, "decides", "reading"), "on_error"}
    sources = []
    for number, table in enumerate(values, 1):
        prefix = f"{path}: [[source]] {number}"
        options = dict(table)
        patterns = options.pop("patterns", None)
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if not patterns or not fits(patterns, Sequence[str]):
            raise UsageError(
                f'{prefix}: needs patterns of its files, such as patterns = ["blog/*"]'
            )
        checked(IngestConfig, options, prefix)
        for name in options:
            if name not in allowed:
                raise UsageError(
                    f"{prefix}: {name} holds for the whole corpus; set it under [ingest]"
                )
        sources.append(RawSource(tuple(patterns), options))
    return tuple(sources)


def _check(config: Config, path: Path) -> None:
    """Raise UsageError for settings that retrain cannot work with."""
    for name in names_tagged(IngestConfig, "set_by_retrain"):
        if name in config.ingest:
            raise UsageError(f"{path}: {name} in [ingest] is set by retrain itself; leave it out")
    for group in config.group_names:
        try:
            make_options(append=True, **config.ingest_options(group))
        except InputError as e:
            raise e.reworded(f"{path}: [ingest]: {in_words_of_config(str(e))}") from None
    algo = config.train.algo
    axis = None if algo == "auto" else engine_facts(algo).topics_axis
    if axis:
        raise UsageError(
            f'{path}: algo = "{algo}": its topics are the {axis} and keep their names, so there '
            f"is nothing to match from version to version; use `topics ingest --append` and "
            f"`topics update`"
        )
    _check_folders(config, path)


def _check_folders(config: Config, path: Path) -> None:
    """Raise UsageError if the raw files and the folder of the retrain overlap."""
    raw = Path(os.path.realpath(config.raw))
    own_folder = Path(os.path.realpath(config.folder))
    if raw == own_folder or raw in own_folder.parents:
        raise UsageError(
            f"{path}: raw = {config.raw}: holds the folder of the retrain; new files need a "
            f"folder of their own"
        )
    for place in (Path(os.path.realpath(own_folder / name)) for name in OWN_FOLDERS):
        if place == raw or place in raw.parents or raw in place.parents:
            raise UsageError(
                f"{path}: raw = {config.raw}: {place} is retrain's own; give new files another "
                f"folder"
            )
    for folder in (raw, *raw.parents):
        kind = kind_of(folder)
        if kind not in (None, "retrain"):
            raise UsageError(
                f"{path}: raw = {config.raw}: {folder} is {KINDS[kind]}; give new files another "
                f"folder"
            )
