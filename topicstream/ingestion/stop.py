"""How a signal ends an ingest."""

from __future__ import annotations

from topicstream.errors import Interrupted


class Stop:
    """A signal handler: while reading, the first signal is kept until the next commit; any other stops at once (what
    is committed is safe, the rest is done again)."""

    def __init__(self) -> None:
        self.signum = 0
        self.deferring = False

    def __call__(self, signum: int, frame: object = None) -> None:
        if self.signum or not self.deferring:
            raise self.error(signum)
        self.signum = signum

    @staticmethod
    def error(signum: int) -> Interrupted:
        """What is raised."""
        return Interrupted("stopped; the same command again carries on where this one was", signum)
