"""``topics demo``: topics of the docstrings of Python's standard library."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from topicstream.base.errors import TopicsError
from topicstream.base.files.durable import lock, replacing
from topicstream.base.files.outputs import check_place, written
from topicstream.cli.command import Printed, show_progress, topics_command
from topicstream.cli.process import verbosity

LEAST = 80
"""Characters of the shortest docstring; a shorter one has too few words for topics."""
NO_PROSE = {"site-packages", "test", "tests", "idle_test", "lib2to3"}
"""Folders whose docstrings are not read."""
DOCUMENTS = "docstrings.jsonl"
STEPS = {
    "ingest": f"ingest {DOCUMENTS} --heldout 5%",
    "train": "train -K 20 --passes 200 --mem-limit 1G",
    "eval": "eval --heldout",
    "show": "show --words 8",
}
"""Commands that run in the folder, by the name of their result."""
REPEATED = ("ingest", "train")
"""Commands that get --force, because an earlier demo may have left its store and model."""


@topics_command("demo")
@click.argument("folder", default="topicstream-demo", required=False, type=click.Path())
@click.option(
    "--documents",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Only write the documents to this file, as JSON lines.",
)
@click.option("--force", is_flag=True, help="With --documents: replace a file of ours.")
def command(folder: str, documents: str | None, force: bool) -> Printed:
    """Ingest, train, score and show a small corpus, to see in a minute what the commands do.

    The documents are the docstrings of Python's standard library. They, the store and the model lie
    in FOLDER (default: topicstream-demo), which a second demo replaces.
    """
    if documents is not None:
        with written(Path(documents), force=force, option="--documents") as file:
            count = write_documents(file)
        return {"documents": count, "out": documents}, [f"{documents}: {count:,} documents"]
    home = Path(folder)
    check_place(home, "FOLDER")
    as_json = click.get_current_context().params["as_json"]
    with lock(home, "running the demo in", kind="demo"):
        with show_progress() as progress:
            progress.step("reading the docstrings of Python's standard library")
            with replacing(home / DOCUMENTS) as beside, open(beside, "wb") as file:
                count = write_documents(file)
        results = run_steps(home, as_json)
    return {"folder": folder, "documents": count, **results}, [
        "",
        f"{folder} holds the store and the model. To read the topics in a browser:",
        f"  cd {folder} && topics report",
    ]


def run_steps(home: Path, as_json: bool) -> dict[str, Any]:
    """Run the commands in the folder.

    Returns
    -------
    dict
        Results by name with ``as_json``; empty without it, as the commands print theirs.
    """
    from topicstream.cli.main import topics  # cli.main imports this module by its name

    results = {}
    with contextlib.chdir(home), _hide_places():
        for name, line in STEPS.items():
            words = line.split() + ["--force"] * (name in REPEATED)
            if as_json:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    topics.main([*words, "--json"], "topics", standalone_mode=False)
                results[name] = json.loads(printed.getvalue())
                continue
            if verbosity() >= 0:
                click.echo(f"$ topics {line}")
            topics.main(words, "topics", standalone_mode=False)
    return results


@contextlib.contextmanager
def _hide_places() -> Iterator[None]:
    """Hide $TOPICS_CORPUS and $TOPICS_MODEL, so that --force does not replace those."""
    places = {name: os.environ.pop(name, None) for name in ("TOPICS_CORPUS", "TOPICS_MODEL")}
    try:
        yield
    finally:
        os.environ.update({name: place for name, place in places.items() if place is not None})


def standard_library() -> Path:
    """Return the folder of Python's own modules."""
    return Path(sysconfig.get_paths()["stdlib"])


def write_documents(file: BinaryIO) -> int:
    """Write the docstrings as JSON lines and count them.

    Raises
    ------
    TopicsError
        If the standard library has no sources.
    """
    count = 0
    library = standard_library()
    for name, module, text in docstrings(library):
        record = {"id": name, "text": text, "module": module}
        file.write(json.dumps(record).encode() + b"\n")
        count += 1
    if not count:
        raise TopicsError(
            f"{library}: has no docstrings; install the sources of Python's standard library"
        )
    return count


def docstrings(library: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (id, top-level module, docstring) of each module, class and function, in path order."""
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if NO_PROSE & set(parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue
        for name, line, text in docstrings_of(tree, ".".join(parts)):
            yield f"{name}:{line}", parts[0], text


def docstrings_of(tree: ast.Module, module: str) -> Iterator[tuple[str, int, str]]:
    """Yield (qualified name, line, docstring) of a parsed module and what it defines."""
    nodes: list[tuple[str, ast.AST]] = [(module, tree)]
    while nodes:
        name, node = nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) >= LEAST:
                yield name, getattr(node, "lineno", 0), text
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                nodes.append((f"{name}.{child.name}", child))
