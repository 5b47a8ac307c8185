"""Run every command and every line of Python that the README or a tutorial shows: no page can go
stale.

    python scripts/tools/run_readme.py README.md docs/tutorials/*.md
    build/clean/bin/python scripts/tools/run_readme.py --installed README.md

It runs, in order, in one shell a page: the lines of blocks fenced as ```sh, blocks fenced as
```python, and in blocks fenced as ```console the lines that begin with ``$ ``.  The lines below
such a command have to be among those that it prints, in their order; numbers may differ.
``<!-- run: COMMAND -->`` runs a command that readers do not see.

The README's commands run in the repository, every other page's in an empty folder, so two pages run
at a time; each page's output is printed as a whole, in the order of the pages.  ``make test`` is
left out (whoever calls this has just run it).  The first command that fails ends its page and
names its line; pages that have not begun then stay out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LEFT_OUT = ("make test", "make peers")
PAGES_AT_A_TIME = 2
NUMBER = re.compile(r"\d[\d,.]*")
HIDDEN = re.compile(r"<!-- run: (.+) -->")


def blocks(text: str) -> list[tuple[int, str, list[str]]]:
    """(line number, kind, lines) of every fenced block and hidden command."""
    found: list[tuple[int, str, list[str]]] = []
    kind = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            kind = "" if kind else line[3:].strip() or "text"
            if kind:
                found.append((number + 1, kind, []))
        elif kind:
            found[-1][2].append(line)
        elif match := HIDDEN.match(line):
            found.append((number, "sh", [match[1]]))
    return found


def commands(text: str) -> list[tuple[int, str]]:
    """(line number, command) of everything that a page runs; a trailing backslash joins lines."""
    found: list[tuple[int, str]] = []
    for first, kind, lines in blocks(text):
        if kind == "python":
            found.append(
                (first, "\n".join(["python - <<'END OF PYTHON'", *lines, "END OF PYTHON"]))
            )
        elif kind == "console":
            starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
            for i, stop in zip(starts, [*starts[1:], len(lines)]):
                expected = " ".join(
                    shlex.quote(line) for line in lines[i + 1 : stop] if line.strip()
                )
                found.append(
                    (
                        first + i,
                        f'{lines[i][2:]} 2>/dev/null | python "$RUN_README" --expect {expected}',
                    )
                )
        elif kind == "sh":
            joined = ""
            for i, line in enumerate(lines):
                joined += line.strip().removesuffix("\\")
                if not line.rstrip().endswith("\\"):
                    if joined and not joined.startswith("#"):
                        found.append((first + i, joined))
                    joined = ""
    return found


def expect(wanted: list[str], printed: list[str]) -> int:
    """0 where the wanted lines are among the printed ones, in their order, whatever their numbers;
    else 1, and both are shown.
    """
    masked = iter([NUMBER.sub("#", line).strip() for line in printed])
    missing = [line for line in wanted if NUMBER.sub("#", line).strip() not in masked]
    if missing:
        print(
            "\n".join(["the page shows:", *wanted, "the command prints:", *printed]),
            file=sys.stderr,
        )
    return int(bool(missing))


def run(page: Path, installed: bool) -> tuple[int, str]:
    """Run one page.

    Parameters
    ----------
    page
        README.md or a tutorial.
    installed
        With the package beside this Python, instead of that of the repository.

    Returns
    -------
    tuple[int, str]
        The exit code, and all that its commands printed.
    """
    root = Path(__file__).resolve().parents[2]
    script = ["set -euo pipefail"]
    for number, command in commands(page.read_text(encoding="utf-8")):
        if installed and command == "make demo":
            command = "topics demo demo"
        if command.split("#")[0].strip().startswith(LEFT_OUT):
            continue
        shown = (
            command.partition("\n")[0].partition(" 2>/dev/null | python ")[0].replace("'", "'\\''")
        )
        script += [f"echo '--- {page.name}:{number}: {shown}'", f"LINE={number}", command]
    script.append(f"echo '--- every command of {page.name} ran'")
    trap = f"trap 'echo \"{page.name}:$LINE: this command failed\" >&2' ERR"
    programs = Path(sys.executable).parent if installed else root / ".venv" / "bin"
    env = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "" if installed else str(root),
        "RUN_README": str(Path(__file__).resolve()),
    }
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        in_root = page.resolve().parent == root and not installed
        where = root if in_root else Path(folder)
        done = subprocess.run(
            ["bash", "-c", "\n".join([trap, *script])],
            cwd=where,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return done.returncode, done.stdout


def main(arguments: list[str]) -> int:
    """Run the pages; returns the first exit code that is not 0."""
    if arguments[:1] == ["--expect"]:
        return expect(arguments[1:], sys.stdin.read().splitlines())
    installed = arguments[:1] == ["--installed"]
    pages = [Path(page) for page in arguments[installed:]]
    with ThreadPoolExecutor(PAGES_AT_A_TIME) as pool:
        runs = [pool.submit(run, page, installed) for page in pages]
        for finished in runs:
            code, output = finished.result()
            print(output, end="", flush=True)
            if code:
                pool.shutdown(wait=False, cancel_futures=True)
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["README.md"]))
