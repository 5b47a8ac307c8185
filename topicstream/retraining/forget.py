"""``topics forget``: remove documents from everything that this program has written.

From the store go the cells of a document, its row of the documents' table (id, source, list
columns, date, the user's columns), mentions in other documents, names and words that only it had
(ids of names and words stay), and files of older generations. From models go the block state and
checkpoints of their runs, and tables over documents, which contain its topics. At the end the
store's table of documents is read again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, StoreError, TopicsError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock, sync, write_bytes
from topicstream.base.files.marker import kind_of
from topicstream.base.files.outputs import folder_named
from topicstream.base.files.plain import refuse_links
from topicstream.base.progress import Progress, ProgressLike, listener
from topicstream.base.records import write_record
from topicstream.corpus.documents import read_documents
from topicstream.corpus.forgotten import read_forgotten, write_forgotten
from topicstream.corpus.manifest import Sources, StoreManifest, store_file
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import outdated_files, remove_stale_files
from topicstream.corpus.vocabulary import Vocabulary, spellings
from topicstream.ingestion.open import inputs_record
from topicstream.ingestion.open.inputs_record import file_of
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary, write_words
from topicstream.ingestion.upkeep.rewrite import Removal, Rewrite, open_for_writing
from topicstream.model.store import drop_tables
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.config import load_config
from topicstream.retraining.orphan_words import blank_words, find_orphan_words, read_common_words
from topicstream.retraining.publish import published_versions, version_path
from topicstream.retraining.state import JOURNAL, STATE, read_retrain_state
from topicstream.training.state.record import RunRecord

STATE_FOLDERS = ("work", "checkpoints")
STATE_FILES = ("finished.json", "training.json")
SHOWN = 20


@dataclass
class _Matches:
    """Rows of the documents' table with one of the ids.

    Attributes
    ----------
    numbers
        Numbers of the documents, int64[n], ascending.
    ids
        The ids that there are.
    sources
        Sources of the documents that have one.
    """

    numbers: np.ndarray
    ids: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)


class Forgotten(TypedDict):
    """The result of ``forget``."""

    lifted: int
    corpus: str
    documents: int
    rows: int
    cells: int
    words_left: int
    not_found: list[str]
    runs: list[str]
    left: list[dict[str, str]]
    elsewhere: list[str]


def forget(
    ids: str | Iterable[str],
    corpus: str | Path = "corpus.zarr",
    *,
    models: Sequence[str | Path] = (),
    lift: bool = False,
    progress: ProgressLike = None,
) -> Forgotten:
    """Remove documents permanently from a store and from the state of its models.

    The ids go onto a list of the store, as keyed hashes, so that later ingests into it leave their
    documents out. Block state and checkpoints of the runs are removed, so that a run which is
    continued starts every block. The store is compacted on the way. Called again, it finishes an
    interrupted call; an unknown id is no error.

    Parameters
    ----------
    ids
        The ids, or a file with an id a line.
    corpus
        The store. In the folder of a retrain, that folder's versions, runs and state are cleaned,
        too.
    models
        Folders of models and runs.
    lift
        Remove nothing, but take the ids off the list, so that later ingests read their documents.
    progress
        A progress listener; False: silent.

    Returns
    -------
    dict
        ``lifted`` (ids taken off the list), ``documents``, ``rows`` (of the table: a replaced
        document has several), ``cells``, ``not_found`` (ids), ``runs`` (folders whose state was
        removed), ``words_left`` (words that only these documents had, and that stay because the
        vocabulary was given as a file), ``left`` (files of earlier states and rows that are left,
        as ``file`` and ``what``), ``elsewhere`` (sentences about places that are not reached).

    Raises
    ------
    InputError
        If a model is of another corpus.
    StoreError
        If the store or a model is damaged.
    Busy
        If another command writes to one of them.
    DoesNotFit
        If memory or disk is too small.
    TopicsError
        If an ingest or a retrain cycle is unfinished.

    Examples
    --------
    >>> topicstream.forget(["doc-7", "doc-x"], "corpus.zarr", models=["model"], progress=False)[
    ...     "not_found"
    ... ]
    ['doc-x']
    """
    distinct = sorted({ids} if isinstance(ids, str) else set(ids))
    if not distinct or not all(isinstance(i, str) and i for i in distinct):
        raise InputError("give the ids of documents to forget; an id cannot be empty")
    store = folder_named(corpus)
    Corpus.open(store, dense=True)
    home = (
        store.parent
        if (store.parent / "versions").is_dir() and (store.parent / STATE).is_file()
        else None
    )
    models = [model for model in models if not _is_version_of(Path(model), home, store)]
    for model in models:
        if not trained_on(Path(model), store):
            raise InputError(
                f"{model}: has another vocabulary than {store}, so it was not trained on it; "
                f"leave it out"
            )
    runs = _list_runs(models, home)
    spelt = sorted(set(chain.from_iterable(map(spellings, distinct))))
    with _lock_all(store, runs, home) as base:
        if lift:
            return _lift_ids(spelt, base, home)
        forgotten = _forget(spelt, base, runs, home, listener(progress))
    missing = set(forgotten["not_found"])
    forgotten["not_found"] = [i for i in distinct if missing.issuperset(spellings(i))]
    return forgotten


def _lift_ids(ids: list[str], base: Corpus, home: Path | None) -> Forgotten:
    """Take ids off the lists of forgotten documents."""
    lifted = 0
    for folder in (base.path, *([home] if home is not None else [])):
        forgotten = read_forgotten(folder)
        without = forgotten.without(ids)
        lifted = max(lifted, len(forgotten.hashes) - len(without.hashes))
        write_forgotten(folder, without)
    inputs_record.forget_files(base.path, set())  # the same ingest has another result now
    return {
        "lifted": lifted,
        "corpus": str(base.path),
        "documents": 0,
        "rows": 0,
        "cells": 0,
        "words_left": 0,
        "not_found": [],
        "runs": [],
        "left": [],
        "elsewhere": [],
    }


@contextlib.contextmanager
def _lock_all(store: Path, runs: Sequence[Path], home: Path | None) -> Iterator[Corpus]:
    """Lock everything that is changed, and yield the store.

    Raises
    ------
    Busy
        If another command writes to one of them.
    TopicsError
        If an ingest or a retrain is unfinished.
    """
    with contextlib.ExitStack() as stack:
        if home is not None:
            stack.enter_context(lock(home, "retraining", kind="retrain"))
            if (home / JOURNAL).exists():
                raise TopicsError(f"{home}: a retrain is unfinished; run it again first")
        for run in runs:
            stack.enter_context(lock(run, "training", kind="model"))
            refuse_links(run)
        base = stack.enter_context(open_for_writing(store))
        if home is not None:
            owned.remove(home / "incoming", "incoming")  # of a scan that was killed
        yield base


def trained_on(model: Path, store: str | Path) -> bool:
    """Tell whether most of a model's words are in a store, and in the store's order.

    Words that the store has gained or lost since the training do not change that. A folder without
    a model counts as one of the store.
    """
    if not (model / "manifest.json").exists():
        return True
    corpus = Corpus.open(store, dense=True)
    opened = TopicModel.open(model, memory_limit=-1, dense=True)
    corpus_ids = Vocabulary.read(corpus.file("vocab")).find(opened.vocabulary.words)
    corpus_ids = corpus_ids[corpus_ids >= 0]
    return bool(2 * len(corpus_ids) >= opened.n_words and (np.diff(corpus_ids) > 0).all())


def _is_version_of(model: Path, home: Path | None, store: Path) -> bool:
    """Tell whether a model is a published version of the folder, whose versions are all cleaned.

    Raises
    ------
    InputError
        If it is a version of another folder, which its own store stands for.
    """
    place = model.resolve()
    if kind_of(place) != "version":
        return False
    if home is not None and place.parent == (home / "versions").resolve():
        return True
    corpus = place.parent.parent / "corpus.zarr"
    raise InputError(
        f"{model}: is a published version of {place.parent.parent}, not a model of {store}; leave "
        f"out --model and name --corpus {corpus}, which cleans all versions there"
    )


def _list_runs(models: Sequence[str | Path], home: Path | None) -> list[Path]:
    """List the folders that may contain the state of a training."""
    folders: list[Path] = []
    for model in map(folder_named, models):
        if not ((model / "manifest.json").exists() or (model / "training.json").exists()):
            raise StoreError(f"{model}: no model here; name the folder of one, or leave it out")
        folders.append(model.resolve())
        update = model.with_name(model.name + ".update").resolve()
        if update.is_dir():
            folders.append(update)
    if home is not None and (home / "runs").is_dir():
        folders += sorted(p.resolve() for p in (home / "runs").iterdir() if p.is_dir())
    return sorted(set(folders))


def _forget(
    ids: list[str], base: Corpus, runs: list[Path], home: Path | None, progress: Progress
) -> Forgotten:
    """Remove the documents of some ids, as spelt in the store."""
    store = base.path
    documents = _find_rows(base, pa.array(ids, pa.large_string()))
    versions = [version_path(home, n) for n in published_versions(home)] if home is not None else []
    cleared: list[Path] = []
    folders = [store] if home is None else [store, home]
    manifest = base.manifest
    cells = 0
    words_left = 0
    if len(documents.numbers):
        before = base.n_cells + base.part(True).cells

        def clear() -> None:
            """List the ids and clear the models, before the store is committed."""
            list_forgotten(folders, ids)
            clear_all(runs, versions, base, cleared)

        manifest, words_left = _rewrite_store(base, documents, ids, progress, clear)
        cells = before - sum(part.cells for part in manifest.parts.values())
    else:
        list_forgotten(folders, ids)
        cleared += [run for run in runs if _clear_run(run, base, always=False)]
    remove_stale_files(store, manifest, at_once=True)
    elsewhere = _describe_unreached(documents, store, home, runs, words_left)
    inputs_record.forget_files(store, set(ids))
    if home is not None:
        elsewhere += _forget_files(home, set(ids))
    return {
        "lifted": 0,
        "corpus": str(store),
        "documents": len(documents.ids),
        "rows": len(documents.numbers),
        "cells": cells,
        "words_left": words_left,
        "not_found": [i for i in ids if i not in documents.ids],
        "runs": [str(run) for run in cleared],
        "left": _list_remains(store, manifest, pa.array(ids, pa.large_string())),
        "elsewhere": elsewhere,
    }


def _list_remains(store: Path, manifest: StoreManifest, ids: pa.Array) -> list[dict[str, str]]:
    """List files that no manifest names, and rows of the ids in those that it names."""
    remains: list[dict[str, str]] = [
        {"file": str(path), "what": "a file of an earlier state"}
        for path in outdated_files(store, manifest)
    ]
    committed = Corpus.open(store, dense=True)
    rows = len(_find_rows(committed, ids).numbers)
    if rows:
        remains.append({"file": str(store / "docs"), "what": f"{rows} rows"})
    return remains


def _find_rows(base: Corpus, ids: pa.Array) -> _Matches:
    """Find the rows of the documents, also of those that were replaced or withdrawn before."""
    numbers = [np.zeros(0, np.int64)]
    documents = _Matches(numbers[0])
    for batch_numbers, batch in read_documents(base.path, base.manifest.docs, ["id", "source"]):
        matches = np.flatnonzero(
            pc.is_in(batch["id"].cast(pa.large_string()), value_set=ids).to_numpy(
                zero_copy_only=False
            )
        )
        if len(matches):
            rows = batch.take(pa.array(matches))
            documents.ids |= set(rows["id"].to_pylist())
            documents.sources |= {s for s in rows["source"].to_pylist() if s is not None}
        numbers.append(batch_numbers[matches])
    documents.numbers = np.concatenate(numbers)
    return documents


def list_forgotten(folders: Sequence[Path], ids: Sequence[str]) -> None:
    """List the ids in these folders, so that no later ingest reads their documents again."""
    for folder in folders:
        write_forgotten(folder, read_forgotten(folder).add(ids))


def clear_all(
    runs: Sequence[Path], versions: Sequence[Path], corpus: Corpus, cleared: list[Path]
) -> None:
    """Remove the state of all runs, and the models' tables over documents.

    Runs whose state was removed are added to ``cleared``.
    """
    cleared += [run for run in runs if _clear_run(run, corpus, always=True)]
    for model in (*runs, *versions):
        if (model / "manifest.json").exists():
            drop_tables(model, "documents")


def _clear_run(run: Path, corpus: Corpus, always: bool) -> bool:
    """Remove the state of a run that has seen the documents, and return if it had any.

    The model stays.

    Parameters
    ----------
    run
        The folder of the run.
    corpus
        The store.
    always
        The store had the documents until now, so that every run has seen them. Otherwise only
        runs on an earlier state of the corpus have.
    """
    if not any((run / name).exists() for name in (*STATE_FOLDERS, *STATE_FILES)):
        return False
    record = RunRecord.read(run)
    if not always and record is not None and corpus.has_fingerprint(record.corpus):
        return False
    for name in STATE_FILES:  # first, so that a run cut short here starts over
        owned.remove_file(run / name, missing_ok=True)
    for name in STATE_FOLDERS:
        owned.remove_within(run / name)
    sync(run)
    return True


def _rewrite_store(
    base: Corpus,
    documents: _Matches,
    ids: list[str],
    progress: Progress,
    before: Callable[[], None],
) -> tuple[StoreManifest, int]:
    """Commit the store without the documents.

    Parameters
    ----------
    base
        The store.
    documents, ids
        The rows to remove, and their ids.
    progress
        The progress listener.
    before
        Called when nothing can refuse any more.

    Returns
    -------
    manifest, words_left
        The new manifest, and the number of their words that stay in the user's own vocabulary.
    """
    old = base.manifest
    store = base.path
    generation = old.generation + 1
    removal = Removal(base)
    removal.withdraw(np.setdiff1d(documents.numbers, removal.numbers))
    vocabulary = removal.subtract(TokenVocabulary.read(base.file("vocab")))
    gone = removal.listed
    places = gone[np.isin(gone[:, 0], documents.numbers)]
    orphans = find_orphan_words(base, places, gone, vocabulary.df)
    words_left = int(orphans.sum()) if old.vocabulary.get("fixed") is not None else 0
    if not words_left and not base.width:  # else the words are the user's list, or coordinates
        vocabulary = blank_words(vocabulary, orphans)
    work = Rewrite(base, gone, removal.apply(old.parts, generation))
    work.check_room()
    vocabulary.save(store / f"vocab-{generation:04d}.parquet")
    pruned = f"pruned-{generation:04d}.parquet"
    training = int((places[:, 1] == 0).sum())
    write_words(store / pruned, read_common_words(base.file("pruned"), training))
    files = {k: v for k, v in old.files.items() if k not in ("vocab", "pruned", "rejects")}
    files |= {"vocab": store_file(store, f"vocab-{generation:04d}.parquet")}
    files |= {"pruned": store_file(store, pruned)}
    if "rejects" in old.files:
        name = f"rejects-{generation:04d}.jsonl"
        lines = base.file("rejects").read_bytes().splitlines(keepends=True)
        others = [line for line in lines if not _is_about(line, ids, documents.sources)]
        write_bytes(store / name, b"".join(others))
        files["rejects"] = store_file(store, name)
    first = [s for s in old.sources.first if s not in documents.sources and s not in set(ids)]
    changes: dict[str, Any] = {
        "files": files,
        "sources": Sources(count=old.sources.count, first=first),
        "same_as": [],
    }
    changes["vocabulary"] = old.vocabulary | {"hash": vocabulary.hash}
    manifest = work.commit(progress, changes, pa.array(ids, pa.large_string()), before)
    return manifest, words_left


def _is_about(line: bytes, ids: list[str], sources: set[str]) -> bool:
    """Tell whether a line of the list of rejected records is about one of the documents."""
    text = line.decode("utf-8", "replace")
    return any(i in text for i in (*ids, *sources))


def _forget_files(home: Path, ids: set[str]) -> list[str]:
    """Remove raw files that are a document each from the known files of a retrain.

    A file that still exists stays there, because the next run would ingest it again.

    Returns
    -------
    A sentence for each file that still exists.
    """
    state = read_retrain_state(home)
    raw = _raw_folder(home)
    still_exists = {name: (raw / name).exists() for name in state.files if name in ids}
    if not all(still_exists.values()):
        files = {name: entry for name, entry in state.files.items() if still_exists.get(name, True)}
        write_record(home / STATE, msgspec.structs.replace(state, files=files))
    return [
        f"{raw / name}: the raw file is still there; remove it and run this again"
        for name in still_exists
        if still_exists[name]
    ]


def _raw_folder(home: Path) -> Path:
    """Return the folder of raw files that the configuration in the folder names, or ``raw``."""
    with contextlib.suppress(TopicsError):
        return load_config(home / "retrain.toml").raw
    return home / "raw"


def _describe_unreached(
    documents: _Matches, store: Path, home: Path | None, runs: list[Path], words: int
) -> list[str]:
    """Describe in sentences the places of the documents that are not reached."""
    sentences = []
    find = inputs_record.raw_files(store)
    for source in sorted(documents.sources)[:SHOWN]:
        name = file_of(source)
        raw_file = find(name)
        path = Path(raw_file or name)
        if home is not None and raw_file is None:
            # the source may name a copy below ``incoming``, which is long gone
            folders = [p for p in path.parts if re.fullmatch(r"(new|changed)(\.\d+)?", p)]
            below = path.parts[path.parts.index(folders[0]) + 1 :] if folders else (path,)
            path = _raw_folder(home).joinpath(*below)
        sentences.append(
            f"{path}{source[len(name) :]}: the raw input; ingests into this store leave the "
            f"document out, others take it in again"
        )
    if len(documents.sources) > SHOWN:
        sentences.append(f"{len(documents.sources) - SHOWN} more raw inputs")
    if words:
        sentences.append(
            f"{store}: {words} words that only they had stay in the vocabulary, which was given "
            f"as a file"
        )
    trained = [str(run) for run in runs if (run / "manifest.json").exists()]
    trained += (
        [str(version_path(home, n)) for n in published_versions(home)] if home is not None else []
    )
    if trained:
        sentences.append(
            f"topics of {', '.join(trained)}: learnt from all documents together, with their "
            f"words; to take these ones' part out, "
            "train again (`topics train --force`, `topics retrain --full`)"
        )
    return [
        *sentences,
        "files written by `infer`, `show --theta` and the like, copies and backups of your own, "
        "other models",
    ]
