"""Curves of perplexity against seconds as one SVG: log time axis, every curve named at its end, no program needed.

Colours are mid-tones on no background, so that the picture reads on a light page and on a dark one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 560
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 62, 48
GREY, FAINT = "#7d8590", "#7d859040"
COLOURS = {"message": "#2f81f7", "gibbs": "#2da44e", "variational": "#a371f7", "other": "#e0701a"}
FAMILIES = (("message", "message passing"), ("gibbs", "Gibbs"), ("variational", "variational"))
LETTER = 6.9  # width of a letter of the labels, about

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Curve:
    """A run: its name, family (a key of COLOURS), (seconds, perplexity) in order; ``strong`` ones are drawn thick and
    named first."""

    name: str
    family: str
    points: Sequence[tuple[float, float]]
    strong: bool = False


class Axes:
    """Seconds and perplexity to places in the picture, both by logarithm; what is above the top is cut off there."""

    def __init__(self, curves: Sequence[Curve], highest: float) -> None:
        seconds = [s for c in curves for s, p in c.points if p <= highest]
        best = min(p for c in curves for _, p in c.points)
        self.first, self.last = min(seconds) / 1.15, max(seconds) * 1.6
        self.low, self.high = best * 0.975, highest

    def x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(seconds / self.first) / math.log(self.last / self.first)

    def y(self, perplexity: float) -> float:
        share = math.log(perplexity / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def shown(curve: Curve, axes: Axes) -> list[tuple[float, float]]:
    """The places of a curve's points, from where it enters the picture at the top."""
    out: list[tuple[float, float]] = []
    before: tuple[float, float] | None = None
    for seconds, perplexity in curve.points:
        place = axes.x(max(seconds, axes.first)), axes.y(perplexity)
        if perplexity <= axes.high and seconds >= axes.first:
            if before is not None and before[1] < TOP:  # where the line crosses the top
                share = (TOP - before[1]) / (place[1] - before[1])
                out.append((before[0] + share * (place[0] - before[0]), TOP))
            out.append(place)
        before = place
    return out


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes (left, top, right, bottom) share a place."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def crossings(box: Box, lines: Iterable[Sequence[tuple[float, float]]]) -> int:
    """How much of the lines lies in the box: places at every fourth of a segment's pixels."""
    found = 0
    for line in lines:
        for (x, y), (u, v) in itertools.pairwise(line):
            steps = max(1, int(max(abs(u - x), abs(v - y)) / 4))
            for i in range(steps + 1):
                a, b = x + (u - x) * i / steps, y + (v - y) * i / steps
                found += box[0] < a < box[2] and box[1] < b < box[3]
    return found


def place_labels(ends: Sequence[tuple[float, float, str]], lines: Sequence[Sequence[tuple[float, float]]]) -> list[Box]:
    """A box for each label beside its end, the first named served first: none over another or over a mark, over few
    lines."""
    marks: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for x, y, _ in ends]
    taken: list[Box] = []
    inside = (LEFT + 2, TOP - 14, WIDTH - 2, HEIGHT - BOTTOM - 3)
    for x, y, text in ends:
        wide, high = LETTER * len(text) + 4, 15.0
        best, least = None, math.inf
        for far in (7, 18, 32, 48, 66, 86, 110):
            for turn in range(24):
                angle = math.pi * turn / 12
                cx = x + math.cos(angle) * (far + wide / 2)
                cy = y + math.sin(angle) * (far + high / 2)
                box = (cx - wide / 2, cy - high / 2, cx + wide / 2, cy + high / 2)
                if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
                    continue
                if any(overlap(box, other) for other in taken):
                    continue
                hidden = sum(overlap(box, mark) for mark in marks)
                cost = far * 0.35 + 2.5 * crossings(box, lines) + 40 * hidden + (0 if turn == 0 else 2)
                if cost < least:
                    best, least = box, cost
        taken.append(best or (x, y, x + wide, y + high))
    return taken


def place_goal(words: str, y: float, lines: Sequence[Sequence[tuple[float, float]]]) -> Box:
    """A box for the words of the dotted line, above or below it where the fewest curves are."""
    wide = LETTER * len(words)
    boxes = [
        (float(x), y + off, x + wide, y + off + 15.0)
        for off in (-17, 3)
        for x in range(LEFT + 5, int(WIDTH - RIGHT - wide), 8)
        if y + off + 15 < HEIGHT - BOTTOM
    ]
    return min(boxes, key=lambda b: (crossings((b[0] - 6, b[1] - 4, b[2] + 6, b[3] + 4), lines), -b[1], b[0]))


def ticks(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """Round numbers of a logarithmic axis within its ends."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


def chart(
    title: str, subtitle: str, across: str, curves: Sequence[Curve], highest: float, goal: tuple[str, float] | None
) -> str:
    """The picture.  across: name of the time axis; highest: perplexity at the top; goal: the words and the height of a
    dotted line across."""
    axes = Axes(curves, highest)
    kept = [(c, shown(c, axes)) for c in curves]
    kept = sorted(((c, p) for c, p in kept if p), key=lambda pair: (not pair[0].strong, pair[0].family != "other"))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12.5">',
        f"<title>{escape(title)}</title>",
        f'<text x="{LEFT}" y="18" font-size="15" font-weight="600" fill="{GREY}">{escape(title)}</text>',
        f'<text x="{LEFT}" y="36" fill="{GREY}">{escape(subtitle)}</text>',
    ]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for second in ticks(axes.first, axes.last, (1, 2, 5)):
        x = axes.x(second)
        out.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{FAINT}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" fill="{GREY}">{second:g}</text>')
    for perplexity in ticks(axes.low, axes.high, (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9)):
        y = axes.y(perplexity)
        out.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{FAINT}"/>')
        out.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end" fill="{GREY}">{perplexity:,.0f}</text>')
    out.append(f'<text x="{right}" y="{bottom + 37}" text-anchor="end" fill="{GREY}">{escape(across)}</text>')
    out.append(f'<text x="4" y="{TOP - 8}" fill="{GREY}">perplexity</text>')
    legend(out, bottom + 37, {c.family for c, _ in kept})
    lines = [points for _, points in kept]
    ends = [(*points[-1], c.name) for c, points in kept]
    if goal is not None and axes.low < goal[1] < axes.high:
        y = axes.y(goal[1])
        out.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{COLOURS["other"]}" stroke-dasharray="1 4"/>')
        box = place_goal(goal[0], y, lines)
        out.append(f'<text x="{box[0]:.0f}" y="{box[3] - 3:.1f}" fill="{COLOURS["other"]}">{escape(goal[0])}</text>')
        lines = [*lines, [(LEFT, y), (right, y)], *([(box[0], box[3] - h), (box[2], box[3] - h)] for h in (2, 7, 12))]
    boxes = place_labels(ends, lines)
    for (curve, points), box in reversed(list(zip(kept, boxes))):
        draw_curve(out, curve, points, box)
    return "\n".join([*out, "</svg>", ""])


def legend(out: list[str], y: float, present: set[str]) -> None:
    """What the colours mean, below the axis."""
    x = float(LEFT)
    for key, words in [f for f in (*FAMILIES, ("other", "other programs")) if f[0] in present]:
        dash = ' stroke-dasharray="6 3"' if key == "other" else ""
        out.append(f'<path d="M{x:.0f} {y - 4}h24" stroke="{COLOURS[key]}" stroke-width="2.4"{dash}/>')
        words = words if key == "other" else f"topicstream, {words}" if key == "message" else words
        out.append(f'<text x="{x + 30:.0f}" y="{y}" fill="{GREY}">{words}</text>')
        x += 30 + LETTER * len(words) + 16


def draw_curve(out: list[str], curve: Curve, points: Sequence[tuple[float, float]], box: Box) -> None:
    """Line, a mark at its end, its name, and a thread between them where the name had to go far."""
    colour, (x, y) = COLOURS[curve.family], points[-1]
    wide = 3 if curve.strong else 1.4
    dash = ' stroke-dasharray="6 3"' if curve.family == "other" else ""
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{wide}" stroke-linejoin="round"{dash}/>')
    if curve.family == "other":
        out.append(f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}"/>')
    else:
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4 if curve.strong else 3}" fill="{colour}"/>')
    near = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
    if math.hypot(near[0] - x, near[1] - y) > 14:
        out.append(f'<path d="M{x:.1f} {y:.1f}L{near[0]:.1f} {near[1]:.1f}" stroke="{colour}" stroke-width="0.7"/>')
    weight = ' font-weight="600"' if curve.strong else ""
    middle = (box[0] + box[2]) / 2
    out.append(
        f'<text x="{middle:.1f}" y="{box[3] - 3.5:.1f}" text-anchor="middle" fill="{colour}"{weight}>{escape(curve.name)}</text>'
    )
