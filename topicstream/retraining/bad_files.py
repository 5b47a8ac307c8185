"""Raw files that cannot be read, and the reasons.

A run goes on without them. Each file is read by itself, so that one error names one file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from topicstream.base.errors import (
    InputError,
    Interrupted,
    NotOurs,
    StoreError,
    TopicsError,
    UsageError,
)
from topicstream.base.machine import __version__
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.open.inputs import ASIDE, EACH, Tree, formats_of_files, survey_inputs
from topicstream.ingestion.open.names import matrix_form
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, META, ReadOptions
from topicstream.ingestion.parse.reader import reader_named
from topicstream.ingestion.parts.tasks import pieces_of
from topicstream.ingestion.settings import make_options
from topicstream.retraining.config import Config, in_words_of_config

UNKNOWN = "unknown"
NOT_OF_A_FILE = (UsageError, StoreError, NotOurs, OSError, MemoryError)
"""Errors that no raw file is to blame for."""


def comes_from_file(error: Exception) -> bool:
    """Tell whether an error may come from the content of a raw file.

    That is bad input, and any error that a reader did not expect: no file may stop all nights.
    """
    if isinstance(error, NOT_OF_A_FILE):
        return False
    return isinstance(error, InputError) or not isinstance(error, TopicsError)


def hash_reading(config: Config) -> str:
    """Hash what decides if a file can be read: the options and the program's version."""
    read = [config.ingest_options(name) for name in config.group_names]
    options = json.dumps([read, __version__], sort_keys=True, default=str)
    return hashlib.sha256(options.encode()).hexdigest()[:16]


def with_user_paths(error: InputError, config: Config) -> InputError:
    """Rewrite an error to name the user's files and configuration keys."""
    return error.reworded(name_raw_files(str(error), config))


def name_raw_files(message: str, config: Config) -> str:
    """Rewrite a message to name raw files, not copies, and configuration keys, not options."""
    message = in_words_of_config(message)
    for name in reversed(config.group_names):  # the longer names first
        message = message.replace(str(config.folder / "incoming" / name), str(config.raw))
    return message


def read_options(config: Config, group: str) -> ReadOptions:
    """Return how an append to the corpus reads a folder of copies."""
    options = make_options(append=True, **config.ingest_options(group))
    if not options.as_store or not (config.corpus / "manifest.json").exists():
        return options
    return options.recall(Corpus.open(config.corpus).manifest.reading, FIELDS, LAYOUT, META, CUT)


def find_strays(config: Config, usual: str | None) -> tuple[dict[str, str], str | None]:
    """Find the copies whose format is unknown, or not that of the others.

    Parameters
    ----------
    config
        The settings.
    usual
        The format of earlier files; None: unknown, so it is the format of more than half of the
        copies.

    Returns
    -------
    strays
        Reasons by path below ``raw``.
    format
        The format of the other files; None if there are several, or the configuration names one.
    """
    names = config.group_names
    strays, usual = _strays_of(config, names[:2], usual)
    for first in range(2, len(names), 2):  # of each source new and changed files
        others, _ = _strays_of(config, names[first : first + 2], None)
        strays |= others
    return strays, usual


def _strays_of(
    config: Config, groups: Sequence[str], usual: str | None
) -> tuple[dict[str, str], str | None]:
    """Find the strays among the copies of one source, as ``find_strays`` does."""
    options: ReadOptions = read_options(config, groups[0])
    stated_format = options.format
    if stated_format == EACH:
        options = replace(options, format=None)
    strays: dict[str, str] = {}
    formats: dict[str, str] = {}
    for _, folder in copy_folders(config, groups):
        for key, form, error in formats_of_files(folder, options):
            if error is not None and stated_format in (None, EACH):
                strays[key] = name_raw_files(str(error), config)
            elif form not in (*ASIDE, UNKNOWN):
                formats[key] = form
    if stated_format is not None or not formats:
        return strays, usual
    counts = Counter(formats.values())
    most, times = counts.most_common(1)[0]
    if usual is None and 2 * times <= counts.total():
        return strays, None
    usual = usual or most
    for key, form in formats.items():
        if form != usual:
            strays[key] = (
                f"{config.raw / key}: its format is {form}, that of the other files {usual}; give "
                f"format under [ingest] (each: every file by its own), or move it out of the folder"
            )
    return strays, usual


def copy_folders(config: Config, groups: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the folders of copies whose files are read one by one, by their names."""
    for name in groups:
        folder = config.folder / "incoming" / name
        if folder.is_dir() and matrix_form(folder) is None:
            yield name, folder


def find_bad_files(config: Config) -> dict[str, str]:
    """Read every copy by itself, and return the reasons of failures by path below ``raw``."""
    bad: dict[str, str] = {}
    for group, folder in copy_folders(config, config.group_names):
        options: ReadOptions = read_options(config, group)
        try:
            parts = survey_inputs([str(folder)], options).parts
        except InputError:  # of the folder as a whole
            continue
        for part in parts:
            for path, key, form in part.files() if isinstance(part, Tree) else ():
                reason = _try_to_read(path, key, form, options)
                if reason:
                    bad[key] = name_raw_files(reason, config)
    return bad


def _try_to_read(path: str, key: str, form: str, options: ReadOptions) -> str:
    """Read a file to its end, and return the reason of a failure, or ""."""
    try:
        source = Source(path, Path(path), key=key, encoding=options.encoding, strict=options.strict)
        for task in pieces_of([(reader_named(form), source)], options):
            task.run()
    except Interrupted:
        raise
    except Exception as e:
        if not comes_from_file(e):
            return ""
        unexpected = f"{path}: cannot be read ({type(e).__name__}: {e})"
        return str(e) if isinstance(e, InputError) else unexpected
    return ""


def match_message(error: Exception, files: Mapping[str, object], config: Config) -> dict[str, str]:
    """Return the message of an error by the file of these that it begins with, if any."""
    message = name_raw_files(str(error), config)
    return {name: message for name in files if message.startswith(f"{config.raw / name}:")}
