"""Run every command and every line of Python that the README or a tutorial shows: no page can go stale.

    python scripts/tools/run_readme.py README.md docs/tutorials/*.md

What is run: the lines of the blocks fenced as ```sh, and the blocks fenced as ```python, in order, in one shell a page; the
README's in the repository, every other page's in an empty folder.  `make test` is left out (whoever calls this has just run
it).  Stops at the first that fails and says which line of the page it stands on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

LEFT_OUT = ("make test", "make bench", "make peers")


def commands(text: str) -> list[tuple[int, str]]:
    """(line number, command) of every line in a ```sh block, a trailing backslash joining lines, and of every ```python
    block."""
    found, inside, held, began, code = [], "", "", 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if inside == "```python":
                found.append((began, f"python - <<'END OF PYTHON'\n{code}END OF PYTHON"))
            inside, began, code = line.strip(), number, ""
            continue
        if inside == "```python":
            code += line + "\n"
        if inside != "```sh":
            continue
        if not held:
            began = number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1]
            continue
        command = (held + line).strip()
        held = ""
        if command and not command.startswith("#"):
            found.append((began, command))
    return found


def run(page: Path) -> int:
    """Run one page; returns the exit code."""
    root = Path(__file__).resolve().parents[2]
    script = ["set -euo pipefail"]
    for number, command in commands(page.read_text(encoding="utf-8")):
        if command.split("#")[0].strip().startswith(LEFT_OUT):
            continue
        shown = command.partition("\n")[0].replace("'", "'\\''")
        script += [f"echo '--- {page.name}:{number}: {shown}'", f"LINE={number}", command]
    script.append(f"echo '--- every command of {page.name} ran'")
    trap = f"trap 'echo \"{page.name}:$LINE: this command failed\" >&2' ERR"
    path = f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(root)}
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        where = root if page.resolve().parent == root else Path(folder)
        return subprocess.run(["bash", "-c", "\n".join([trap, *script])], cwd=where, env=env, check=False).returncode


def main(pages: list[str]) -> int:
    """Run them all; returns the first exit code that is not 0."""
    return next((code for code in (run(Path(page)) for page in pages) if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["README.md"]))
