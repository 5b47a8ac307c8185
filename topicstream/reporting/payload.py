"""Plain values and number arrays as one compressed text, and the page that carries it.

Bytes: uint32 length of the JSON (little-endian), the JSON, padding to 8, then the arrays one after
another, each at a
multiple of 8; gzip, base64.  The JSON's member ``arrays`` says of each: type, offset (from the
                              first array), shape.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import orjson

SCRIPTS = (
    "data.js",
    "charts.js",
    "table.js",
    "map.js",
    "heat.js",
    "overview.js",
    "topic.js",
    "about.js",
    "main.js",
)
TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i2": "Int16Array",
    "f4": "Float32Array",
}


def pack(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Compressed payload; the same values give the same bytes.  What is not finite is null."""
    listed, body = {}, b""
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        listed[name] = [TYPES[little.dtype.str.lstrip("<|=")], len(body), list(array.shape)]
        body += little.tobytes()
        body += bytes(-len(body) % 8)
    text = orjson.dumps(
        {**values, "arrays": listed},
        default=str,
        option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS,
    )
    head = len(text).to_bytes(4, "little") + text
    return gzip.compress(head + bytes(-len(head) % 8) + body, 9, mtime=0)


def page(title: str, data: bytes) -> str:
    """One HTML file that draws itself from the data."""
    return framed(
        "page.html", SCRIPTS, TITLE=html.escape(title), DATA=base64.b64encode(data).decode()
    )


def framed(name: str, scripts: Sequence[str], **filled: str) -> str:
    """A frame of the folder ``page``, filled: nothing is fetched (content security policy: only its
    script and style, by their hashes)."""
    folder = files("topicstream.reporting") / "page"
    script = "\n".join((folder / script).read_text(encoding="utf-8") for script in scripts)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = (folder / "page.css").read_text(encoding="utf-8")
    if "</script" in script or "</style" in style or "<!--" in script:
        raise ValueError("the page's own script would end early")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src "
        f"data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    filled |= {"POLICY": policy, "STYLE": style, "SCRIPT": script}
    return re.sub(
        r"\{\{(\w+)\}\}",
        lambda match: filled[match[1]],
        (folder / name).read_text(encoding="utf-8"),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def quantised(
    values: np.ndarray, dtype: Any, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Turn non-negative float[rows, columns] into whole numbers of dtype and float32[columns].

    value = number * scale[column]; NaN is 0. ``most``: the largest number (default: of dtype)."""
    clean = np.nan_to_num(values, nan=0.0, posinf=0.0)
    most = np.iinfo(dtype).max if most is None else most
    scale = (clean.max(axis=0, initial=0.0) / most).astype(np.float32)
    number = np.rint(
        np.divide(clean, scale, out=np.zeros_like(clean), where=scale > 0, dtype=np.float64)
    )
    return np.clip(number, 0, most).astype(dtype), scale
