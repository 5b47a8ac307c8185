"""The commented config file of ``topics retrain --init``, generated from the options."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from topicstream.base.errors import TopicsError
from topicstream.ingestion.config import IngestConfig
from topicstream.retraining.config import TABLES, Config

HEAD = "Everything `topics retrain --config THIS-FILE` needs.  Paths are relative to this file."
ABOUT_TABLES = {
    "ingest": "The options of `topics ingest`, with underscores; the tokenizer is fixed by the "
    "first run.",
    "when": "A run acts when one of these holds; flags of the command line take their place.",
    "drift": "Any one of these is drift.",
}
INGEST = {"format": "jsonl", "text_field": "text", "id_field": "id", "heldout": "1%"}
"""Examples of options of ``[ingest]``."""
SOURCE = """\
# [[source]]              # files that are unlike the others: what is said here stands in the place
#                         # of [ingest] for them; the first source whose patterns match counts
# patterns = ["blog/*"]
# format = "csv"          # any option that says how input is read
# text_field = "body"
# meta = "date=published,author"
"""
COLUMN = 26
"""Column of the comment after a setting."""
WIDTH = 100


def write_template(path: Path) -> Path:
    """Write the commented config file and make the folder ``raw`` beside it, which it returns.

    Raises
    ------
    TopicsError
        Where there is a file.
    """
    if os.path.lexists(path):
        raise TopicsError(f"{path}: exists; name another file with --config")
    raw = path.resolve().parent / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(format_template())
    except FileExistsError:
        raise TopicsError(f"{path}: exists; name another file with --config") from None
    return raw


def format_template() -> str:
    """Format every setting with its default or an example, and its help as a comment."""
    lines = [f"# {HEAD}", "", *_format_options(Config)]
    lines += ["", *_comment("[ingest]", ABOUT_TABLES["ingest"])]
    for name, example in INGEST.items():
        help = IngestConfig.__dataclass_fields__[name].metadata["help"]
        lines += _comment(f"# {name} = {_format_value(example)}", help)
    lines += _comment("grow_vocab = true", "New words get ids after the old ones.")
    lines += ["", *SOURCE.splitlines()]
    for table, kind in TABLES.items():
        lines += ["", *_comment(f"[{table}]", ABOUT_TABLES.get(table, ""))]
        lines += _format_options(kind)
        if table == "train":
            lines += _comment("# [train.options]", "The engine's own: alpha, beta, ...")
    return "\n".join(lines) + "\n"


def _format_options(kind: type) -> Iterator[str]:
    """Yield the lines of the options of a table.

    One with an example is commented out.
    """
    for option in fields(kind):
        help = option.metadata.get("help")
        if help is None or option.default is MISSING:
            continue
        example = option.metadata.get("example")
        value = option.default if example is None else example
        setting = f"{option.name} = {_format_value(value)}"
        yield from _comment(setting if example is None else f"# {setting}", help)


def _format_value(value: Any) -> str:
    """Format a value as TOML."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, default=str)


def _comment(setting: str, help: str) -> Iterator[str]:
    """Yield a setting with its help behind it, wrapped."""
    wrapped = textwrap.wrap(help, WIDTH - COLUMN - 2, break_on_hyphens=False)
    if len(setting) >= COLUMN and wrapped:
        yield setting
        setting = ""
    for line in wrapped or [""]:
        yield f"{setting:{COLUMN}}# {line}" if line else setting
        setting = ""
