"""A progress that keeps what it is told."""

from __future__ import annotations

from topicstream.base.progress import Progress


class Listening(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def end_pass(self, record: object, passes: int) -> None:
        self.say(f"pass of {passes} at most: {record}")
