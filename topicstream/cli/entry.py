"""The script ``topics``: Ctrl-C ends it in one line also while the commands are still being imported."""

from __future__ import annotations

import os
from importlib import import_module


def _interrupted(*_: object) -> None:
    os.write(2, b"topics: interrupted\n")
    os._exit(130)  # nothing is begun that would have to be cleaned up


def main() -> None:
    """Entry point."""
    signals = import_module("_signal")  # ``signal`` without its enumerations, which take a while to import
    if signals.getsignal(signals.SIGINT) is signals.default_int_handler:
        signals.signal(signals.SIGINT, _interrupted)
    from topicstream.cli.main import main as begin

    begin()
