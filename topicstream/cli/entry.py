"""The script ``topics``: Ctrl-C ends it in one line also while the commands are still being
imported.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point."""
    # modules are not garbage: searching them while they are imported takes a sixth of a short
    # command
    gc.disable()
    try:
        from topicstream.cli.main import main as begin  # it takes a while

        begin()
    except KeyboardInterrupt:  # later ones have become exit codes
        sys.stderr.write("topics: interrupted\n")
        sys.exit(130)
