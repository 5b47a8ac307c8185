"""The inputs of an ingest: files, folders and standard input, each with its reader."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topicstream.errors import InputError
from topicstream.ingestion.opening.guess import COUNTS, as_asked, guess, guess_source, is_vocab_name
from topicstream.ingestion.opening.names import is_about, is_mark, partitions
from topicstream.ingestion.opening.source import Source, check_encoding, plain_suffix
from topicstream.ingestion.parsing.reader import Reader, reader_named
from topicstream.ingestion.read_options import ReadOptions

LOOKED_AT = 100
"""Files of one suffix in a folder whose content is looked at before the suffix is trusted."""
FILES = "files"
ASIDE = ("vocab", "empty", "about")
"""What is no format of a folder's documents."""


@dataclass
class Tree:
    """A folder given by the user, after a first walk.

    format: what its files are; vocab: leave vocabulary files out; about: leave out files about the folder (README, LICENSE);
    notes: what is told of it.
    """

    root: Path
    name: str
    format: str
    vocab: bool
    prefix: str = ""
    size: int = 0
    about: bool = True
    notes: Counter[str] = field(default_factory=Counter)


class TreeSource(Source):
    """The text files of a folder tree as one source: ``files`` yields (path, key, size) in sorted order."""

    def __init__(self, tree: Tree, options: ReadOptions) -> None:
        super().__init__(tree.name, tree.root, key=tree.prefix.rstrip("/") or ".", encoding=options.encoding)
        self.tree, self.size, self.done = tree, tree.size, 0
        self.options = options

    def files(self) -> Iterator[tuple[str, str, int]]:
        """Path, key and size of each file."""
        for path, key in kept_files(self.tree, self.options):
            try:
                size = os.stat(path).st_size
            except OSError:
                size = 0  # gone since: the reader will say so
            self.done += size
            yield path, self.tree.prefix + key, size

    def consumed(self) -> int:
        """Bytes of the files handed out so far."""
        return self.done


@dataclass
class Inputs:
    """What ``survey_inputs`` found; ``sources`` may be walked more than once."""

    parts: list[Tree | tuple[str, str, Path | None]]
    options: ReadOptions
    total: int | None = 0
    keys: dict[str, str] = field(default_factory=dict)
    first: dict[str, Source] = field(default_factory=dict)

    def sources(self) -> Iterator[tuple[Reader, Source]]:
        """Reader and source of each input in order."""
        going = not self.options.strict
        encoding = self.options.encoding
        for part in self.parts:
            if isinstance(part, Tree):
                reader = reader_named(part.format)
                notes = part.notes
                if part.format == FILES:
                    tree = TreeSource(part, self.options)
                    tree.notes = notes
                    yield reader, tree
                    continue
                for path, key in kept_files(part, self.options):
                    name = os.path.join(part.name, key)
                    source = Source(name, Path(path), key=part.prefix + key, encoding=encoding, keep_going=going)
                    source.notes, notes = notes, Counter()
                    yield reader, source
            else:
                name, fmt, file = part
                ready = self.first.pop(name, None)
                if ready is None:
                    ready = Source(name, file, key=self.keys[name], encoding=encoding, keep_going=going)
                yield reader_named(fmt), ready


def survey_inputs(paths: Any, options: ReadOptions) -> Inputs:
    """Look at every input once: it exists, its format is known, its size.  Nothing but names and counts is kept."""
    check_encoding(options.encoding)
    if options.format is not None:
        reader_named(options.format)
    given: Sequence[Any] = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputError("no input given; name files, folders or - for standard input")
    names = [os.fspath(p) for p in given]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InputError(f"{twice}: given twice")
    keys = file_keys(names)
    inputs = Inputs([], options)
    for name in names:
        path = None if name == "-" else Path(name)
        if path is not None and not path.exists():
            raise InputError(f"{name}: no such file or folder")
        if path is not None and not (
            path.is_dir() or path.is_file()
        ):  # it is read twice, and a pipe can keep us for ever
            raise InputError(
                f"{name}: no regular file (a pipe, a socket or a device); give a pipe as standard input: -"
            )
        if path is not None and path.is_dir():
            tree = _survey_tree(path, name, options)
            tree.prefix = tree_prefix(name, names)
            inputs.parts.append(tree)
            inputs.total = None if inputs.total is None else inputs.total + tree.size
            continue
        inputs.keys[name] = keys[name]
        source = Source(
            name, path, key=inputs.keys[name], encoding=options.encoding, keep_going=not options.strict
        )
        fmt = options.format or as_asked(guess_source(source, in_folder=False), options)
        if fmt == "lines" and options.format is None and options.split is not None:
            fmt = FILES  # what is to be cut is a whole, as in a folder
        inputs.parts.append((name, fmt, path))
        if path is None:
            inputs.first[name] = source  # its first bytes were looked at and cannot be read again
            inputs.total = None
        else:
            source.close()
            if inputs.total is not None:
                inputs.total += source.size or 0
    return inputs


def file_keys(names: list[str]) -> dict[str, str]:
    """What each input that is no folder is called in ids and sources: its base name; where several have the same, the path as
    given, and an absolute one from the folder on that all those of the name have in common."""
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault("stdin" if name == "-" else Path(name).name, []).append(name)
    keys = {}
    for base, those in same.items():
        if len(those) == 1:
            keys[those[0]] = base
            continue
        whole = [n for n in those if os.path.isabs(n)]
        start = os.path.commonpath([os.path.dirname(n) for n in whole]) if whole else ""
        short = {n: os.path.relpath(n, start) if n in whole else n for n in those}
        keys.update(short if len(set(short.values())) == len(short) else {n: n for n in those})
    return keys


def tree_prefix(name: str, names: list[str]) -> str:
    """What the keys of a folder's files begin with: its name, where several folders are given."""
    several = sum(n != "-" and os.path.isdir(n) for n in names) > 1
    return Path(name).resolve().name + "/" if several else ""


def input_places(names: list[str]) -> list[str]:
    """What paths of files lose when they are stored: the places of the inputs, as given and absolute."""
    keys, found = file_keys([n for n in names if n != "-" and not os.path.isdir(n)]), set()
    for name in names:
        if name == "-":
            continue
        whole, key = (name, keys[name]) if name in keys else (os.path.join(name, ""), tree_prefix(name, names))
        found |= {
            p.removesuffix(key)
            for p in (whole, os.path.join(os.path.abspath(name), "") if name not in keys else os.path.abspath(name))
            if p.endswith(key)
        }
    return sorted(found - {""})


def walk(root: Path) -> Iterator[tuple[str, str]]:
    """(path, key) of the regular files below root in sorted order; left out: hidden ones, and what Spark and Hadoop write
    beside the data (``_SUCCESS``, ``*.crc``).  The key is the path below root with forward slashes.

    InputError at a link that leads out of the tree; links to folders within it are passed over, their files are read
    at their own place.
    """
    real = root.resolve()
    stack = [(str(root), "")]
    while stack:
        folder, prefix = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name))
        except OSError as e:
            raise InputError(f"{folder}: cannot be read ({e.strerror}); check its permissions") from None
        folders = []
        for entry in entries:
            if entry.name.startswith(".") or is_mark(entry.name):
                continue
            if entry.is_symlink():
                target = Path(entry.path).resolve()
                if not target.is_relative_to(real):
                    what = "a link that leads out of the folder; copy the file or give its own path"
                    raise InputError(f"{entry.path}: {what}")
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, prefix + entry.name + "/"))
            elif entry.is_file():
                yield entry.path, prefix + entry.name
        stack += reversed(folders)


class _Guesser:
    """Guesses in walking order; after LOOKED_AT files of one suffix that agree the suffix is trusted."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.seen: dict[str, Counter[str]] = {}

    def __call__(self, path: str, name: str, key: str) -> str:
        """What a file is: a format, ``unknown``, or one of ASIDE.  name: for messages; key: below the folder."""
        base = os.path.basename(path)
        if is_vocab_name(base):
            return "vocab"
        if self.options.format is None and is_about(base) and key == base:
            return "about"
        seen = self.seen.setdefault(plain_suffix(base), Counter())
        if seen.total() >= LOOKED_AT and len(seen) == 1:
            return next(iter(seen))
        if os.stat(path).st_size == 0:
            return "empty"
        with Source(name, Path(path), encoding=self.options.encoding, keep_going=True) as source:
            try:
                found = as_asked(guess_source(source, in_folder=True), self.options)
            except InputError:
                found = "unknown"
        seen[found] += 1
        return found


def _survey_tree(root: Path, name: str, options: ReadOptions) -> Tree:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    example: dict[str, str] = {}
    fields: Counter[str] = Counter()
    kept = set(options.meta.values())
    guesser = _Guesser(options)
    for path, key in walk(root):
        found = guesser(path, os.path.join(name, key), key)
        counts[found] += 1
        sizes[found] += os.stat(path).st_size
        example.setdefault(found, key)
        fields.update(set(partitions(key)) - kept)
    total = sum(sizes.values())
    if options.format is not None:
        fmt = options.format
        if fmt != FILES and counts[fmt]:
            return Tree(root, name, fmt, True, size=sizes[fmt])
        return Tree(root, name, fmt, False, size=total)
    formats = [f for f in counts if f not in ASIDE]
    about = bool(formats)
    if not formats and counts:
        formats = [FILES]
    if not formats:
        raise InputError(f"{name}: holds no files to read")
    if "unknown" in formats:
        key = example["unknown"]
        with Source(os.path.join(name, key), root / key, encoding=options.encoding) as source:
            try:
                guess(source.name, source.head(), in_folder=True)
            except InputError as e:
                beside = ", or move it out of the folder" if len(formats) > 1 else ""
                raise InputError(f"{e}{beside}") from None
    if len(formats) > 1:
        what = ", ".join(f"{f} ({example[f]})" for f in sorted(formats))
        raise InputError(f"{name}: holds files of several formats: {what}; give --format or the files themselves")
    fmt = formats[0]
    tree = Tree(root, name, fmt, fmt in COUNTS, size=sizes[fmt] if fmt in COUNTS else total, about=about)
    if about and (out := counts["about"]):
        more = f" and {out - 1} more" if out > 1 else ""
        tree.notes[f"files about the folder left out ({example['about']}{more}; --format {fmt} takes them in)"] += out
    for name, files in sorted(fields.items()):
        tree.notes[f"files with {name}= in their path (--meta {name} keeps it)"] += files
    return tree


def kept_files(tree: Tree, options: ReadOptions) -> Iterator[tuple[str, str]]:
    """The files of a surveyed tree that are read, in order: those of its format."""
    guesser = _Guesser(options)
    for path, key in walk(tree.root):
        found = guesser(path, os.path.join(tree.name, key), key)
        if found == "about" and tree.about:
            continue
        if tree.format == FILES or found == tree.format or (not tree.vocab and found != "vocab"):
            yield path, key
