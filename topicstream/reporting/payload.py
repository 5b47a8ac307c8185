"""Plain values and number arrays as one compressed text, and the page that carries it.

Bytes: uint32 length of the JSON (little-endian), the JSON, padding to 8, then the arrays one after another, each at a
multiple of 8; gzip, base64.  The JSON's member ``arrays`` says of each: type, offset (from the first array), shape.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import struct
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, BinaryIO

import numpy as np

SCRIPTS = ("data.js", "charts.js", "table.js", "map.js", "heat.js", "topic.js", "about.js", "main.js")
STYLES = ("page.css",)
_TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "i2": "Int16Array", "f4": "Float32Array"}


def pack(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Compressed payload; the same values give the same bytes."""
    listed, parts, at = {}, [], 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        kind = little.dtype.str.lstrip("<|=")
        body = little.tobytes()
        listed[name] = [_TYPES[kind], at, list(array.shape)]
        parts.append(body + bytes(-len(body) % 8))
        at += len(parts[-1])
    text = json.dumps({**values, "arrays": listed}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    head = text.encode("utf-8", "replace")
    head = struct.pack("<I", len(head)) + head
    return gzip.compress(head + bytes(-len(head) % 8) + b"".join(parts), 9, mtime=0)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``pack`` was given."""
    raw = gzip.decompress(data)
    (length,) = struct.unpack_from("<I", raw)
    values = json.loads(raw[4 : 4 + length])
    base = 4 + length + -(4 + length) % 8
    kinds = {v: k for k, v in _TYPES.items()}
    arrays = {}
    for name, (kind, at, shape) in values.pop("arrays").items():
        n = int(np.prod(shape))
        arrays[name] = np.frombuffer(raw, "<" + kinds[kind], n, base + at).reshape(shape)
    return values, arrays


def page(title: str, data: bytes) -> str:
    """One HTML file that draws itself from the data."""
    return framed("page.html", SCRIPTS, TITLE=html.escape(title), DATA=base64.b64encode(data).decode())


def framed(name: str, scripts: Sequence[str], **filled: str) -> str:
    """A frame of the folder ``page``, filled: nothing is fetched (content security policy: only its script and style, by
    their hashes)."""
    folder = files("topicstream.reporting") / "page"
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    style = "\n".join((folder / name).read_text(encoding="utf-8") for name in STYLES)
    if "</script" in script or "</style" in style or "<!--" in script:
        raise ValueError("the page's own script would end early")
    frame = (folder / name).read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    filled |= {"POLICY": policy, "STYLE": style, "SCRIPT": script}
    pieces = frame.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        out += [filled[name], rest]
    return "".join(out)


def our_page(file: BinaryIO) -> bool:
    """Whether an open file begins as our pages do."""
    return b'<meta name="generator" content="topicstream">' in file.read(1 << 12)


def data_of(text: str) -> bytes:
    """The payload of a page."""
    start = text.index('id="data">') + len('id="data">')
    return base64.b64decode(text[start : text.index("</script>", start)])


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def quantised(values: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Non-negative float[rows, columns] -> whole numbers of dtype and float32[columns]: value = number * scale[column];
    NaN is 0."""
    clean = np.nan_to_num(values, nan=0.0, posinf=0.0)
    most = float(np.iinfo(dtype).max)
    top = clean.max(axis=0, initial=0.0)
    scale = (top / most).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        number = np.where(scale > 0, np.rint(clean / scale.astype(np.float64)), 0)
    return np.clip(number, 0, most).astype(dtype), scale
