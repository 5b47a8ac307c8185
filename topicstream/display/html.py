"""HTML pages of one file, which fetch nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable


def fill_page(folder: Traversable, name: str, scripts: Sequence[str], **values: str) -> str:
    """Fill a page's frame with its scripts, the common style and values.

    A content security policy allows no script or style but these, by their hashes.

    Parameters
    ----------
    folder, name
        The frame, an HTML file with places ``{{NAME}}``.
    scripts
        JavaScript files of the folder, joined in this order.
    values
        The text of each other place.
    """
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = (files("topicstream.display") / "page.css").read_text(encoding="utf-8")
    if "</script" in script or "</style" in style or "<!--" in script:
        raise ValueError("the page's own script would end early")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src "
        f"data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    values |= {"POLICY": policy, "STYLE": style, "SCRIPT": script}
    frame = (folder / name).read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], frame)


def _hash(text: str) -> str:
    """Hash a script or style as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
