"""The inputs of an ingest: files, folders and standard input, each with its reader."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topicstream.errors import InputError
from topicstream.ingest.guess import COUNTS, guess, guess_source, is_vocab_name
from topicstream.ingest.reader import Reader, ReadOptions, reader_named
from topicstream.ingest.source import Source, check_encoding, plain_suffix

LOOKED_AT = 100
"""Files of one suffix in a folder whose content is looked at before the suffix is trusted."""
FILES = "files"


@dataclass
class Tree:
    """A folder given by the user, after a first walk.

    format: what its files are; vocab: leave vocabulary files out; stray: links that lead out of the tree.
    """

    root: Path
    name: str
    format: str
    vocab: bool
    prefix: str = ""
    size: int = 0


class TreeSource(Source):
    """The text files of a folder tree as one source: ``files`` yields (path, key, size) in sorted order."""

    def __init__(self, tree: Tree, options: ReadOptions) -> None:
        super().__init__(tree.name, tree.root, key=tree.name, encoding=options.encoding)
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
    """What ``survey`` found; ``sources`` may be walked more than once."""

    parts: list[Tree | tuple[str, str, Path | None]]
    options: ReadOptions
    total: int | None = 0
    keys: dict[str, str] = field(default_factory=dict)
    first: dict[str, Source] = field(default_factory=dict)

    def sources(self) -> Iterator[tuple[Reader, Source]]:
        """Reader and source of each input in order."""
        going = not self.options.stop
        encoding = self.options.encoding
        for part in self.parts:
            if isinstance(part, Tree):
                reader = reader_named(part.format)
                if part.format == FILES:
                    yield reader, TreeSource(part, self.options)
                    continue
                for path, key in kept_files(part, self.options):
                    name = os.path.join(part.name, key)
                    yield reader, Source(name, Path(path), key=part.prefix + key, encoding=encoding, keep_going=going)
            else:
                name, fmt, file = part
                ready = self.first.pop(name, None)
                if ready is None:
                    ready = Source(name, file, key=self.keys[name], encoding=encoding, keep_going=going)
                yield reader_named(fmt), ready


def survey(paths: Any, options: ReadOptions) -> Inputs:
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
    last = Counter("stdin" if n == "-" else Path(n).name for n in names)
    trees = sum(n != "-" and os.path.isdir(n) for n in names)
    inputs = Inputs([], options)
    for name in names:
        path = None if name == "-" else Path(name)
        if path is not None and not path.exists():
            raise InputError(f"{name}: no such file or folder")
        if path is not None and path.is_dir():
            tree = _survey_tree(path, name, options)
            tree.prefix = (path.resolve().name + "/") if trees > 1 else ""
            inputs.parts.append(tree)
            inputs.total = None if inputs.total is None else inputs.total + tree.size
            continue
        key = "stdin" if path is None else path.name
        inputs.keys[name] = key if last[key] == 1 else name
        source = Source(name, path, key=inputs.keys[name], encoding=options.encoding, keep_going=not options.stop)
        fmt = options.format or guess_source(source, in_folder=False)
        inputs.parts.append((name, fmt, path))
        if path is None:
            inputs.first[name] = source  # its first bytes were looked at and cannot be read again
            inputs.total = None
        else:
            source.close()
            if inputs.total is not None:
                inputs.total += source.size or 0
    return inputs


def walk(root: Path) -> Iterator[tuple[str, str]]:
    """(path, key) of the regular files below root in sorted order; hidden ones left out.  The key is the path below
    root with forward slashes.

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
            if entry.name.startswith("."):
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

    def __call__(self, path: str, name: str) -> str:
        base = os.path.basename(path)
        if is_vocab_name(base):
            return "vocab"
        seen = self.seen.setdefault(plain_suffix(base), Counter())
        if seen.total() >= LOOKED_AT and len(seen) == 1:
            return next(iter(seen))
        if os.stat(path).st_size == 0:
            return "empty"
        with Source(name, Path(path), encoding=self.options.encoding, keep_going=True) as source:
            try:
                found = guess_source(source, in_folder=True)
            except InputError:
                found = "unknown"
        seen[found] += 1
        return found


def _survey_tree(root: Path, name: str, options: ReadOptions) -> Tree:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    example: dict[str, str] = {}
    guesser = _Guesser(options)
    for path, key in walk(root):
        found = guesser(path, os.path.join(name, key))
        counts[found] += 1
        sizes[found] += os.stat(path).st_size
        example.setdefault(found, key)
    total = sum(sizes.values())
    if options.format is not None:
        fmt = options.format
        if fmt != FILES and counts[fmt]:
            return Tree(root, name, fmt, True, size=sizes[fmt])
        return Tree(root, name, fmt, False, size=total)
    formats = [f for f in counts if f not in ("vocab", "empty")]
    if not formats and counts:
        formats = [FILES]
    if not formats:
        raise InputError(f"{name}: holds no files to read")
    if len(formats) > 1:
        what = ", ".join(f"{f} ({example[f]})" for f in sorted(formats))
        raise InputError(f"{name}: holds files of several formats: {what}; give --format or the files themselves")
    fmt = formats[0]
    if fmt == "unknown":
        file = root / example[fmt]
        with Source(os.path.join(name, example[fmt]), file, encoding=options.encoding) as source:
            guess(source.name, source.head(), in_folder=True)  # raises, saying why
    return Tree(root, name, fmt, fmt in COUNTS, size=sizes[fmt] if fmt in COUNTS else total)


def kept_files(tree: Tree, options: ReadOptions) -> Iterator[tuple[str, str]]:
    """The files of a surveyed tree that are read, in order: those of its format."""
    guesser = _Guesser(options)
    for path, key in walk(tree.root):
        found = guesser(path, os.path.join(tree.name, key))
        if tree.format == FILES or found == tree.format or (not tree.vocab and found != "vocab"):
            yield path, key
