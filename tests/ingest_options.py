"""Values for every option of an ingest by its name in Python, and small inputs that they fit.

A new option fails the tests until somebody says here what a user would give it.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Container
from pathlib import Path
from typing import Any

from topicstream.ingestion.config import IngestConfig

WORDS = [
    "river",
    "mountain",
    "village",
    "water",
    "stone",
    "walking",
    "walked",
    "walks",
    "tree",
    "forest",
    "forests",
    "night",
    "morning",
    "singing",
    "sang",
    "Berlin",
    "fluss",
    "dorf",
    "wald",
    "café",
    "naïve",
    "e-mail",
    "1984",
    "<b>bold</b>",
    "&amp;",
    "😀",
    "@ann",
    "https://example.org",
]

INTERNAL = {
    "documents": "the input itself",
    "out": "the store itself",
    "progress": "a listener",
    "stop": "a signal handler",
    "room": "memory of a piece, which the pipeline sets",
    "scratch": "a folder, which the pipeline sets",
    "recalled": "set by recall",
    "recalled_columns": "set by recall",
    "vocab_file": "set from vocab",
    "vocabulary": "of documents in memory",
    "ids": "of documents in memory",
    "vectors": "of documents in memory",
    "as_store": "set by retrain, where sources are read in several ways",
    "recipe": "set by drift, eval and scikit-learn's classes",
}
"""Options that nobody gives for files, and why."""

ABSENT = {"segmenter", "lemmas", "scheduler"}
"""What needs a package that the tests do not install, or a cluster."""

OF_OTHER_INPUTS = {"layer", "patches", "first_id", "transpose", "stride"}
"""Options that are refused with JSON lines."""

VALUES: dict[str, dict[str, Any]] = {
    "format": {"format": "jsonl"},
    "text_field": {"text_field": "title"},
    "id_field": {"id_field": "key"},
    "meta": {"meta": "group,date=year"},
    "na": {"na": "NA,NaN", "meta": "group"},
    "date_format": {"date_format": "%Y", "meta": "date=year"},
    "encoding": {"encoding": "utf-8"},
    "delimiter": {"delimiter": ","},
    "quotechar": {"quotechar": "'"},
    "escapechar": {"escapechar": "\\"},
    "comment": {"comment": "#"},
    "skip_lines": {"skip_lines": 0},
    "header": {"header": True},
    "list_separator": {"list_separator": "|", "meta": "authors"},
    "tei_elements": {"tei_elements": "+stage"},
    "weighted": {"weighted": True},
    "binarize": {"binarize": True},
    "transpose": {"transpose": True},
    "layer": {"layer": "raw"},
    "first_id": {"first_id": 0},
    "words": {"words": "words.txt"},
    "vector_field": {"vector_field": "x"},
    "patches": {"patches": 8},
    "stride": {"stride": 4},
    "on_error": {"on_error": "skip"},
    "split": {"split": "5 words"},
    "min_tokens": {"min_tokens": 8},
    "strip_gutenberg": {"strip_gutenberg": True},
    "max_document": {"max_document": 1 << 20},
    "piece_bytes": {"piece_bytes": 1 << 12},
    "meta_files": {"meta_files": "side.tsv"},
    "links": {"links": "links.tsv"},
    "key": {"key": "row", "meta_files": "rows.tsv:row,mood"},
    "normalize": {"normalize": "nfc"},
    "lowercase": {"lowercase": False},
    "min_length": {"min_length": 5},
    "numbers": {"numbers": True},
    "pattern": {"pattern": "[a-z]{3,}"},
    "fold_accents": {"fold_accents": "french"},
    "join_hyphens": {"join_hyphens": True},
    "keep": {"keep": ["emoji"]},
    "stopwords": {"stopwords": "german"},
    "drop_tags": {"drop_tags": True},
    "drop_urls": {"drop_urls": True},
    "drop_mentions": {"drop_mentions": True},
    "entities": {"entities": True},
    "segmenter": {"segmenter": "jieba"},
    "replace": {"replace": "variants.tsv"},
    "lemmas": {"lemmas": "simplemma:en"},
    "ngrams": {"ngrams": 2},
    "phrase_threshold": {"phrase_threshold": -0.5},
    "stem": {"stem": "english"},
    "tokenized": {"tokenized": True},
    "unspaced": {"unspaced": "runs"},
    "min_df": {"min_df": 3},
    "max_df": {"max_df": 0.4},
    "min_count": {"min_count": 12},
    "max_vocab": {"max_vocab": 8},
    "drop_top": {"drop_top": 3},
    "drop_words": {"drop_words": "stop.txt"},
    "vocab": {"vocab": "words.txt"},
    "heldout": {"heldout": "20%"},
    "heldout_by": {"heldout_by": "group", "meta": "group", "heldout": "20%"},
    "keep_text": {"keep_text": True},
    "append": {"append": True},
    "grow_vocab": {"grow_vocab": True, "append": True},
    "on_duplicate": {"on_duplicate": "fail"},
    "force": {"force": True},
    "workers": {"workers": 1},
    "mem_limit": {"mem_limit": "600M"},
    "scheduler": {"scheduler": "local:2"},
    "stopwords_from": {"stopwords_from": "ours", "stopwords": ["river"]},
    "phrases": {"phrases": ["river mountain"]},
    "checkpoint_bytes": {"checkpoint_bytes": 1 << 12},
    "checkpoint_seconds": {"checkpoint_seconds": 1.0},
}

PACKS = {
    "fields": "format text_field id_field meta na date_format encoding list_separator on_error",
    "other formats": "delimiter quotechar escapechar comment skip_lines header tei_elements "
    "weighted binarize words vector_field",
    "pieces": "split strip_gutenberg max_document piece_bytes checkpoint_bytes "
    "checkpoint_seconds workers mem_limit",
    "side files": "meta_files links on_duplicate",
    "side files by row": "key keep_text",
    "tokens": "normalize min_length numbers fold_accents join_hyphens keep drop_tags drop_urls "
    "drop_mentions entities stopwords replace stem unspaced",
    "pattern": "lowercase pattern ngrams",
    "phrases learned": "phrase_threshold min_tokens",
    "phrases": "phrases stopwords_from",
    "tokenized": "tokenized",
    "words": "min_df max_df min_count max_vocab drop_top drop_words",
    "vocabulary": "vocab heldout",
    "held out by": "heldout_by",
    "append": "append grow_vocab",
}
"""Options that go together, none of which hides what another does: tests of two ingests in a row
try a pack at a time.
"""


def pack_options(pack: str, leave_out: Container[str] = ()) -> dict[str, Any]:
    """Join the values of a pack's options; each of them may name fields of metadata."""
    options: dict[str, Any] = {"min_df": 1, "heldout": 0}
    for name in PACKS[pack].split():
        if name not in leave_out:
            fields = [options.get("meta"), VALUES[name].get("meta")]
            options |= VALUES[name]
            if any(fields):
                options["meta"] = ",".join(dict.fromkeys(filter(None, fields)))
    return options


def names_of_options() -> list[str]:
    """Every option of an ingest that a user can give for files."""
    names = [field.name for field in dataclasses.fields(IngestConfig)]
    return [name for name in names if name not in INTERNAL and name not in ABSENT]


def write_inputs(folder: Path) -> None:
    """The files that the values name."""
    numbers = range(200)
    (folder / "words.txt").write_text("river\nmountain\nvillage\nwater\nstone\ntree\n")
    (folder / "stop.txt").write_text("river\nfluss\n")
    (folder / "variants.tsv").write_text("walked\twalking\n")
    sides = [f"d{i}\tmood{i % 3}\n" for i in numbers]
    (folder / "side.tsv").write_text("id\tmood\n" + "".join(sides))
    (folder / "rows.tsv").write_text("".join(f"{i + 1}\tmood{i % 3}\n" for i in numbers))
    (folder / "links.tsv").write_text("".join(f"d{i}\td{(7 * i) % 200}\n" for i in numbers))


def records(first: int, n: int) -> list[dict[str, Any]]:
    """Documents with fields of every kind; the same for the same numbers."""
    made = []
    for number in range(first, first + n):
        draw = random.Random(number)
        made.append(
            {
                "id": f"d{number}",
                "key": f"k{number}",
                "text": " ".join(draw.choice(WORDS) for _ in range(12)),
                "title": " ".join(draw.choice(WORDS) for _ in range(4)),
                "year": str(1990 + number % 20),
                "group": draw.choice(["red", "blue", "green"]),
                "authors": draw.choice(["ann|bob", "ann", "eve"]),
            }
        )
    return made


def write_records(path: Path, first: int, n: int) -> Path:
    """The documents as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records(first, n)))
    return path
