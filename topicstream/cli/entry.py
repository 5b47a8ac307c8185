"""The script ``topics``: Ctrl-C ends it in one line also while the commands are still being imported."""

from __future__ import annotations

import gc
import os
import signal


def _interrupted(*_: object) -> None:
    os.write(2, b"topics: interrupted\n")
    os._exit(130)  # nothing is begun that would have to be cleaned up


def main() -> None:
    """Entry point."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    gc.disable()  # modules are not garbage: searching them while they are imported takes a sixth of a short command
    from topicstream.cli.main import main as begin  # behind the handler: it takes a while

    begin()
