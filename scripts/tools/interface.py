"""Dump the interface that users see, so that a refactoring can be compared with what stood before.

    python scripts/tools/interface.py > before.json          commands, options, results, exit codes
    python scripts/tools/interface.py --against before.json  the differences, exit code 1 where any

The dump holds every command with its options (names, type, default, help), the options of every
engine, the signatures of the Python functions, the files of a store and of models, and the
``--json`` results and exit codes of a script of commands on a small corpus made here.  Times,
sizes of processes, paths and content hashes of the machine are left out.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

import topicstream
from topicstream.base import plugins
from topicstream.cli.main import topics

VOLATILE = re.compile(
    r"second|time|date|peak|memory|bytes|path|folder|version|speed|per_s|digest|hash|written|host"
)
"""Names of JSON fields whose values differ from run to run or between machines."""

COMMANDS = """
ingest docs.jsonl --out c.zarr --meta party,year --min-df 2 --heldout 10% --stopwords english --json
ingest docs.jsonl --out c.zarr --meta party,year --min-df 2 --heldout 10% --json
ingest docs.jsonl --out words.zarr --meta authors=author,labels=label,links=refs --min-df 1 --json
ingest nothing.jsonl --out n.zarr
ingest docs.jsonl --out c.zarr --no-such-option
info c.zarr --json
train --corpus c.zarr -K 4 --passes 5 --model m --json
train --corpus c.zarr -K 4 --algo atbp --passes 4 --model atbp --json
train --corpus c.zarr -K 4 --algo vb --passes 4 --model vb --json
train --corpus c.zarr -K 4 --algo sparselda --passes 10 --model sparselda --json
train --corpus c.zarr -K 0 --model k0
train --corpus c.zarr -K 5 --model m
train --corpus c.zarr -K 4 --algo nothing --model x
train --corpus words.zarr -K 4 --algo atm --passes 3 --model atm --json
train --corpus words.zarr --algo llda --passes 3 --model llda --json
train --corpus words.zarr -K 4 --algo rtm --passes 3 --model rtm --json
train --corpus c.zarr -K 4 --algo mixture --passes 5 --model mixture --json
train --corpus c.zarr -K 4 --algo anchors --model anchors --json
info m --json
eval --model m --corpus c.zarr --heldout --json
eval --model m --corpus c.zarr --coherence --json
eval --model m --corpus c.zarr --diversity --json
show --model m --corpus c.zarr --json
show --model m --corpus c.zarr --by party --json
show --model m --corpus c.zarr --over-time --by year --json
show --model m --corpus c.zarr --table words.csv --json
show --model m --corpus c.zarr --correlations pairs.csv --json
show --model m --corpus c.zarr --theta theta.csv --json
show --model m --corpus c.zarr --similar d3 --json
show --model m --corpus c.zarr --tree --json
show --model atm --corpus words.zarr --authors --json
infer new.jsonl --model m --json
infer new.jsonl --model m --out topics.csv --json
infer new.jsonl --model m --method gibbs --seed 3 --json
effects year --model m --corpus c.zarr --json
report --model m --corpus c.zarr --out page.html --json
export --model m --format mallet --out mallet.txt --json
export --model m --format pyldavis --corpus c.zarr --out vis.json --json
edit --model m --label 0=first --json
ingest more.jsonl --out c.zarr --append --json
update --model m --corpus c.zarr --out m2 --json
compare m m2 --json
sweep --corpus c.zarr -K 2,3 --seeds 1 --passes 3 --out sweep --json
forget d3 --corpus c.zarr --json
compact c.zarr --json
engines --json
"""


def write_documents(path: Path, first: int, count: int) -> None:
    """Write documents of four themes with metadata as JSON lines; the same in every run."""
    draw = random.Random(first)
    with path.open("w") as file:
        for number in range(first, first + count):
            theme = draw.randrange(4)
            words = [f"word{draw.choice(range(theme * 20, theme * 20 + 25))}x" for _ in range(40)]
            record = {
                "id": f"d{number}",
                "text": " ".join(words),
                "party": ["left", "right"][theme % 2],
                "year": 2000 + number % 10,
                "author": [f"author {theme}"],
                "label": [f"theme {theme}"],
                "refs": [f"d{max(0, number - 1)}"],
            }
            file.write(json.dumps(record) + "\n")


def without_volatile(value: Any) -> Any:
    """Leave out what differs from run to run; round numbers to nine digits."""
    if isinstance(value, dict):
        return {k: without_volatile(v) for k, v in value.items() if not VOLATILE.search(str(k))}
    if isinstance(value, list):
        return [without_volatile(v) for v in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def run_commands(folder: Path) -> dict[str, Any]:
    """Run the script of commands in a folder: exit code and result of each."""
    write_documents(folder / "docs.jsonl", 0, 400)
    write_documents(folder / "more.jsonl", 400, 50)
    write_documents(folder / "new.jsonl", 1000, 5)
    results = {}
    for line in COMMANDS.strip().split("\n"):
        done = subprocess.run(
            [sys.executable, "-m", "topicstream", *line.split(), "-q"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        output: Any = done.stdout.replace(str(folder), "")
        if "--json" in line and done.returncode == 0:
            try:
                output = without_volatile(json.loads(output))
            except ValueError:
                rows = [json.loads(row) for row in output.splitlines() if row.startswith("{")]
                output = without_volatile(rows)
        error = done.stderr.replace(str(folder), "") if done.returncode else ""
        results[line] = {"exit": done.returncode, "output": output, "error": error}
    return results


def list_files(folder: Path) -> list[str]:
    """List the files of stores and models, numbers in their names left out."""
    names = {re.sub(r"\d+", "N", str(p.relative_to(folder))) for p in folder.rglob("*")}
    return sorted(names)


def describe_options() -> dict[str, Any]:
    """Describe every command with its options, and the options of every engine."""
    context = click.Context(topics)
    described: dict[str, Any] = {}
    for name in topics.list_commands(context):
        command = topics.get_command(context, name)
        assert command is not None
        described[name] = {
            "help": command.help,
            "options": {
                " ".join(p.opts + p.secondary_opts): {
                    "type": str(p.type),
                    "default": repr(p.default),
                    "help": getattr(p, "help", None),
                }
                for p in command.params
            },
        }
    for name in plugins.entries(plugins.ENGINES):
        config = plugins.load(plugins.ENGINES, name).Options
        described[f"engine {name}"] = {
            field.name: [str(field.type), repr(field.default)] for field in fields(config)
        }
    return described


def describe_functions() -> dict[str, str]:
    """Describe the public names of the package by their signatures."""
    described = {}
    for name in topicstream.__all__:
        thing = getattr(topicstream, name)
        described[name] = str(inspect.signature(thing)) if callable(thing) else type(thing).__name__
    return described


def main() -> None:
    """Print the dump, or its differences from an earlier one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COLUMNS"] = "100"
        results = run_commands(Path(folder))
        files = list_files(Path(folder))
    dump = {
        "options": describe_options(),
        "functions": describe_functions(),
        "results": results,
        "files": files,
    }
    text = json.dumps(dump, indent=1, ensure_ascii=False)
    if arguments.against is None:
        print(text)
        return
    before = arguments.against.read_text().rstrip("\n").split("\n")
    lines = list(difflib.unified_diff(before, text.split("\n"), "before", "now", lineterm="", n=2))
    print("\n".join(lines) or "no difference")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
