"""A progress that keeps what it is told."""

from __future__ import annotations

from topicstream.training.progress import Progress


class Listening(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)
