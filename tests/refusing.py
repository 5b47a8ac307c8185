"""A command that is refused."""

from __future__ import annotations

import pytest

from topicstream.cli.main import run


def refused(*args: object, capsys: pytest.CaptureFixture[str], code: int = 3) -> str:
    """The one line that it says."""
    capsys.readouterr()
    assert run([*map(str, args), "-q"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]
