"""Run every command that the README shows, in order, in one shell: the README cannot go stale.

    python scripts/tools/run_readme.py README.md

The commands are the lines of the blocks fenced as ```sh.  `make test` is left out (whoever calls this has just run it).
Stops at the first command that fails and says which line of the README it stands on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LEFT_OUT = ("make test", "make bench", "make peers")


def commands(text: str) -> list[tuple[int, str]]:
    """(line number, command) of every line in a ```sh block; a trailing backslash joins lines."""
    found, inside, held, began = [], False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line.strip() == "```sh"
            continue
        if not inside:
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


def main(readme: Path) -> int:
    """Run them; returns the exit code."""
    root = readme.resolve().parent
    script = ["set -euo pipefail"]
    for number, command in commands(readme.read_text(encoding="utf-8")):
        if command.split("#")[0].strip().startswith(LEFT_OUT):
            continue
        shown = command.replace("'", "'\\''")
        script += [f"echo '--- {readme.name}:{number}: {shown}'", f"LINE={number}", command]
    script.append("echo '--- every command of the README ran'")
    trap = f"trap 'echo \"{readme.name}:$LINE: this command failed\" >&2' ERR"
    env = {**os.environ, "PATH": f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", "\n".join([trap, *script])], cwd=root, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")))
