"""The example package as an installer leaves it, for tests of entry points."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.example_package import PACKAGE, forget
from topicstream.base import plugins


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as an installer leaves it: its modules and a .dist-info beside them.

    The commands are imported first: one that is imported beside the package keeps its options for
    all later tests of the process.
    """
    for name in plugins.own_names(plugins.COMMANDS):
        plugins.load(plugins.COMMANDS, name)
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    about = site / f"topicstream_example-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (site / "topicstream_example").symlink_to(PACKAGE / "topicstream_example")
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    forget()
    yield
    forget()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    subjects = [[f"{name}{i}" for i in range(20)] for name in ("sea", "sky", "farm")]
    texts = [" ".join(rng.choice(subjects[d % 3], 30)) for d in range(90)]
    Path("text.para").write_text("\n\n".join(texts) + "\n")
    return tmp_path
