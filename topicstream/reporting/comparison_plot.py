"""Quality against time as one SVG: each method a point, the ceiling a line.  Mid-tones on no background, so that it reads on a
light page and on a dark one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

from topicstream.errors import UsageError
from topicstream.files.outputs import check_output, written

WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 60, 130, 46, 52
GREY, FAINT, ENVELOPE, REST = "#7d8590", "#7d859040", "#2f81f7", "#e0701a"
LINE = 14
MARK = "<!-- made by topicstream compare -->"


def check_plot(path: str | Path, *, force: bool = False) -> Path:
    """TopicsError where the file is there, NotOurs where it is not of our making, InputError for another name."""
    place = Path(path)
    if place.suffix != ".svg":
        raise UsageError(f"--svg {path}: the name must end in .svg")
    if not place.parent.is_dir():
        raise UsageError(f"--svg {path}: no such folder {place.parent}")
    check_output(place, "--svg", force=force, reads=_reads_as_ours)
    return place


def write(result: dict[str, Any], path: str | Path, *, force: bool = False) -> None:
    """Draw the result of ``compare_methods`` into a file; errors as ``check_plot``."""
    with written(check_plot(path, force=force), force=force, option="--svg", reads=_reads_as_ours) as file:
        file.write(svg(result).encode())


def _reads_as_ours(file: BinaryIO) -> bool:
    return MARK.encode() in file.read(4096)


def envelope(records: list[dict[str, Any]], what: str = "f1") -> list[str]:
    """Names of the methods that no other beats in both time and this measure of nearness, the fastest first."""
    out, best = [], -math.inf
    for r in sorted(records, key=lambda r: (r["seconds"], -r[what])):
        if r[what] > best:
            out.append(r["name"])
            best = r[what]
    return out


def svg(result: dict[str, Any]) -> str:
    """The result of ``compare_methods`` drawn: milliseconds a document (logarithmic) across, F1 upwards."""
    docs = max(1, result["documents"])
    records = [r for r in result["methods"] if r["name"] != result["reference"]]
    ceiling = result["ceiling"]
    times = [1000 * r["seconds"] / docs for r in records] or [1.0]
    low, high = math.log10(max(min(times), 1e-6)) - 0.15, math.log10(max(max(times), 1e-6)) + 0.15
    best = envelope(records)

    def x(ms: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(max(ms, 1e-6)) - low) / max(high - low, 1e-9)

    def y(share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        MARK,
        f'<text x="{LEFT}" y="20" fill="{GREY}" font-size="14">F1 of topics at 0.8 against {escape(result["reference"])}, '
        f"{result['documents']:,} documents</text>",
    ]
    for tenth in range(0, 11, 2):
        at = y(tenth / 10)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{FAINT}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" fill="{GREY}" text-anchor="end">{tenth / 10:.1f}</text>')
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            ms = digit * 10.0**power
            if low <= math.log10(ms) <= high:
                out.append(
                    f'<text x="{x(ms):.1f}" y="{HEIGHT - BOTTOM + 18}" fill="{GREY}" text-anchor="middle">{ms:g}</text>'
                )
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" fill="{GREY}" text-anchor="middle">'
        "milliseconds a document, one thread</text>"
    )
    if ceiling is not None:
        at = y(ceiling["f1"])
        out.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GREY}" stroke-dasharray="5 4"/>'
        )
        out.append(
            f'<text x="{WIDTH - RIGHT + 6}" y="{at + 4:.1f}" fill="{GREY}">{escape(result["reference"])}, next seed</text>'
        )
    taken: list[tuple[float, float]] = []
    for r in sorted(records, key=lambda r: -r["f1"]):
        at, up = x(1000 * r["seconds"] / docs), y(r["f1"])
        colour = ENVELOPE if r["name"] in best else REST
        label = up + 4
        while any(abs(label - b) < LINE and abs(at - a) < 110 for a, b in taken):
            label += LINE
        taken.append((at, label))
        out.append(f'<circle cx="{at:.1f}" cy="{up:.1f}" r="5" fill="{colour}"/>')
        out.append(f'<text x="{at + 9:.1f}" y="{label:.1f}" fill="{colour}">{escape(r["name"])}</text>')
    return "\n".join([*out, "</svg>", ""])
