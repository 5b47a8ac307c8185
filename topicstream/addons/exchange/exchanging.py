"""Export and import of models: ``topicstream.export_model`` and ``import_model``.

They are the library twins of ``topics export`` and ``topics import``.
"""

from __future__ import annotations

import copy
import os
import time
from contextlib import ExitStack
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from msgspec.structs import replace

from topicstream.addons.exchange.config import ExportConfig, ImportConfig
from topicstream.addons.exchange.formats import find_format
from topicstream.base.errors import InputError, NotOurs, StoreError, TopicsError, UsageError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import exchange_folders, lock
from topicstream.base.files.inventory import refuse_unlisted
from topicstream.base.files.marker import kind_of
from topicstream.base.files.outputs import check_output, check_place, folder_named, written_together
from topicstream.base.files.ownership import claim
from topicstream.base.options import configured
from topicstream.base.shown import Summary
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.evaluation.keys import describe_mismatch
from topicstream.ingestion.parse.counts import read_vocabulary_file
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.edits import View, apply_view, view_of
from topicstream.model.exchange import Export, Format, Given, Imported, check_words, read_prior
from topicstream.model.manifest import Origin, origin_of
from topicstream.model.store import ModelWriter
from topicstream.model.topic_model import TopicModel

HELD_BYTES = 128 << 20
"""Bytes of a table that may be in memory while documents are exported."""


@configured(ExportConfig)
def export_model(config: ExportConfig) -> Summary:
    """Write a model, its documents' topics, or its corpus in another program's format.

    ``topics export --help`` lists the formats. Merged and dropped topics are written as they are
    shown, in that order, with their names where the format has room. The table is read from disk
    in parts, and documents are streamed.

    Returns
    -------
    dict
        format, out, topics, words, bytes, seconds; edited (topics were merged or dropped) and
        topic_ids (the number that `topics show` prints for each topic of a file that counts its
        topics from 0) where it is so.

    Raises
    ------
    InputError
        For an unknown format, or one that needs a corpus where none is given.
    StoreError
        For a missing or damaged model or store.
    TopicsError
        Where ``out`` exists, without ``force``.

    Examples
    --------
    >>> summary = topicstream.export_model("model", "phi.parquet")
    >>> summary["topics"]
    4
    """
    if config.out is None:
        raise UsageError("--out: name the file or folder to write")
    path = Path(config.out)
    began = time.perf_counter()
    kind = find_format(config.format, path, "write")
    options = _format_options(config, kind)
    opened: Any = None
    view = None
    if "model" in kind.made_of:
        # with documents every block gathers rows: a table that is small is held
        limit = -1 if kind.made_of == "model" else HELD_BYTES
        opened = (
            config.model
            if isinstance(config.model, TopicModel)
            else TopicModel.open(config.model, memory_limit=limit)
        )
        view = view_of(opened, edits=config.edits and kind.edited)
    store: Any = None
    if "corpus" in kind.made_of:
        store = config.corpus if isinstance(config.corpus, Corpus) else Corpus.open(config.corpus)
        if opened is not None:
            describe_mismatch(opened, store)
    existed = path.exists()
    _check_place(kind, path, config.force)
    model = _apply_edits(opened, view) if view is not None and kind.made_of == "model" else opened
    numbers = view.ids if view is not None else []
    job = Export(model, store, path, config.force, config.edits, numbers, **options)
    try:
        with written_together():
            more = resolve_name(kind.write)(job)
    except BaseException:
        if (kind.files or kind.folder) and not existed and path.is_dir():
            owned.remove_unused(path, keep=False)
        raise
    size = _count_bytes(path)
    seconds = time.perf_counter() - began
    summary = {"format": kind.name, "out": str(path), **more}
    if view is not None and "topics" in more:
        background = _apply_edits(opened, view).background_topic
        if background is not None:
            summary["background_topic"] = background
    summary["bytes"] = size
    summary["seconds"] = seconds
    summary["megabytes_per_second"] = size / 1e6 / max(seconds, 1e-9)
    if view is not None and view.edited:
        summary["edited"] = True
    if not kind.numbered and numbers != list(range(len(numbers))):
        summary["topic_ids"] = numbers
    return Summary(summary)


def _format_options(config: ExportConfig, kind: Format) -> dict[str, Any]:
    """Return the options of a format that are set, or raise UsageError for one of another."""
    values = {name: getattr(config, name) for name in ("top", "words", "into")}
    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if name not in kind.options:
            raise UsageError(f"--format {kind.name}: has no option {name!r}")
    return options


def _count_bytes(path: Path) -> int:
    """Count the bytes of a file, or of the files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    files = [p for p in path.rglob("*") if p.is_file() and not p.name.startswith(".")]
    return sum(p.stat().st_size for p in files)


def _check_place(kind: Format, path: Path, force: bool) -> None:
    """Check, and create if needed, the folder of a format of several files.

    Raises
    ------
    TopicsError
        If one of the files may not be written.
    """
    if kind.folder:
        _check_folder(kind, path, force)
        return
    if not kind.files:
        if path.is_dir():
            raise TopicsError(f"{path}: is a folder, but {kind.name} is a single file; name a file")
        return
    if path.exists() and not path.is_dir():
        raise TopicsError(
            f"{path}: is a file, but {kind.name} consists of several files; name a folder"
        )
    not_ours = path.exists() and kind_of(path) is None
    for place in [path / name for name in kind.files] if path.exists() else [path]:
        check_output(place, "--out", force=force)
        if not_ours and os.path.lexists(place):
            raise NotOurs(
                f"{place}: is not of an export of ours; move it away or name a new folder"
            )
    if not path.exists() or not any(path.iterdir()):
        claim(path, "export")


def _check_folder(kind: Format, path: Path, force: bool) -> None:
    """Check a folder whose files only the format knows.

    Raises
    ------
    TopicsError
        If it is there, and not an export of ours that may be written again.
    """
    is_of_topics = kind.made_of == "model"  # else the format makes the folder itself, anew
    if not os.path.lexists(path):
        check_output(path, "--out", force=force)
        if is_of_topics:
            claim(path, "export")
        return
    if not is_of_topics or not path.is_dir() or path.is_symlink() or kind_of(path) != "export":
        raise NotOurs(f"{path}: exists, and --force does not replace it; name a new folder")


def _apply_edits(model: TopicModel, view: View) -> TopicModel:
    """Apply a model's edits, with the names that they give."""
    shown = copy.copy(apply_view(model, view))
    labels = {str(j): view.label_of(i) for j, i in enumerate(view.ids)}
    names = {j: name for j, name in labels.items() if name is not None}
    if names:
        shown.manifest = origin_of(shown.manifest, topic_names=names)
    return shown


@configured(ImportConfig)
def import_model(config: ImportConfig) -> Summary:
    """Read another program's model into the folder ``model``.

    It is shown, scored, compared, inferred with and started from (``train --start warm --warm``)
    like one of ours. Without a tokenizer (and where the file does not say) text is split into
    words by the default rules, without stop words.

    Returns
    -------
    dict
        format, model, topics, words, notes, seconds.

    Raises
    ------
    InputError
        Naming the file and what is wrong with it.
    TopicsError
        Where ``model`` exists, without ``force``.

    Examples
    --------
    >>> _ = topicstream.export_model("model", "mallet", format="mallet")
    >>> topicstream.import_model("mallet", "imported", tokenizer="corpus.zarr")["topics"]
    4
    """
    source = Path(config.path)
    folder = folder_named(config.model)
    began = time.perf_counter()
    kind = find_format(config.format, source, "read")
    _check_source(source, kind)
    if kind.reads_table:  # topics of documents make no model
        written = resolve_name(kind.read)(source, folder, force=config.force)
        return Summary({"format": kind.name, **written})
    if (folder / "manifest.json").exists() and not config.force:
        raise TopicsError(f"{folder}: exists; --force replaces it")
    recipe = _read_tokenizer(config.tokenizer)
    overrides = Given(_read_words(config.words), config.alpha, config.beta)
    check_place(folder, "--model", [source] if source.is_file() else [])
    imported = resolve_name(kind.read)(source, overrides)
    manifest = _describe_origin(kind.name, source, imported, recipe)
    with lock(folder, "importing into", kind="model"), ExitStack() as stack:
        target = folder
        if (folder / "manifest.json").exists():
            # written beside it and then exchanged, so that nothing of the old model stays
            refuse_unlisted(folder)
            target = folder.with_name(folder.name + ".import")
            owned.remove(target, "model")  # of an import that was killed
            stack.enter_context(lock(target, "importing into", kind="model"))
        save_model(target, source, imported, overrides, manifest)
        if target != folder:
            exchange_folders(target, folder)
            owned.remove(target, "model")
    notes = list(imported.notes)
    if recipe is None and not imported.about.tokenizer:
        notes.append(
            "raw text will be read by the default tokenizer (no stop words); --tokenizer names "
            "a store or model"
        )
    summary = {
        "format": kind.name,
        "model": str(folder),
        "topics": imported.phi.shape[1],
        "words": len(imported.words),
        "notes": notes,
        "seconds": time.perf_counter() - began,
    }
    return Summary(summary)


def _check_source(source: Path, kind: Format) -> None:
    """Raise InputError if there is nothing to read, or no regular file."""
    if not source.exists():
        raise InputError(f"{source}: no such file or folder")
    for part in [source, *(source / name for name in kind.files)]:
        if part.exists() and not (part.is_file() or part.is_dir()):
            raise InputError(f"{part}: not a regular file (a pipe, a socket or a device)")


def save_model(
    folder: Path, source: Path, imported: Imported, overrides: Given, manifest: Origin
) -> None:
    """Write an imported model into its folder.

    Raises
    ------
    InputError
        If its numbers are invalid.
    """
    words, topics = imported.phi.shape
    if not words or not topics:
        raise InputError(f"{source}: holds no {'topic' if words else 'word'}")
    if words != len(imported.words):
        raise InputError(
            f"{source}: topics over {words:,} words, but {len(imported.words):,} words are "
            f"named; nothing was imported"
        )
    if not (np.isfinite(imported.phi).all() and imported.phi.min() >= 0):
        raise InputError(
            f"{source}: a number in the topics is negative or not finite; nothing was imported"
        )
    alpha_given = 1.0 / topics if imported.alpha is None else imported.alpha
    alpha = (
        read_prior(alpha_given, topics, f"{source}: alpha")
        if overrides.alpha is None
        else read_prior(overrides.alpha, topics, "--alpha")
    )
    beta = (
        read_prior(imported.beta, 1, f"{source}: beta")
        if overrides.beta is None
        else read_prior(overrides.beta, 1, "--beta")
    )
    if not imported.phi.any() and not beta[0] > 0:
        raise InputError(f"{source}: every count is zero; nothing was imported")
    vocabulary = Vocabulary.from_words(imported.words, imported.counts, imported.df)
    seeds = manifest.seed_counts(vocabulary, topics)
    rows = imported.phi if seeds is None else np.maximum(seeds.added(0, imported.phi, -1.0), 0.0)
    with ModelWriter(folder, words, topics) as writer:
        writer.write_rows(0, np.ascontiguousarray(rows, np.float32))
        writer.commit(manifest, vocabulary, alpha, float(beta[0]))


def _describe_origin(format: str, source: Path, imported: Imported, recipe: Any) -> Origin:
    """Describe the origin of an imported model."""
    plain = Recipe(stopwords=(), stopwords_from="none", min_length=1, numbers=True).to_json()
    return replace(
        imported.about,
        engine="imported",
        cites=f"imported from {format}",
        passes=0,
        imported={"format": format, "from": source.name, **(imported.about.imported or {})},
        tokenizer=recipe or imported.about.tokenizer or plain,
    )


def _read_tokenizer(place: str | Path | None) -> Any:
    """Read the tokenizer of a store or a model, None without a path.

    Raises
    ------
    InputError
        If it was ingested from counts.
    """
    if place is None:
        return None
    folder = Path(place)
    try:
        tokenizer = Corpus.open(folder).manifest.tokenizer
    except StoreError:
        tokenizer = TopicModel.open(folder, memory_limit=-1).manifest.tokenizer
    if not tokenizer:
        raise InputError(f"--tokenizer {folder}: was ingested from counts and has no tokenizer")
    return tokenizer


def _read_words(words: Any) -> Any:
    """Read the user's words, from a file if they are a path, or return None without any."""
    if not isinstance(words, (str, Path)):
        return None if words is None else check_words(words, "words")
    if not Path(words).is_file():
        raise InputError(f"--words {words}: no such file")
    return check_words(read_vocabulary_file(Path(words)), words)
