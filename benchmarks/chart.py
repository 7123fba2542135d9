"""Charts as SVG, for the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 36, 44  # margins
COLOURS = ("#0b6e99", "#c4501b", "#3d7d3a", "#7a4fa3")
CHARACTER, GAP = 6.6, 20.0  # the width of a character in a name, about, and of the space after it
TICKS = (1, 2, 5)  # times a power of ten


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its name, its points, and what stands beside each point."""

    name: str
    points: Sequence[tuple[float, float]]
    labels: Sequence[str]


def line_chart(lines: Sequence[Line], *, across: str, up: str) -> str:
    """Return a chart with these names of the axes. Only the points of the last line have labels: lines may be close.

    >>> line_chart([Line("a", [(1, 2), (3, 4)], ["x", "y"])], across="ms", up="%").count("<circle")
    2
    """
    points = [point for line in lines for point in line.points]
    widest, highest = (max([point[axis] for point in points], default=1.0) for axis in (0, 1))
    lowest = min([point[1] for point in points], default=0.0)
    x_ticks, all_y_ticks = _ticks(widest), _ticks(highest)
    y_ticks = all_y_ticks[max(0, sum(tick <= lowest for tick in all_y_ticks) - 1) :]
    across_scale = (WIDTH - LEFT - RIGHT) / x_ticks[-1]
    up_scale = (HEIGHT - TOP - BOTTOM) / (y_ticks[-1] - y_ticks[0])

    def x(value: float) -> float:
        return LEFT + value * across_scale

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - y_ticks[0]) * up_scale

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in y_ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:g}", anchor="end"))
    parts += [_text(x(tick), HEIGHT - BOTTOM + 18, f"{tick:g}") for tick in x_ticks]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, across))
    parts.append(_text(8, TOP - 16, up, anchor="start"))
    name_at: float = LEFT + 60
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(right):.1f},{y(above):.1f}" for right, above in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (right, above), label in zip(line.points, line.labels, strict=True):
            parts.append(f'<circle cx="{x(right):.1f}" cy="{y(above):.1f}" r="3" fill="{colour}"/>')
            if line is lines[-1] and label:
                parts.append(_text(x(right), y(above) + 16, label, colour=colour))
        parts.append(_text(name_at, TOP - 16, line.name, anchor="start", colour=colour))
        name_at += CHARACTER * len(line.name) + GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(largest: float) -> list[float]:
    """Return round numbers from zero to the first that is not below the largest value, at most seven.

    >>> _ticks(83.0)
    [0, 20, 40, 60, 80, 100]
    """
    power = 10 ** math.floor(math.log10(max(largest, 1e-9) / 5))
    step = next(tick * power for tick in (*TICKS, 10) if tick * power * 5 >= largest)
    return [step * number for number in range(math.ceil(largest / step) + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "middle", colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
