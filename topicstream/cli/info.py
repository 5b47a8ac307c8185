"""``topics info``: describe a corpus store or a model, whichever its manifest names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from topicstream.base.errors import StoreError, json_line, show_addresses
from topicstream.base.files.durable import read_json
from topicstream.base.places import places
from topicstream.base.text import render, render_each
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.extension import extended, take_extensions
from topicstream.corpus.format import LINKS
from topicstream.corpus.info import describe_store, histogram_line, linked_text
from topicstream.corpus.info import verify as find_damage
from topicstream.corpus.reader import Corpus
from topicstream.display import model_info
from topicstream.model.manifest import unfinished_run

CORPUS = """{path}: corpus, generation {generation}, fingerprint {fingerprint:.16}
  documents {train.docs:,} training + {aside.docs:,} held out ({heldout_asked})
[  {none_or_removed}]
  words     {words:,}[ of {summary.words_before:,} before pruning]
  values    {cells:,} in {train.blocks} + {aside.blocks} blocks, {bytes:size}, {bytes_a_cell:.2f} \
bytes each[{weighted:?}, weighted]
  tokens    {tokens:,.0f}
  columns   {columns}
[  texts     kept in the store, {text_bytes:size} compressed]"""
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
    for extension, extension_options in take_extensions("info", options).values():
        if kind != "model":
            raise click.UsageError(
                f"{path} is a corpus store; {extension.requires} requires a model"
            )
        with show_progress() as progress:
            result, extension_lines = extension.run(path, extension_options, progress)
        return result, extension_lines
    if kind == "model":
        about = model_info.describe(path, verify=verify) | {"path": place}
        return about, model_info.lines(about)
    result = _describe_corpus(path, verify, top) | {"path": place}
    return result, lines(result, verify)


def _kind(path: Path) -> str:
    """Return ``corpus`` or ``model``, as the manifest in the folder says."""
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


def _describe_corpus(path: str, verify: bool, top: int) -> dict[str, Any]:
    """Describe a store, or print and raise what is damaged in it."""
    corpus = Corpus.open(path, dense=True)
    problems = [show_addresses(problem) for problem in find_damage(corpus)] if verify else []
    if problems:
        if click.get_current_context().params["as_json"]:
            click.echo(
                json_line({"path": show_addresses(path), "kind": "corpus", "problems": problems}, 1)
            )
        for problem in problems[1:]:
            click.echo(f"topics: {problem}", err=True)
        raise StoreError(problems[0])
    return describe_store(corpus, top) | ({"problems": []} if verify else {})


def lines(store: dict[str, Any], verified: bool) -> list[str]:
    """Format the description of a store as lines."""
    train = store["parts"]["train"]
    aside = store["parts"]["heldout"]
    summary = store["summary"]
    cells = train["cells"] + aside["cells"]
    size = train["bytes"] + aside["bytes"]
    empty = summary.get("documents_empty", 0)
    removed = summary.get("documents_removed", 0)
    about = {
        **store,
        "train": train,
        "aside": aside,
        "heldout_asked": (store["heldout"] or {}).get("asked", "?"),
        "none_or_removed": f"{empty:,} without a word, {removed:,} removed"
        if empty or removed
        else "",
        "columns": [
            f"{name} (list)" if kind == "list" else name for name, kind in store["columns"].items()
        ],
        "text_bytes": summary.get("text_bytes") or None,
        "cells": cells,
        "bytes": size,
        "bytes_a_cell": size / max(cells, 1),
        "tokens": train["tokens"] + aside["tokens"],
    }
    out = render(CORPUS, about)
    for axis in store["axes"]:
        if axis["name"] == LINKS:
            out.append(
                f"  {LINKS:9} {linked_text(axis)}; {axis['longest']:,} at most of one document"
            )
        elif axis["name"] != "words":
            out += render(AXIS, axis)
    out += [
        "  words most frequent (count, documents):",
        *render_each("    {word}  {count:,}  {df:,}", store["top_words"]),
    ]
    curve = [f"{c['words']:,}: {100 * c['share']:.1f} %" for c in store["vocabulary_curve"]]
    return out + render(
        WORDS,
        {
            **store,
            "histogram": histogram_line(store["lengths"]["documents"]),
            "curve": curve,
            "verified": verified,
        },
    )
