"""``topics info``: what stands at a path, a corpus store or a model, decided by its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from topicstream.base.errors import StoreError, json_line, named
from topicstream.base.files.durable import read_json
from topicstream.base.places import places
from topicstream.base.text import each, render
from topicstream.cli.command import Printed, showing, topics_command
from topicstream.cli.extension import extended, take_extensions
from topicstream.corpus.format import LINKS
from topicstream.corpus.info import figures, histogram_line, linked_text
from topicstream.corpus.info import verify as damage
from topicstream.corpus.reader import Corpus
from topicstream.display import model_info
from topicstream.model.manifest import unfinished_run

CORPUS = """{path}: corpus, generation {generation}, fingerprint {fingerprint:.16}
  documents {train.docs:,} training + {aside.docs:,} held out ({heldout_asked})
[  {none_or_removed}]
  words     {words:,}[ of {summary.words_before:,} before pruning]
  {cell:8}  {cells:,} in {train.blocks} + {aside.blocks} blocks, {bytes:size}, {bytes_a_cell:.2f} \
bytes each[{weighted:?}, weighted]
  tokens    {tokens:,.0f}
  columns   {columns}"""
AXIS = "  {name:<9} {size:,}, {entries:,} in training documents, {longest:,} at most in one"
WORDS = """  distinct words a document, 1 to {lengths.longest:,} by powers of two: |{histogram}|
  tokens in the most frequent words: {curve}
[{verified:?}  every block and file matches its checksum]"""


@topics_command("info", short_help="Describe a corpus store or a model; verify its files.")
@click.argument("path", default="corpus.zarr", envvar="TOPICS_CORPUS")
@click.option(
    "--verify",
    is_flag=True,
    help="Verify every checksum; exit 3 and name the files if any is damaged.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of most frequent words to list.",
)
@extended("info")
def command(path: str, verify: bool, top: int, **options: Any) -> Printed:
    """Describe the corpus store or model at PATH (default: corpus.zarr).

    With --drift or --by, report period by period how well a model still fits: the share of distinct
    words seen in training, of unknown tokens, perplexity beside that of the corpus' held-out
    documents, and the distance of topic usage. As in `topics retrain`, a period has drifted where
    more than 20 % of its tokens are unknown, or its perplexity is more than twice that of old
    documents.
    """
    place = path
    path = str(places().resolve(path))
    kind = _kind(Path(path))
    for extension, own in take_extensions("info", options).values():
        if kind != "model":
            raise click.UsageError(
                f"{path} is a corpus store; {extension.requires} requires a model"
            )
        with showing() as progress:
            result, told = extension.run(path, own, progress)
        return result, told
    if kind == "model":
        about = model_info.describe(path, verify=verify) | {"path": place}
        return about, model_info.lines(about)
    result = _corpus(path, verify, top) | {"path": place}
    return result, lines(result, verify)


def _kind(path: Path) -> str:
    manifest = path / "manifest.json"
    if not manifest.exists():
        raise StoreError(
            unfinished_run(path)
            or f"{path}: neither a corpus store nor a model (no manifest.json); create a store "
            f"with `topics ingest`"
        )
    record = read_json(manifest)
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind not in ("corpus", "model"):
        raise StoreError(
            f"{manifest}: is the manifest of neither a corpus store nor a model; restore the file"
        )
    return str(kind)


def _corpus(path: str, verify: bool, top: int) -> dict[str, Any]:
    corpus = Corpus.open(path, dense=True)
    problems = [named(problem) for problem in damage(corpus)] if verify else []
    if problems:
        if click.get_current_context().params["as_json"]:
            click.echo(json_line({"path": named(path), "kind": "corpus", "problems": problems}, 1))
        for problem in problems[1:]:
            click.echo(f"topics: {problem}", err=True)
        raise StoreError(problems[0])
    return figures(corpus, top) | ({"problems": []} if verify else {})


def lines(f: dict[str, Any], verified: bool) -> list[str]:
    """A store for people."""
    train = f["parts"]["train"]
    aside = f["parts"]["heldout"]
    summary = f["summary"]
    cells = train["cells"] + aside["cells"]
    size = train["bytes"] + aside["bytes"]
    empty = summary.get("documents_empty", 0)
    removed = summary.get("documents_removed", 0)
    about = {
        **f,
        "train": train,
        "aside": aside,
        "heldout_asked": (f["heldout"] or {}).get("asked", "?"),
        "none_or_removed": f"{empty:,} without a word, {removed:,} removed"
        if empty or removed
        else "",
        "columns": [
            f"{name} (list)" if kind == "list" else name for name, kind in f["columns"].items()
        ],
        "cells": cells,
        "cell": "cells" if summary.get("tokenizer", True) else "values",
        "bytes": size,
        "bytes_a_cell": size / max(cells, 1),
        "tokens": train["tokens"] + aside["tokens"],
    }
    out = render(CORPUS, about)
    for axis in f["axes"]:
        if axis["name"] == LINKS:
            out.append(
                f"  {LINKS:9} {linked_text(axis)}; {axis['longest']:,} at most of one document"
            )
        elif axis["name"] != "words":
            out += render(AXIS, axis)
    out += [
        "  words most frequent (count, documents):",
        *each("    {word}  {count:,}  {df:,}", f["top_words"]),
    ]
    curve = [f"{c['words']:,}: {100 * c['share']:.1f} %" for c in f["vocabulary_curve"]]
    return out + render(
        WORDS,
        {
            **f,
            "histogram": histogram_line(f["lengths"]["documents"]),
            "curve": curve,
            "verified": verified,
        },
    )
