"""The example package of tests/plugin_package, and commands that use it."""

from __future__ import annotations

import sys

from tests import ROOT
from topicstream.base import plugins
from topicstream.cli.main import run

PACKAGE = ROOT / "tests" / "plugin_package"


def forget() -> None:
    for cached in (plugins.installed, plugins.entries, plugins.load):
        cached.cache_clear()
    for name in [n for n in sys.modules if n.partition(".")[0] == "topicstream_example"]:
        del sys.modules[name]


def command(capsys, *args: str) -> str:
    assert run([*args, "-q"]) == 0, capsys.readouterr().err
    return capsys.readouterr().out
