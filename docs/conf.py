"""Sphinx: ``make docs``."""

from __future__ import annotations

import topicstream

project = "topicstream"
version = release = topicstream.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "description": topicstream.__doc__.splitlines()[0].partition(": ")[2]}
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
myst_heading_anchors = 2
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]


def _as_written(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Our docstrings are laid out for a terminal: they are shown as they are."""
    if lines:
        lines[:] = ["::", "", *("    " + line for line in lines), ""]


def setup(app):  # type: ignore[no-untyped-def]
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _as_written)
