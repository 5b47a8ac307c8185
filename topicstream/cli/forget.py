"""``topics forget``: ids -> ``topicstream.forget`` -> what went, and the proof."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from topicstream.errors import Busy, TopicsError, json_line


@click.command("forget")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option("--ids", "file", type=click.File("r", encoding="utf-8"), help="a file with an id a line (- for stdin)")
@click.option("--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="a model trained on it; may be given several times [default: TOPICS_MODEL or model, if it is one of it]",
)
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
def command(ids: tuple[str, ...], file: Any, corpus: str, models: tuple[str, ...], as_json: bool) -> None:
    """Remove documents for good, by their ids: text, id, topics and where they came from.

    They go out of the store (which is compacted on the way), and the state that the runs of models keep of every document
    goes as a whole, so the next training or update starts every block. A store in the folder of `topics retrain` takes that
    folder's runs, versions and state with it. At the end every file is searched for the ids: exit 0 when none is left, 1
    when one is, 4 when a process that reads the store still holds old files (run this again when it has ended).

    What it cannot reach it names: raw files, exports, and the topics themselves, which were learnt with the documents.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.progress import Shown
    from topicstream.retraining.forget import forget, trained_on

    wanted = [*ids, *([line.rstrip("\r\n") for line in file if line.strip()] if file is not None else [])]
    if not wanted or not all(wanted):
        raise click.UsageError("name ids, or a file of ids with --ids FILE")
    if not models:
        default = os.environ.get("TOPICS_MODEL", "model")
        there = any((Path(default) / n).exists() for n in ("manifest.json", "training.json"))
        models = (default,) if there and trained_on(Path(default), corpus) else ()
    done = forget(wanted, corpus, models=models, progress=Shown(verbosity()))
    click.echo(json_line(done) if as_json else "\n".join(lines(done)))
    if done["waiting"]:  # then what is left may be in these alone
        raise Busy(f"{corpus}: a process that reads it holds old files; run this again when it has ended")
    if done["left"]:
        first = done["left"][0]
        raise TopicsError(f"{first['file']}: still holds what was to be forgotten ({first['what']})")


def lines(done: dict[str, Any]) -> list[str]:
    """The result for people."""
    n = done["documents"]
    out = [f"{done['corpus']}: {n:,} document{'s' * (n != 1)} forgotten, {done['cells']:,} cells"]
    if done["not_found"]:
        shown = ", ".join(map(repr, done["not_found"][:10])) + (", ..." if len(done["not_found"]) > 10 else "")
        out.append(f"not in the store: {shown}")
    out += [f"{run}: block state and checkpoints removed; it starts every block anew" for run in done["runs"]]
    out.append(f"{done['files']:,} files searched, " + ("no id is left" if not done["left"] else "ids are left:"))
    out += [f"  {entry['file']}: {entry['what']}" for entry in done["left"]]
    return [*out, "not reached:", *(f"  {text}" for text in done["elsewhere"])]
