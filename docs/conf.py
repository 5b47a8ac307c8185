"""Sphinx: ``make docs``."""

from __future__ import annotations

import topicstream

project = "topicstream"
version = release = topicstream.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
napoleon_google_docstring = False
napoleon_use_rtype = False
autosummary_generate = True
smartquotes = False  # help names options as --algo
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
html_theme = "alabaster"
html_show_copyright = False  # LICENSE says it
html_theme_options = {
    "page_width": "1100px",
    "description": topicstream.__doc__.splitlines()[0].partition(": ")[2],
}
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
myst_heading_anchors = 2
suppress_warnings = ["misc.highlighting_failure", "toc.not_included"]
