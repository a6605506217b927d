"""Line charts as SVG, for documents: a few points, a logarithmic scale upwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 320, 60, 40, 50
COLOURS = ("#0b62a4", "#c2410c", "#15803d")


@dataclass(frozen=True)
class Line:
    """A named line through points."""

    name: str
    points: Sequence[tuple[float, float]]


def chart(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """Returns the chart's text. Values that are not positive are left out."""
    points = [point for line in lines for point in line.points if point[1] > 0]
    low = math.floor(math.log10(min(y for _, y in points)))
    high = max(low + 1, math.ceil(math.log10(max(y for _, y in points))))
    first, last = min(x for x, _ in points), max(x for x, _ in points)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - first) / ((last - first) or 1) * (WIDTH - LEFT - 20),
            HEIGHT - BOTTOM - (math.log10(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{WIDTH - 20}" y="{HEIGHT - 12}" text-anchor="end">{escape(across)}</text>',
    ]
    for power in range(low, high + 1):
        _, y = place(first, 10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 20}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} {escape(up)}</text>')
    for x in sorted({x for x, _ in points}) if len(points) < 30 else range(int(first), int(last) + 1, 10):
        parts.append(f'<text x="{place(x, 10.0**low)[0]:.1f}" y="{HEIGHT - 32}" text-anchor="middle">{x:g}</text>')
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        drawn = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points if y > 0)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 10 + 180 * number}" y="36" fill="{colour}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
