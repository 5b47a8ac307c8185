"""Make the tables of docs/internals/reproduce again, each by the command that its page shows.

    python scripts/tools/reproduce.py --data ../shared/data --work FOLDER [--stale] [--only TEXT]
    python scripts/tools/reproduce.py --list

A table stands between two comments. The first has its command, a script of scripts/benchmarks with
its options, the second what made it:

    <!-- table: papers.py engines --runs 3 --topics 50 -->
    | ... |
    <!-- made on 2026-11-28 at 9484cc4e, defaults 0a1b2c3d -->

The command is run with --data and --work, as far as the script has them, and the lines of its
output that begin with ``|`` take the table's place. ``defaults`` is a digest of the defaults of all
engines. A table that was made under others, or before they were noted, is stale. Run this when a
default changes, and read the words around the tables: they are written by hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import hashlib
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "internals" / "reproduce"
TABLE = re.compile(
    r"^<!-- table: (?P<command>.+?) -->\n(?P<rows>(?:\|.*\n)*)(?P<made><!-- (?P<how>.+?) -->\n)?",
    re.M,
)
MADE = "<!-- made on {date} at {commit}, defaults {defaults} -->\n"
NEVER = "never made by this script"


@dataclass(frozen=True)
class Table:
    """A table of a page, with its command and what is said of how it was made."""

    page: Path
    command: str
    made: str

    @property
    def made_under(self) -> str:
        """Return the digest of the defaults that it was made under, or an empty string."""
        match = re.search(r"defaults (\w+)", self.made)
        return match[1] if match else ""


def tables_of(page: Path) -> list[Table]:
    """List the tables of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    return [Table(page, m["command"], m["how"] or NEVER) for m in TABLE.finditer(text)]


def digest_defaults() -> str:
    """Digest what every engine does by default, and what ``auto`` adds to it."""
    from topicstream.engines import engines
    from topicstream.training import auto

    facts: dict[str, Any] = {"auto": [auto.BEST, auto.PRIORS, auto.READING, auto.BACKGROUND]}
    for name, kind in engines().items():
        about = kind.about
        facts[name] = {
            "options": {f.name: repr(f.default) for f in dataclasses.fields(kind.Options)},
            "starts": [about.starts[0], about.documents_from, about.best_from],
            "priors": about.priors,
            "stop": [about.passes, str(about.tol)],
        }
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def run_command(table: Table, data: Path, work: Path) -> str:
    """Run a table's command and return the rows that it prints.

    Raises SystemExit where the command fails or prints no table.
    """
    script, *options = shlex.split(table.command)
    path = ROOT / "scripts" / "benchmarks" / script
    source = path.read_text(encoding="utf-8")
    places = {"--data": str(data), "--work": str(work)}
    for option, place in places.items():
        if f'"{option}"' in source:  # not every script needs both
            options += [option, place]
    done = subprocess.run(
        [sys.executable, str(path), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    rows = [row for row in done.stdout.splitlines(keepends=True) if row.startswith("|")]
    if done.returncode or len(rows) < 3:
        raise SystemExit(f"{table.page.name}: {table.command}: exit code {done.returncode}")
    return "".join(rows)


def write_table(table: Table, rows: str, made: str) -> None:
    """Put rows in the place of a table, with what made them."""
    text = table.page.read_text(encoding="utf-8")
    for match in TABLE.finditer(text):
        if match["command"] == table.command:
            new = f"<!-- table: {table.command} -->\n{rows}{made}"
            table.page.write_text(text[: match.start()] + new + text[match.end() :], "utf-8")
            return
    raise SystemExit(f"{table.page}: has no table of {table.command}")


def commit_of_tree() -> str:
    """Return the commit of the working tree, with a ``+`` where files differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run(
        [*git, "rev-parse", "--short=8", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "topicstream"], check=False)
    return commit + ("+" if clean.returncode else "")


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, and make tables or list them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--work", type=Path, help="folder for stores and models")
    parser.add_argument("--only", default="", help="tables whose page or command has this text")
    parser.add_argument("--stale", action="store_true", help="only tables of other defaults")
    parser.add_argument("--list", action="store_true", help="say which are stale, make none")
    given = parser.parse_args(arguments)
    defaults = digest_defaults()
    chosen = [
        table
        for page in sorted(PAGES.glob("*.md"))
        for table in tables_of(page)
        if given.only in f"{page.name}: {table.command}"
        and not (given.stale and table.made_under == defaults)
    ]
    if not given.list and given.work is None:
        parser.error("--work FOLDER is missing")
    for table in chosen:
        state = "as now" if table.made_under == defaults else "stale"
        print(f"{state}  {table.page.name}: {table.command} ({table.made})", flush=True)
        if given.list:
            continue
        rows = run_command(table, given.data, given.work)
        made = MADE.format(date=datetime.date.today(), commit=commit_of_tree(), defaults=defaults)
        write_table(table, rows, made)


if __name__ == "__main__":
    main()
