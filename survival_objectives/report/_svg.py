"""A plotting area with two linear axes, drawn as SVG for a page.

Elements carry classes and no colours: the style sheet of the page decides, in light, dark and
print. Everything is drawn 360 units wide, which is a phone, and scales up. ElementTree escapes what
users call their columns and events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np

from survival_objectives._arrays import FloatArray
from survival_objectives.report._format import number, shortened

Element = ElementTree.Element

WIDTH = 360
_CHARACTER = 6.1  # Mean width of a character of the 11-unit labels.
_LINE = 13.5
_LABEL_ROOM = (46.0, 132.0)


@dataclass(frozen=True)
class Label:
    """Text beside the end of a line."""

    y: float
    text: str
    css: str
    tip: str | None = None


def label_room(names: Sequence[str]) -> float:
    """Width to leave for names beside the ends of lines."""
    longest = max(len(name) for name in names)
    return float(np.clip(_CHARACTER * longest + 20, *_LABEL_ROOM))


def label_length(room: float) -> int:
    """How many characters of a label fit a width."""
    return max(4, int(room / _CHARACTER))


def nice_ticks(low: float, high: float, n_ticks: int = 5) -> FloatArray:
    """About ``n_ticks`` round numbers between two ends.

    >>> nice_ticks(0.0, 28.0).tolist()
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    """
    span = high - low
    if not span > 0:
        return np.array([low])
    power = 10.0 ** math.floor(math.log10(span / n_ticks))
    steps = power * np.array([1, 2, 2.5, 5, 10])
    step = float(steps[np.abs(span / steps - n_ticks).argmin()])
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Adding zero turns -0 into 0.
    return np.array([position * step + 0.0 for position in range(first, last + 1)])


class Area:
    """One chart. Data coordinates go in, markup comes out of `markup`."""

    def __init__(
        self,
        label: str,
        *,
        x: tuple[float, float],
        y: tuple[float, float],
        width: float = WIDTH,
        height: float = 220,
        left: float = 40,
        right: float = 14,
        top: float = 24,
        bottom: float = 36,
    ) -> None:
        self.x_range, self.y_range = x, y
        self.left, self.right = left, width - right
        self.top, self.bottom = top, height - bottom
        self.root = ElementTree.Element(
            "svg",
            {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria-label": label},
        )

    # ------------------------------------------------------------------------------------ scales
    def px(self, value: float) -> float:
        """Horizontal place of a data value."""
        low, high = self.x_range
        return self.left + (value - low) / ((high - low) or 1.0) * (self.right - self.left)

    def py(self, value: float) -> float:
        """Vertical place of a data value."""
        low, high = self.y_range
        return self.bottom - (value - low) / ((high - low) or 1.0) * (self.bottom - self.top)

    # ------------------------------------------------------------------------------------ pieces
    def add(
        self,
        tag: str,
        css: str,
        text: str | None = None,
        *,
        tip: str | None = None,
        **attributes: float | str,
    ) -> Element:
        """Append an element, with a tooltip; numbers are rounded to a tenth of a unit."""
        shown = {
            name.replace("_", "-"): value if isinstance(value, str) else _digits(value)
            for name, value in attributes.items()
        }
        element = ElementTree.SubElement(self.root, tag, {"class": css, **shown})
        element.text = text
        if tip is not None:
            ElementTree.SubElement(element, "title").text = tip
        return element

    def segment(
        self, css: str, x: tuple[float, float], y: tuple[float, float], **attributes: str
    ) -> None:
        """A straight line between two places of the drawing."""
        self.add("line", css, x1=x[0], x2=x[1], y1=y[0], y2=y[1], **attributes)

    def text(
        self, x: float, y: float, text: str, css: str = "label", *, room: float = WIDTH
    ) -> None:
        """Text at a place of the drawing, cut to the room it has, with all of it as a tooltip."""
        short = shortened(text, label_length(room))
        self.add("text", css, short, tip=text if short != text else None, x=x, y=y)

    def x_axis(
        self, label: str, ticks: Sequence[float] | FloatArray | None = None, *, grid: bool = False
    ) -> None:
        """Ticks, numbers and the name of the horizontal axis."""
        ticks = nice_ticks(*self.x_range) if ticks is None else ticks
        self.segment("axis", (self.left, self.right), (self.bottom, self.bottom))
        for tick in ticks:
            place = self.px(float(tick))
            if grid:
                self.segment("grid", (place, place), (self.top, self.bottom))
            self.segment("axis", (place, place), (self.bottom, self.bottom + 4))
            self.add("text", "tick mid", number(float(tick)), x=place, y=self.bottom + 16)
        middle = (self.left + self.right) / 2
        self.text(middle, self.bottom + 31, label, "name mid", room=self.right - self.left)

    def y_axis(
        self,
        label: str,
        ticks: Sequence[float] | FloatArray | None = None,
        form: Callable[[float], str] = number,
    ) -> None:
        """Grid lines, numbers and, above them, the name of the axis in horizontal text."""
        for tick in nice_ticks(*self.y_range, 4) if ticks is None else ticks:
            place = self.py(float(tick))
            self.segment("grid", (self.left, self.right), (place, place))
            self.add("text", "tick end", form(float(tick)), x=self.left - 6, y=place + 4)
        self.text(2, 12, label, "name", room=WIDTH - 4)

    def line(self, x: FloatArray, y: FloatArray, css: str, *, steps: bool = False) -> None:
        """A curve, broken where it is not known; with ``steps`` it jumps at each x."""
        known = ~np.isnan(y)
        if known.any():
            self.add("path", f"line {css}", d=self._path(x[known], y[known], steps=steps))

    def band(
        self, x: FloatArray, low: FloatArray, high: FloatArray, css: str, *, steps: bool = False
    ) -> None:
        """The area between two curves, straight or in steps as those of `line`."""
        if steps:
            x, low, high = np.repeat(x, 2)[1:], np.repeat(low, 2)[:-1], np.repeat(high, 2)[:-1]
        forth, back = self._path(x, high), self._path(x[::-1], low[::-1])
        self.add("path", css, d=f"{forth}L{back[1:]}Z")

    def dot(self, x: float, y: float, radius: float, css: str, tip: str | None = None) -> None:
        """A circle at a data value."""
        self.add("circle", css, tip=tip, cx=self.px(x), cy=self.py(y), r=radius)

    def read_off(self, x: FloatArray, tips: Sequence[str]) -> None:
        """Invisible strips around increasing places, each with a tooltip."""
        places = [self.px(float(value)) for value in x]
        edges = [self.left, *((a + b) / 2 for a, b in pairwise(places)), self.right]
        for (low, high), tip in zip(pairwise(edges), tips, strict=True):
            width, height = max(high - low, 0.0), self.bottom - self.top
            self.add("rect", "hit", tip=tip, x=low, y=self.top, width=width, height=height)

    def end_labels(self, labels: Sequence[Label]) -> None:
        """Names beside the right ends of lines, moved apart where they would overlap."""
        order = sorted(labels, key=lambda label: -label.y)
        places = [self.py(label.y) for label in order]
        for position in range(1, len(places)):
            places[position] = max(places[position], places[position - 1] + _LINE)
        limit = self.bottom
        for position in reversed(range(len(places))):
            places[position] = min(places[position], limit)
            limit = places[position] - _LINE
        for place, label in zip(places, order, strict=True):
            self.add("circle", f"dot {label.css}", cx=self.right + 7, cy=place, r=3.2)
            self.add("text", "label", label.text, tip=label.tip, x=self.right + 14, y=place + 4)

    def markup(self) -> str:
        """The drawing as text to put into a page."""
        return ElementTree.tostring(self.root, encoding="unicode")

    def _path(self, x: FloatArray, y: FloatArray, *, steps: bool = False) -> str:
        points = [(self.px(float(a)), self.py(float(b))) for a, b in zip(x, y, strict=True)]
        path = f"M{_digits(points[0][0])} {_digits(points[0][1])}"
        for (_, before), (across, down) in pairwise(points):
            if steps and before == down:
                path += f"H{_digits(across)}"
            elif steps:
                path += f"H{_digits(across)}V{_digits(down)}"
            else:
                path += f"L{_digits(across)} {_digits(down)}"
        return path


def _digits(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
