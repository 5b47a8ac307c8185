"""The inputs of an ingest: files, folders and standard input, each with its reader."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.marker import MARK
from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.ingestion.open.names import (
    IN_PATH,
    TEXT_SUFFIXES,
    guess_source,
    is_about,
    is_mark,
    is_vocab_name,
    matrix_form,
    partitions,
)
from topicstream.ingestion.open.source import Source, check_encoding, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.reader import Reader, reader_named

Places = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Files and folders to read; ``-`` is standard input."""
LOOKED_AT = 100
"""Files of one suffix in a folder whose content is looked at before the suffix is trusted."""
LOOKED_AHEAD = 16
LOOKED_BYTES = 128 << 10
"""Objects at addresses that are read before they are looked at, and the bytes of each."""
FILES = "files"
EACH = "each"
"""Text files, each a document; every file of a folder by its own format."""
READ_BY = {
    "layer": (("h5ad",), "which has no layers"),
    "first_id": (
        ("svmlight", "ldac", "docword", "mtx"),
        "which leaves no choice of the first number",
    ),
    "transpose": (("mtx", "tenx", "npz", "h5ad"), "which is no matrix to transpose"),
    "stride": (("images",), "which has no pixels"),
}
"""Options of few formats, those formats, and what to say of another one."""
TEXTS = ("csv", "jsonl", "lines", "files", "markup", "pubmed", "arrow", "parquet", "mallet", "tar")
MATRICES = ("docword", "ldac", "svmlight", "mtx", "tenx", "npz", "h5ad", "npy", "vectors", "images")
ASIDE = ("vocab", "empty", "nothing", "about")
"""Kinds of files in a folder that are not documents."""


@dataclass
class Tree:
    """A folder given by the user, after a first walk.

    Attributes
    ----------
    format
        What its files are read as; ``kinds`` are those of its files that are read.
    prefix
        What keys of its files begin with.
    size
        Bytes of the files that are read.
    notes
        What is odd about it, for the summary.
    """

    root: Path
    name: str
    options: ReadOptions
    format: str = FILES
    left_out: frozenset[str] = frozenset()
    prefix: str = ""
    size: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    def files(self) -> Iterator[tuple[str, str, str]]:
        """Path, key below the folder, and format of each file that is read, in order."""
        kind_of = _Kinds(self.options)
        for path, key in walk(self.root):
            kind = kind_of(path, os.path.join(self.name, key), key)
            if kind not in self.left_out:
                yield path, key, kind if self.format == EACH else self.format

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yield the format and the source that its reader reads.

        The source is the whole folder, of ``files``, else each file.
        """
        encoding = self.options.encoding
        strict = self.options.strict
        if self.format == FILES:
            sources: Iterator[tuple[str, Source]] = iter([(FILES, TreeSource(self))])
        else:
            sources = (
                (
                    form,
                    Source(
                        os.path.join(self.name, key),
                        Path(path),
                        key=self.prefix + key,
                        encoding=encoding,
                        strict=strict,
                    ),
                )
                for path, key, form in self.files()
            )
        for number, (form, source) in enumerate(sources):
            if number == 0:
                source.rejects.notes.update(self.notes)
            yield form, source


class TreeSource(Source):
    """Text files of a folder tree as one source.

    ``files`` yields path and key in sorted order.
    """

    def __init__(self, tree: Tree) -> None:
        options = tree.options
        key = tree.prefix.rstrip("/") or "."
        super().__init__(
            tree.name, tree.root, key=key, encoding=options.encoding, strict=options.strict
        )
        self.tree = tree
        self.size = tree.size
        self.progress = 0

    def files(self) -> Iterator[tuple[str, str]]:
        """Path and key of each file."""
        for path, key, _ in self.tree.files():
            yield path, self.tree.prefix + key
            self.progress = (self.progress or 0) + (
                os.stat(path).st_size if os.path.exists(path) else 0
            )


@dataclass
class Inputs:
    """Inputs that ``survey_inputs`` finds.

    ``sources`` may be walked more than once, but for standard input.

    total: bytes on disk of all, None with standard input.
    """

    parts: list[Tree | tuple[str, Source]] = field(default_factory=list)
    total: int | None = 0

    def sources(self) -> Iterator[tuple[Reader, Source]]:
        """Reader and source of each input in order."""
        for part in self.parts:
            for name, source in part.sources() if isinstance(part, Tree) else [part]:
                source.alone = len(self.parts) == 1 and not isinstance(
                    part, Tree
                )  # tomorrow a folder may hold more
                yield reader_named(name), source


def survey_inputs(paths: Places, options: ReadOptions, *, eager: bool = False) -> Inputs:
    """Look at every input once: it exists, its format is known, its size.

    Nothing but names and counts is kept.

    eager: of standard input read what is there, without waiting for more.
    """
    check_encoding(options.encoding)
    each = options.format == EACH
    options = replace(options, format=None if each else options.format)
    if options.format is not None:
        reader_named(options.format)
    names = [os.fspath(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not names:
        raise InputError("no input given; name files, folders or - for standard input")
    if len(set(names)) < len(names):
        raise InputError(f"{Counter(names).most_common(1)[0][0]}: given twice")
    keys = file_keys(names)
    inputs = Inputs()
    objects = _ObjectFormats()
    for number, name in enumerate(names):
        objects.open_ahead(names[number : number + LOOKED_AHEAD])
        path = None if name == "-" else Path(name)
        part: Tree | tuple[str, Source]
        if path is not None and (matrix := _matrix_source(name, path, keys, options)) is not None:
            part = matrix
        elif path is not None and path.is_dir():
            part = _survey_tree(path, name, options, each)
            part.prefix = tree_prefix(name, names)
        else:
            part = _file_source(name, path, keys[name], options, objects, eager=eager)
        inputs.parts.append(part)
        form, size = (part.format, part.size) if isinstance(part, Tree) else (part[0], part[1].size)
        _check_options(name, form, options)
        inputs.total = None if inputs.total is None or size is None else inputs.total + size
    first = inputs.parts[0]
    (first.notes if isinstance(first, Tree) else first[1].rejects.notes).update(places().left_out())
    return inputs


def _check_options(name: str, form: str, options: ReadOptions) -> None:
    """Refuse an option that the format of an input has no use for.

    Formats of other packages may read any option.
    """
    for option, (formats, why) in READ_BY.items():
        value = getattr(options, option)
        given = value is not None and value is not False and option not in options.recalled
        if given and form in TEXTS + MATRICES and form not in formats:
            shown = "" if value is True else f" {value}"
            raise UsageError(
                f"--{option.replace('_', '-')}{shown}: {name} is read as {form}, {why}; "
                f"leave it out"
            )


def _matrix_source(
    name: str, path: Path, keys: dict[str, str], options: ReadOptions
) -> tuple[str, Source] | None:
    """Return format and source of a matrix that is several files, None for any other place.

    Raises InputError for a place that is not there, or is no raw input.
    """
    if not places().exists(path):
        hint = "; --out names the store to make" if name.endswith(".zarr") else ""
        raise InputError(f"{name}: no such file or folder{hint}")
    by_name = path.is_dir() or not (options.turned or options.format)
    if by_name and (form := matrix_form(path)) is not None:
        key = keys.get(name, Path(name).resolve().name)
        source = Source(name, path, key=key, strict=options.strict)
        if path.is_dir():
            source.size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return form, source
    if (path / MARK).is_file() and (path / "manifest.json").is_file():
        raise InputError(
            f"{name}: a corpus store or a model, not raw input; other commands take it "
            f"(--corpus, --model)"
        )
    return None


def _file_source(
    name: str,
    path: Path | None,
    key: str,
    options: ReadOptions,
    objects: _ObjectFormats,
    *,
    eager: bool,
) -> tuple[str, Source]:
    """Return format and source of a file, or of standard input."""
    if path is not None and places().is_stream(path):  # it is read twice
        raise InputError(
            f"{name}: no regular file (a pipe, a socket or a device); give a pipe as "
            f"standard input: -"
        )
    source = Source(name, path, key=key, encoding=options.encoding, strict=options.strict)
    source.eager = eager
    known = options.format or objects.trusted(name)
    called = "stdin.lines" if eager else name
    form = known or guess_source(source, options, in_folder=False, name=called)
    objects.note(name, form)
    if form == "lines" and options.format is None and options.split is not None:
        form = FILES  # what is to be cut is a whole, as in a folder
    source.close()  # until it is read; what was read of standard input stays
    return form, source


class _ObjectFormats:
    """Formats of objects at addresses, each of which takes a request to look at.

    As in a folder, a suffix is trusted after LOOKED_AT objects that agree.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Counter[str]] = {}

    def trusted(self, name: str) -> str | None:
        """Return the format of all objects with the suffix of this one, None if it is not known."""
        forms = self._seen.get(plain_suffix(name), Counter())
        return next(iter(forms)) if forms.total() >= LOOKED_AT and len(forms) == 1 else None

    def note(self, name: str, form: str) -> None:
        """Note the format of an object at an address. A file is always looked at."""
        if not places().on_this_machine(name):
            self._seen.setdefault(plain_suffix(name), Counter())[form] += 1

    def open_ahead(self, names: Iterable[str]) -> None:
        """Begin to read the objects that are looked at soon, and no others."""
        coming = Counter[str]()
        for name in names:
            suffix = plain_suffix(name)
            coming[suffix] += 1
            forms = self._seen.get(suffix, Counter())
            is_looked_at = len(forms) > 1 or forms.total() + coming[suffix] <= LOOKED_AT
            if name != "-" and is_looked_at:
                places().open_ahead(name, LOOKED_BYTES)


def file_keys(names: list[str]) -> dict[str, str]:
    """Name each input that is no folder, as ids and sources show it.

    It is the base name. Where several have the same, it is the path as given, and an absolute one
    from the folder on that all those of the name have in common.
    """
    same: dict[str, list[str]] = {}
    for name in names:
        same.setdefault("stdin" if name == "-" else Path(name).name, []).append(name)
    keys = {}
    for base, those in same.items():
        if len(those) == 1:
            keys[those[0]] = base
            continue
        absolute = [n for n in those if os.path.isabs(n)]
        start = os.path.commonpath([os.path.dirname(n) for n in absolute]) if absolute else ""
        short = {n: os.path.relpath(n, start) if n in absolute else n for n in those}
        keys.update(short if len(set(short.values())) == len(short) else {n: n for n in those})
    return keys


def tree_prefix(name: str, names: list[str]) -> str:
    """Return what the keys of a folder's files begin with.

    It is the folder's name where several folders are given.
    """
    several = sum(n != "-" and os.path.isdir(n) for n in names) > 1
    return Path(name).resolve().name + "/" if several else ""


def input_places(names: list[str]) -> list[str]:
    """List the prefixes that paths of files lose when they are stored.

    They are the places of the inputs, as given and absolute.
    """
    keys = file_keys([n for n in names if n != "-" and not os.path.isdir(n)])
    places = set()
    for name in set(names) - {"-"}:
        tail = "" if name in keys else os.sep
        key = keys[name] if name in keys else tree_prefix(name, names)
        for path in (os.path.join(name, "") if tail else name, os.path.abspath(name) + tail):
            if path.endswith(key):
                places.add(path.removesuffix(key))
    return sorted(places - {""})


def walk(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, key) of the regular files below a folder, sorted.

    Hidden files are left out, and what Spark, Hadoop and Hugging Face write beside the data
    (``_SUCCESS``, ``*.crc``, ``dataset_infos.json``). The key is the path below the folder with
    forward slashes.

    InputError at a link that leads out of the tree; one to a folder within it is passed over, their
    files are read at their own place.
    """
    real = root.resolve()
    stack = [(str(root), "")]
    while stack:
        folder, prefix = stack.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name))
        except OSError as e:
            raise InputError(
                f"{folder}: cannot be read ({e.strerror}); check its permissions"
            ) from None
        folders = []
        for entry in entries:
            if entry.name.startswith(".") or is_mark(entry.name):
                continue
            if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(real):
                raise InputError(
                    f"{entry.path}: a link that leads out of the folder; copy the file or give "
                    f"its own path"
                )
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, prefix + entry.name + "/"))
            elif entry.is_file():
                yield entry.path, prefix + entry.name
        stack += reversed(folders)


class _Kinds:
    """Formats of files in walking order.

    After LOOKED_AT files of one suffix that agree the suffix is trusted.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.seen: dict[str, Counter[str]] = {}
        self.error: InputError | None = None

    def __call__(self, path: str, name: str, key: str) -> str:
        """Return a file's format, ``unknown`` (``error`` says why), or one of ASIDE.

        ``name`` is for messages, ``key`` the path below the folder.
        """
        base = os.path.basename(path)
        if is_vocab_name(base):
            return "vocab"
        if self.options.format is None and is_about(base) and key == base:
            return "about"
        kinds = self.seen.setdefault(plain_suffix(base), Counter())
        if kinds.total() >= LOOKED_AT and len(kinds) == 1:
            return next(iter(kinds))
        if os.stat(path).st_size == 0:
            return "empty" if plain_suffix(base) in TEXT_SUFFIXES else "nothing"
        with Source(name, Path(path), encoding=self.options.encoding, strict=False) as source:
            try:
                kind = guess_source(source, self.options, in_folder=True, name=name)
            except InputError as e:
                self.error = self.error or e
                kind = "unknown"
        kinds[kind] += 1
        return kind


def formats_of_files(
    root: Path, options: ReadOptions
) -> Iterator[tuple[str, str, InputError | None]]:
    """Yield key and format of each file of a folder, or why it has none.

    The format is ``unknown`` then, and one of ASIDE for what holds no documents.
    """
    kind_of = _Kinds(options)
    for path, key in walk(root):
        kind_of.error = None
        kind = kind_of(path, path, key)
        yield key, kind, kind_of.error


def _survey_tree(root: Path, name: str, options: ReadOptions, each: bool) -> Tree:
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    fields: Counter[str] = Counter()
    kind_of = _Kinds(options)
    asked_columns = {compose_text(name) for name in options.meta.values()}
    for path, key in walk(root):
        kind = kind_of(path, os.path.join(name, key), key)
        counts[kind] += 1
        sizes[kind] += os.stat(path).st_size
        example.setdefault(kind, key)
        fields.update(n for n in partitions(key) if n not in asked_columns)
    formats = sorted(kind for kind in counts if kind not in ASIDE)
    tree = Tree(root, name, options)
    if options.format is not None:
        tree.format = options.format
        tree.left_out = (
            frozenset(counts) - {tree.format} if counts[tree.format] else frozenset({"vocab"})
        )
        tree.left_out = frozenset() if tree.format == FILES else tree.left_out
    elif not counts:
        raise InputError(f"{name}: contains no files to read")
    elif "unknown" in formats:
        most = max(formats, key=lambda form: counts[form] * (form != "unknown"))
        beside = (
            f", or move it out of the folder, or leave such files out by --format={most}"
            if len(formats) > 1
            else ""
        )
        raise InputError(
            f"{kind_of.error}{beside}{' --on-error=skip' * (most == FILES)}"
        ) from None  # that format takes every file
    elif len(formats) > 1 and not each:
        forms_found = ", ".join(f"{form} ({example[form]})" for form in formats)
        advice = "give --format (each: every file by its own), or name the files"
        if "mtx" in example and matrix_form(root / example["mtx"]):
            advice = f"give each 10x matrix itself, such as {os.path.join(name, example['mtx'])}"
        raise InputError(f"{name}: contains files of several formats: {forms_found}; {advice}")
    else:
        tree.format = EACH if len(formats) > 1 else formats[0] if formats else FILES
        if len(formats) > 1 or reader_named(tree.format).kind == "counts":
            tree.left_out = frozenset(ASIDE)
        else:
            others_of_text = (
                {"about", "nothing"} if tree.format == FILES else {"about", "vocab", "nothing"}
            )
            tree.left_out = frozenset(others_of_text if formats else {"nothing"})
        if formats and (others := counts["about"]):
            more = f" and {others - 1} more" if others > 1 else ""
            aside = f"{example['about']}{more}; --format {tree.format} takes them in"
            tree.notes[f"files about the folder left out ({aside})"] += others
        for field_name, files in sorted(fields.items()):
            tree.notes[IN_PATH.format(field_name)] += files
    tree.size = sum(size for kind, size in sizes.items() if kind not in tree.left_out)
    return tree
