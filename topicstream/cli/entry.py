"""The script ``topics``, which Ctrl-C ends in one line even while modules are imported."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line of this process."""
    # searching modules for garbage while they are imported takes a sixth of a short command
    gc.disable()
    try:
        from topicstream.cli.main import main as run_command  # it takes a while

        run_command()
    except KeyboardInterrupt:  # from before cli.main handles signals
        sys.stderr.write("topics: interrupted\n")
        sys.exit(130)
