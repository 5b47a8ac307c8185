"""Commands and what they say."""

from __future__ import annotations

import contextlib
import io

import pytest

from topicstream.cli.main import run


def refused(*args: object, capsys: pytest.CaptureFixture[str], code: int = 3) -> str:
    """The one line that it says."""
    capsys.readouterr()
    assert run([*map(str, args), "-q"]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def topics(*args: object) -> tuple[int, str]:
    """Run a command; its exit code and all that it says."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(a) for a in args])
    return code, out.getvalue() + err.getvalue()
