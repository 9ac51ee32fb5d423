"""Pictures as SVG: lines over linear or logarithmic axes, and bars. They take their colours from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 44
BAR, GAP = 18, 6
#: Width of one character of a label, for bars' names.
CHARACTER = 7
#: At most so many marks on an axis.
MARKS = 6
#: Of a picture that is a file of its own: colours of its lines, its style, and the height of a line's name.
COLOURS = ("#2563a8", "#b4531f", "#2f7d4f", "#7a4a9c")
STYLE = "svg { font: 12px sans-serif; background: #fff } text { fill: #444 } polyline { fill: none; stroke-width: 2 } "
STYLE += ".grid { stroke: #ddd } .axis { stroke: #888 } "
NAME = 16


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one subject; `colour` is a class of the style sheet, as is its dash."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """From lowest to highest, with marks at round values."""

    low: float
    high: float
    marks: Sequence[float]
    logarithmic: bool

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the lowest, 1 at the highest."""
        if self.logarithmic:
            return (math.log(max(value, self.low)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def linear(values: Sequence[float]) -> Axis:
    """From 0 on, to the round value above the highest."""
    highest = max([*values, 1e-9])
    rough = highest / (MARKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    count = math.ceil(highest / step - 1e-9)
    return Axis(0, count * step, [i * step for i in range(count + 1)], False)


def logarithmic(values: Sequence[float]) -> Axis:
    """Between round values around all that are above 0."""
    positive = [value for value in values if value > 0] or [1.0]
    steps = [10.0**power * factor for power in range(-9, 12) for factor in (1, 2, 5)]
    low = max(step for step in steps if step <= min(positive) * 1.0001)
    high = min(step for step in steps if step >= max(positive) * 0.9999 and step > low)
    marks = [step for step in steps if low <= step <= high]
    if len(marks) > MARKS:
        marks = [step for step in marks if math.isclose(math.log10(step) % 1, 0, abs_tol=1e-6) or math.isclose(math.log10(step) % 1, 1, abs_tol=1e-6)]
    return Axis(low, high, marks, True)


def exact(values: Sequence[float]) -> Axis:
    """From 0 to the highest, with marks in equal distances: for what has no round values."""
    high = max([*values, 1e-9])
    return Axis(0, high, [high * i / (MARKS - 2) for i in range(MARKS - 1)], False)


def lines(
    drawn: Sequence[Line], x_label: str, y_label: str, *, log: bool = False, log_across: bool = False, x_mark: Callable[[float], str] | None = None
) -> str:
    """Lines with their points; log: which axes are logarithmic; x_mark: how values of the horizontal axis are written. Empty when there is nothing to draw."""
    points = [point for line in drawn for point in line.points]
    if not points:
        return ""
    across = (logarithmic if log_across else exact if x_mark else linear)([x for x, _ in points])
    up = (logarithmic if log else linear)([y for _, y in points])
    inner = frame(across, up, x_label, y_label, x_mark or number)
    for line in drawn:
        places = [(LEFT + across.share(x) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up.share(y) * (HEIGHT - TOP - BOTTOM)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        inner.append(f'<polyline class="{line.colour}" points="{path}"/>')
        if len(places) <= 60:
            for (x, y), (value_x, value_y) in zip(places, line.points, strict=True):
                title = f"{line.label}: {number(value_y)} at {(x_mark or number)(value_x)}"
                inner.append(f'<circle class="{line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(title)}</title></circle>')
    return svg(HEIGHT, inner)


def frame(across: Axis, up: Axis, x_label: str, y_label: str, x_mark: Callable[[float], str]) -> list[str]:
    """Axes, marks and their labels."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    inner = []
    for mark in up.marks:
        y = bottom - up.share(mark) * (bottom - TOP)
        inner.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        inner.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(mark)}</text>')
    for mark in across.marks:
        x = LEFT + across.share(mark) * (right - LEFT)
        # The last one ends where the picture does.
        anchor = "end" if mark == across.marks[-1] else "middle"
        inner.append(f'<text x="{x + 12 * (anchor == "end"):.1f}" y="{bottom + 16}" text-anchor="{anchor}">{escape(x_mark(mark))}</text>')
    inner.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    inner.append(f'<text class="label" x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    middle = (TOP + bottom) / 2
    inner.append(f'<text class="label" x="14" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 14 {middle:.1f})">{escape(y_label)}</text>')
    return inner


def bars(drawn: Sequence[tuple[str, str, float, str]], reference: float | None = None) -> str:
    """Horizontal bars: name, colour, value, and what is written at its end. The reference is a line across them."""
    if not drawn:
        return ""
    left = 12 + max(len(name) for name, _, _, _ in drawn) * CHARACTER
    right = 20 + max(len(text) for _, _, _, text in drawn) * CHARACTER
    highest = max(value for _, _, value, _ in drawn) or 1.0
    scale = (WIDTH - left - right) / highest
    height = TOP * 2 + len(drawn) * (BAR + GAP)
    inner, texts = [], []
    for i, (name, colour, value, text) in enumerate(drawn):
        y = TOP + i * (BAR + GAP)
        inner.append(f'<rect class="{colour}" x="{left}" y="{y}" width="{max(value * scale, 1):.1f}" height="{BAR}" rx="2"/>')
        texts.append(f'<text x="{left - 8}" y="{y + BAR - 5}" text-anchor="end">{escape(name)}</text>')
        texts.append(f'<text x="{left + value * scale + 6:.1f}" y="{y + BAR - 5}">{escape(text)}</text>')
    if reference:
        x = left + reference * scale
        inner.append(f'<line class="reference" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - TOP}"/>')
    return svg(height, inner + texts)


def picture(plot: str, names: Sequence[str], *, below: bool = False) -> str:
    """A plot of lines as a file of its own, with a style and the names of its lines, whose colours are `s0`, `s1` and so on; below: the names stand there."""
    rules, key = STYLE, ""
    for at, name in enumerate(names):
        rules += f".s{at} {{ stroke: {COLOURS[at % len(COLOURS)]} }} circle.s{at}, text.s{at} {{ fill: {COLOURS[at % len(COLOURS)]}; stroke: none }} "
        key += f'<text class="s{at}" x="{LEFT + 12}" y="{(HEIGHT if below else TOP) + 14 + NAME * at}">{escape(name)}</text>'
    height = HEIGHT + (NAME * len(names) + 8 if below else 0)
    plot = plot.replace(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}"', f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"', 1
    )
    return plot.replace(">", f"><style>{rules}</style>", 1).replace("</svg>", f"{key}</svg>")


def svg(height: float, inner: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(inner)}</svg>'


def number(value: float) -> str:
    """Short: 1,200,000 as 1.2M, 12,000 as 12k, 0.05 as it is."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
