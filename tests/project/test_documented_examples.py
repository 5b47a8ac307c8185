"""The examples of docs/library.md run as they stand, in order; every public name is documented
there and has one.
"""

from __future__ import annotations

import inspect
import re
import runpy

import pytest

import topicstream
from tests import ROOT

PAGE = ROOT / "docs" / "library.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.mark.slow
def test_the_library_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.py").write_text("\n".join(BLOCKS))
    runpy.run_path(str(tmp_path / "page.py"))


@pytest.mark.parametrize("name", [n for n in topicstream.__all__ if not n.startswith("__")])
def test_every_public_name_is_documented(name):
    thing = getattr(topicstream, name)
    assert inspect.getdoc(thing)
    assert re.search(rf"^   {name}$", (PAGE.parent / "api.rst").read_text(), re.M)
    assert any(f"topicstream.{name}" in block for block in BLOCKS)
    if inspect.isclass(thing):
        public = [
            n
            for n, m in vars(thing).items()
            if not n.startswith("_") and callable(getattr(m, "fget", m))
        ]
        assert [n for n in public if not inspect.getdoc(getattr(thing, n))] == []
    for parameter in inspect.signature(thing).parameters.values():
        assert inspect.isclass(thing) or parameter.annotation is not parameter.empty, parameter
