"""``topicstream.export_model`` and ``topicstream.import_model``: the library twins of ``topics export`` and ``topics import``."""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, TopicsError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.exchange.common import Imported, checked_words, save_model
from topicstream.exchange.config import ExportConfig, ImportConfig
from topicstream.exchange.formats import find_format
from topicstream.files import owned
from topicstream.files.durable import exchange_folders, lock
from topicstream.files.outputs import check_output
from topicstream.files.ownership import check_place, refuse_strangers
from topicstream.model.edits import View, seen, view_of
from topicstream.model.manifest import odd_among
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured

HELD_BYTES = 128 << 20
"""Of a table that is held while documents are exported."""


@configured(ExportConfig)
def export_model(config: ExportConfig) -> dict[str, Any]:
    """Write a model, its documents' topics, or its corpus in another program's format; returns the summary.

    The formats stand in ``topicstream.exchange.formats.FORMATS`` (``topics export --help`` lists them). Merged and dropped
    topics are written as they are shown, in that order, with their labels where the format has room.  The table is read from
    disk in parts, documents are streamed.  Raises InputError, StoreError; TopicsError when ``out`` exists and not ``force``.
    """
    model, corpus, force, edits = config.model, config.corpus, config.force, config.edits
    if config.out is None:
        raise UsageError("--out: say where to write")
    path, began = Path(config.out), time.perf_counter()
    kind = find_format(config.format, path, "out")
    opened: Any = None
    if "model" in kind.of:
        # with documents every block gathers rows: a table that is small is held
        limit = -1 if kind.of == "model" else HELD_BYTES
        opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=limit)
    view = view_of(opened) if edits and opened is not None and kind.name != "mallet-state" else None
    if view is not None and kind.of == "model":
        opened = _as_shown(opened, view)
    store: Any = None
    if "corpus" in kind.of:
        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        if opened is not None:
            strangers(opened, store)
    if kind.files:
        if path.exists() and not path.is_dir():
            raise TopicsError(f"{path}: is a file; {kind.name} is several files, give a folder")
        for name in kind.files:  # all of them, before the first is written
            check_output(path / name, "--out", force=force)
        path.mkdir(parents=True, exist_ok=True)
    elif path.is_dir():
        raise TopicsError(f"{path}: is a folder; {kind.name} is one file")
    try:
        theirs = config.of_format() | (
            {"edits": edits} if kind.of == "model and corpus" and kind.name != "mallet-state" else {}
        )
        more = kind.code.write(opened, store, path, force=force, **theirs)
    except TypeError as e:
        if "unexpected keyword" in str(e):
            raise UsageError(f"--format {kind.name}: takes no option {str(e).split(chr(39))[1]!r}") from None
        raise
    files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")] if kind.files else [path]
    size, seconds = sum(p.stat().st_size for p in files), time.perf_counter() - began
    return {
        "format": kind.name,
        "out": str(path),
        **(more or {}),
        "bytes": size,
        "seconds": seconds,
        "megabytes_per_second": size / 1e6 / max(seconds, 1e-9),
        **({"edited": True} if view is not None and not view.plain else {}),
    }


def _as_shown(model: TopicModel, view: View) -> TopicModel:
    """The model as its edits show it, with their labels."""
    shown = copy.copy(seen(model, view))
    names = {str(j): view.labels[i] for j, i in enumerate(view.ids) if i in view.labels}
    shown.manifest = {**shown.manifest, **({"labels": names} if names else {})}
    return shown


@configured(ImportConfig)
def import_model(config: ImportConfig) -> dict[str, Any]:
    """Read another program's model into the folder ``model``, where it is shown, scored, compared, inferred with and
    started from (``train --start warm --warm``) like one of ours; returns the summary.

    Without a tokenizer (and where the file does not say) text is parted into words by the default rules, without stop words.

    Raises InputError (one line: file, what is wrong), TopicsError when ``model`` exists and not ``force``.
    """
    source, folder, force, began = Path(config.path), Path(config.model), config.force, time.perf_counter()
    kind = find_format(config.format, source, "in")
    if not source.exists():
        raise InputError(f"{source}: no such file or folder")
    for part in [source, *(source / name for name in kind.files)]:
        if part.exists() and not (part.is_file() or part.is_dir()):
            raise InputError(f"{part}: no regular file (a pipe, a socket or a device)")
    if kind.name == "mallet-doc-topics":  # documents' topics make no model: they become a table
        return {"format": kind.name, **kind.code.to_parquet(source, folder, force=force)}
    if (folder / "manifest.json").exists() and not force:
        raise TopicsError(f"{folder}: exists; --force replaces it")
    recipe, said = _recipe(config.tokenizer)
    listed = _listed(config.words)
    check_place(folder, "--model", [source] if source.is_file() else [])
    found = kind.code.read(source, words=listed, alpha=config.alpha, beta=config.beta)
    manifest = _manifest(kind.name, source, found, recipe)
    with lock(folder, "importing into", kind="model"), ExitStack() as stack:
        target = folder
        if (folder / "manifest.json").exists():  # written beside, and then exchanged: nothing of the old model stays
            refuse_strangers(folder, "model")
            target = folder.with_name(folder.name + ".import")
            owned.remove(target, "model")  # of an import that was killed
            stack.enter_context(lock(target, "importing into", kind="model"))
        save_model(target, found, manifest)
        if target != folder:
            exchange_folders(target, folder)
            owned.remove(target, "model")
    notes = list(found.notes)
    if recipe is None and not found.about.get("tokenizer"):
        notes.append(f"raw text will be read by the default tokenizer ({said}); --tokenizer names a store or model")
    return {
        "format": kind.name,
        "model": str(folder),
        "topics": found.phi.shape[1],
        "words": len(found.words),
        "notes": notes,
        "seconds": time.perf_counter() - began,
    }


def _manifest(format: str, source: Path, found: Imported, recipe: Any) -> dict[str, Any]:
    """What the imported model's manifest says of its origin."""
    manifest = {
        "engine": "imported",
        "cites": f"imported from {format}",
        "options": {},
        "imported": {"format": format, "from": source.name, **found.about.get("imported", {})},
        "passes": 0,
        **{k: v for k, v in found.about.items() if k != "imported"},
    }
    if (odd := odd_among(manifest)) is not None:
        raise InputError(f"{source}: what it says of {odd} cannot be; nothing was imported")
    if recipe is not None or not manifest.get("tokenizer"):
        manifest["tokenizer"] = recipe if recipe is not None else _plain_recipe()
    return manifest


def _recipe(given: str | Path | None) -> tuple[Any, str]:
    if given is None:
        return None, "no stop words"
    folder = Path(given)
    try:
        manifest = Corpus.open(folder).manifest
    except StoreError:
        manifest = TopicModel.open(folder, memory_limit=-1).manifest
    if not manifest.get("tokenizer"):
        raise InputError(f"--tokenizer {folder}: was made from counts and has no tokenizer")
    return manifest["tokenizer"], ""


def _plain_recipe() -> Any:
    from topicstream.tokens.recipe import Recipe

    return Recipe(stopwords=(), stopwords_from="none", min_length=1, numbers=True).to_json()


def _listed(words: Any) -> Any:
    if words is None or not isinstance(words, (str, Path)):
        return None if words is None else checked_words(words, "words")
    from topicstream.ingestion.parsing.vocabulary import read_vocabulary_file

    path = Path(words)
    if not path.is_file():
        raise InputError(f"--words {path}: no such file")
    return checked_words(read_vocabulary_file(path), str(path))
