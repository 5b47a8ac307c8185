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
"""Objects at addresses that are fetched before their turn to be looked at."""
LOOKED_BYTES = 128 << 10
"""Bytes of an object that are fetched to look at it."""
FILES = "files"
"""The format of text files, each a document."""
EACH = "each"
"""The option that every file of a folder has a format of its own."""
READ_BY = {
    "layer": (("h5ad",), "which has no layers"),
    "first_id": (
        ("svmlight", "ldac", "docword", "mtx"),
        "which leaves no choice of the first number",
    ),
    "transpose": (("mtx", "tenx", "npz", "h5ad"), "which is no matrix to transpose"),
    "stride": (("images",), "which has no pixels"),
}
"""Options of few formats, by name: those formats, and a clause about any other one."""
TEXTS = ("csv", "jsonl", "lines", "files", "markup", "pubmed", "arrow", "parquet", "mallet", "tar")
MATRICES = ("docword", "ldac", "svmlight", "mtx", "tenx", "npz", "h5ad", "npy", "vectors", "images")
ASIDE = ("vocab", "empty", "nothing", "about")
"""Kinds of files in a folder that are not documents."""


@dataclass
class Tree:
    """A folder given by the user, after a first walk.

    Attributes
    ----------
    root, name
        The folder, and its name as the user gave it.
    options
        Options on raw input.
    format
        Format of its files, or EACH.
    left_out
        Formats and kinds of files that are not read.
    prefix
        Beginning of the keys of its files.
    size
        Bytes of the files that are read.
    notes
        Notes for the summary.
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
        """Yield path, key below the folder, and format of each file that is read, in order."""
        kind_of = _Kinds(self.options)
        for path, key in walk(self.root):
            kind = kind_of(path, os.path.join(self.name, key), key)
            if kind not in self.left_out:
                yield path, key, kind if self.format == EACH else self.format

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yield the format and the source of each file, or of the whole folder for ``files``."""
        for number, (form, source) in enumerate(self._sources()):
            if number == 0:
                source.rejects.notes.update(self.notes)
            yield form, source

    def _sources(self) -> Iterator[tuple[str, Source]]:
        """Yield formats and sources without the notes."""
        if self.format == FILES:
            yield FILES, TreeSource(self)
            return
        for path, key, form in self.files():
            source = Source(
                os.path.join(self.name, key),
                Path(path),
                key=self.prefix + key,
                encoding=self.options.encoding,
                strict=self.options.strict,
            )
            yield form, source


class TreeSource(Source):
    """Text files of a folder tree as one source."""

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
        """Yield path and key of each file, in sorted order."""
        for path, key, _ in self.tree.files():
            yield path, self.tree.prefix + key
            if os.path.exists(path):  # it may have been removed meanwhile
                self.progress = (self.progress or 0) + os.stat(path).st_size


@dataclass
class Inputs:
    """The inputs of an ingest, as ``survey_inputs`` finds them.

    Attributes
    ----------
    parts
        Folders, and format and source of other inputs.
    total
        Bytes on disk of all, or None with standard input.
    """

    parts: list[Tree | tuple[str, Source]] = field(default_factory=list)
    total: int | None = 0

    def sources(self) -> Iterator[tuple[Reader, Source]]:
        """Yield reader and source of each input in order.

        Except for standard input, this can be done several times.
        """
        for part in self.parts:
            is_folder = isinstance(part, Tree)
            for name, source in part.sources() if isinstance(part, Tree) else [part]:
                # a folder with one file may have more of them at the next append
                source.alone = len(self.parts) == 1 and not is_folder
                yield reader_named(name), source


def survey_inputs(paths: Places, options: ReadOptions, *, eager: bool = False) -> Inputs:
    """Look at every input once, to check that it exists and to find its format and size.

    Only names and counts stay in memory.

    Parameters
    ----------
    paths
        Files and folders; ``-`` is standard input.
    options
        Options on raw input.
    eager
        Read the bytes of standard input that have arrived, without waiting for more.

    Raises
    ------
    InputError
        If an input is missing, is given twice, or has no known format.
    UsageError
        If an option does not go with the format of an input.
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
        matrix = None if path is None else _matrix_source(name, path, keys, options)
        part: Tree | tuple[str, Source]
        if matrix is not None:
            part = matrix
        elif path is not None and path.is_dir():
            part = _survey_tree(path, name, options, each)
            part.prefix = tree_prefix(name, names)
        else:
            part = _file_source(name, path, keys[name], options, objects, eager=eager)
        inputs.parts.append(part)
        if isinstance(part, Tree):
            form = part.format
            size: int | None = part.size
        else:
            form = part[0]
            size = part[1].size
        _check_options(name, form, options)
        inputs.total = None if inputs.total is None or size is None else inputs.total + size
    first = inputs.parts[0]
    notes = first.notes if isinstance(first, Tree) else first[1].rejects.notes
    notes.update(places().left_out())
    return inputs


def _check_options(name: str, form: str, options: ReadOptions) -> None:
    """Refuse an option that the format of an input has no use for.

    Formats of other packages may read any option.
    """
    for option, (formats, why) in READ_BY.items():
        value = getattr(options, option)
        is_given = value is not None and value is not False and option not in options.recalled
        if is_given and form in TEXTS + MATRICES and form not in formats:
            shown = "" if value is True else f" {value}"
            raise UsageError(
                f"--{option.replace('_', '-')}{shown}: {name} is read as {form}, {why}; "
                f"leave it out"
            )


def _matrix_source(
    name: str, path: Path, keys: dict[str, str], options: ReadOptions
) -> tuple[str, Source] | None:
    """Return format and source of a matrix of several files, or None for any other input.

    Raises
    ------
    InputError
        If the input is missing, or is a store or a model.
    """
    if not places().exists(path):
        hint = "; --out names the store to make" if name.endswith(".zarr") else ""
        raise InputError(f"{name}: no such file or folder{hint}")
    by_name = path.is_dir() or not (options.transpose_requested or options.format)
    form = matrix_form(path) if by_name else None
    if form is not None:
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
    form = options.format or objects.trusted(name)
    if form is None:
        shown_name = "stdin.lines" if eager else name
        form = guess_source(source, options, in_folder=False, name=shown_name)
    objects.note(name, form)
    if form == "lines" and options.format is None and options.split is not None:
        form = FILES  # with --split a text file is one document, as in a folder
    source.close()  # it is opened again to be read; bytes of standard input stay in memory
    return form, source


class _ObjectFormats:
    """Formats of objects at addresses.

    To look at an object takes a request. As in a folder, a suffix is trusted after LOOKED_AT
    objects that have the same format.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Counter[str]] = {}

    def trusted(self, name: str) -> str | None:
        """Return the format of all objects with a name's suffix, or None if it is not known."""
        forms = self._seen.get(plain_suffix(name), Counter())
        is_trusted = forms.total() >= LOOKED_AT and len(forms) == 1
        return next(iter(forms)) if is_trusted else None

    def note(self, name: str, form: str) -> None:
        """Count the format of an object at an address, but of no file of this machine."""
        if not places().on_this_machine(name):
            self._seen.setdefault(plain_suffix(name), Counter())[form] += 1

    def open_ahead(self, names: Iterable[str]) -> None:
        """Begin to fetch the objects that are looked at soon, and no others."""
        coming = Counter[str]()
        for name in names:
            suffix = plain_suffix(name)
            coming[suffix] += 1
            forms = self._seen.get(suffix, Counter())
            is_looked_at = len(forms) > 1 or forms.total() + coming[suffix] <= LOOKED_AT
            if name != "-" and is_looked_at:
                places().open_ahead(name, LOOKED_BYTES)


def file_keys(names: list[str]) -> dict[str, str]:
    """Choose the keys of inputs that are no folders, which ids and sources show.

    The key is the base name. Inputs with the same base name have the path as given; absolute paths
    begin at the folder that all of them have in common.
    """
    by_base_name: dict[str, list[str]] = {}
    for name in names:
        base_name = "stdin" if name == "-" else Path(name).name
        by_base_name.setdefault(base_name, []).append(name)
    keys = {}
    for base_name, paths in by_base_name.items():
        if len(paths) == 1:
            keys[paths[0]] = base_name
            continue
        absolute = [path for path in paths if os.path.isabs(path)]
        start = os.path.commonpath([os.path.dirname(path) for path in absolute]) if absolute else ""
        short = {path: path for path in paths}
        short |= {path: os.path.relpath(path, start) for path in absolute}
        are_distinct = len(set(short.values())) == len(short)
        keys.update(short if are_distinct else {path: path for path in paths})
    return keys


def tree_prefix(name: str, names: list[str]) -> str:
    """Return the beginning of the keys of a folder's files: its name, if there are several."""
    several = sum(n != "-" and os.path.isdir(n) for n in names) > 1
    return Path(name).resolve().name + "/" if several else ""


def input_places(names: list[str]) -> list[str]:
    """List the prefixes that paths of files lose when they are stored.

    They are the places of the inputs, as given and absolute.
    """
    keys = file_keys([n for n in names if n != "-" and not os.path.isdir(n)])
    prefixes = set()
    for name in set(names) - {"-"}:
        if name in keys:
            key = keys[name]
            paths = (name, os.path.abspath(name))
        else:
            key = tree_prefix(name, names)
            paths = (os.path.join(name, ""), os.path.abspath(name) + os.sep)
        for path in paths:
            if path.endswith(key):
                prefixes.add(path.removesuffix(key))
    return sorted(prefixes - {""})


def walk(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, key) of the regular files below a folder, sorted.

    Hidden files are left out, and so are files that Spark, Hadoop and Hugging Face write beside the
    data (``_SUCCESS``, ``*.crc``, ``dataset_infos.json``). The key is the path below the folder
    with forward slashes. A link to a folder within the tree is skipped, as its files are read where
    they lie.

    Raises
    ------
    InputError
        If a folder cannot be read, or a link leads out of the tree.
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
    """Formats of files, asked for in the order of a walk.

    A suffix is trusted after LOOKED_AT files that have the same format.

    Attributes
    ----------
    error
        Why the first ``unknown`` file has no format.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.seen: dict[str, Counter[str]] = {}
        self.error: InputError | None = None

    def __call__(self, path: str, name: str, key: str) -> str:
        """Return a file's format, ``unknown``, or one of ASIDE.

        Parameters
        ----------
        path
            The file.
        name
            Its name in messages.
        key
            Its path below the folder.
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
    """Yield key and format of each file of a folder, and why it has none.

    The format is ``unknown`` then, and one of ASIDE for a file without documents.
    """
    kind_of = _Kinds(options)
    for path, key in walk(root):
        kind_of.error = None
        kind = kind_of(path, path, key)
        yield key, kind, kind_of.error


@dataclass
class _TreeCounts:
    """Files of a folder, counted by format or kind of file.

    Attributes
    ----------
    counts, sizes
        Number of files, and their bytes.
    examples
        Key of the first file of each.
    fields
        Files with a field in their path that no option asks for, by the field.
    error
        Why the first ``unknown`` file has no format.
    """

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    fields: Counter[str] = field(default_factory=Counter)
    error: InputError | None = None

    @property
    def formats(self) -> list[str]:
        """Return the formats of documents, ``unknown`` among them, in order."""
        return sorted(kind for kind in self.counts if kind not in ASIDE)


def _count_tree(root: Path, name: str, options: ReadOptions) -> _TreeCounts:
    """Walk through a folder and count its files."""
    tree = _TreeCounts()
    kind_of = _Kinds(options)
    requested = {compose_text(field_name) for field_name in options.meta.values()}
    for path, key in walk(root):
        kind = kind_of(path, os.path.join(name, key), key)
        tree.counts[kind] += 1
        tree.sizes[kind] += os.stat(path).st_size
        tree.examples.setdefault(kind, key)
        tree.fields.update(n for n in partitions(key) if n not in requested)
    tree.error = kind_of.error
    return tree


def _survey_tree(root: Path, name: str, options: ReadOptions, each: bool) -> Tree:
    """Find the format of a folder's files, and the files that are left out.

    Raises
    ------
    InputError
        If there are no files, a file has no known format, or there are several formats and
        ``each`` is not set.
    """
    survey = _count_tree(root, name, options)
    formats = survey.formats
    tree = Tree(root, name, options)
    if options.format is not None:
        tree.format = options.format
        if tree.format != FILES:
            others = frozenset(survey.counts) - {tree.format}
            tree.left_out = others if survey.counts[tree.format] else frozenset({"vocab"})
    elif not survey.counts:
        raise InputError(f"{name}: contains no files to read")
    elif "unknown" in formats:
        raise InputError(_explain_unknown(survey))
    elif len(formats) > 1 and not each:
        listed = ", ".join(f"{form} ({survey.examples[form]})" for form in formats)
        advice = "give --format (each: every file by its own), or name the files"
        example = survey.examples.get("mtx")
        if example is not None and matrix_form(root / example):
            advice = f"give each 10x matrix itself, such as {os.path.join(name, example)}"
        raise InputError(f"{name}: contains files of several formats: {listed}; {advice}")
    else:
        _choose_tree_format(tree, survey)
    tree.size = sum(size for kind, size in survey.sizes.items() if kind not in tree.left_out)
    return tree


def _explain_unknown(survey: _TreeCounts) -> str:
    """Explain that a file of a folder has no known format, and what to do."""
    formats = survey.formats
    if len(formats) == 1:
        return str(survey.error)
    known = Counter({form: survey.counts[form] for form in formats if form != "unknown"})
    most = max(known, key=lambda form: known[form])
    advice = f"or move it out of the folder, or leave such files out by --format={most}"
    if most == FILES:  # a format that takes any file
        advice += " --on-error=skip"
    return f"{survey.error}, {advice}"


def _choose_tree_format(tree: Tree, survey: _TreeCounts) -> None:
    """Set the format of a folder, the files that it leaves out, and the notes about them."""
    formats = survey.formats
    if len(formats) > 1:
        tree.format = EACH
        tree.left_out = frozenset(ASIDE)
    elif not formats:  # nothing but empty and other files
        tree.left_out = frozenset({"nothing"})
    else:
        tree.format = formats[0]
        if reader_named(tree.format).kind == "counts":
            tree.left_out = frozenset(ASIDE)
        else:
            tree.left_out = frozenset({"about", "nothing"})
            if tree.format != FILES:
                tree.left_out |= {"vocab"}
    about = survey.counts["about"]
    if formats and about:
        more = f" and {about - 1} more" if about > 1 else ""
        aside = f"{survey.examples['about']}{more}; --format {tree.format} takes them in"
        tree.notes[f"files about the folder left out ({aside})"] += about
    for field_name, files in sorted(survey.fields.items()):
        tree.notes[IN_PATH.format(field_name)] += files
