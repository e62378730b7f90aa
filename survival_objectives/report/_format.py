"""Numbers, names and differences of scores as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from survival_objectives.assessment import Assessment


def count(value: float) -> str:
    """A whole number in groups of thousands: 12,345."""
    return f"{value:,.0f}"


def number(value: float, digits: int = 4) -> str:
    """A quantity in a few significant digits, whole where it is large.

    >>> number(0.5), number(14.0), number(2015.0), number(12345.6), number(-0.07087, 2)
    ('0.5', '14', '2015', '12,346', '−0.071')
    """
    if math.isnan(value):
        return "–"
    size = abs(value)
    if size >= 1e9:
        shown = f"{size:.3g}"
    elif size >= 10_000:
        shown = f"{size:,.0f}"
    elif size >= 1000:
        shown = f"{size:.0f}"
    else:
        shown = f"{size:.{digits}g}"
    return f"−{shown}" if value < 0 and float(shown.replace(",", "")) else shown


def percent(value: float) -> str:
    """A probability in percent, with a decimal where it is near 0 or 1.

    >>> percent(0.314), percent(0.0314), percent(0.00002), percent(1.0)
    ('31%', '3.1%', '<0.1%', '100%')
    """
    if math.isnan(value):
        return "–"
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 < value < 1:
        return ">99.9%"
    decimals = 0 if 0.0995 <= value <= 0.9005 or value in (0.0, 1.0) else 1
    return f"{100 * value:.{decimals}f}%"


def percent_band(estimate: float, lower: float, upper: float) -> str:
    """A probability with its limits, in percent.

    >>> percent_band(0.314, 0.092, 0.5)
    '31% (9.2%–50%)'
    """
    return f"{percent(estimate)} ({percent(lower)}–{percent(upper)})"


def percent_tick(value: float) -> str:
    """A round probability on an axis.

    >>> percent_tick(0.05), percent_tick(0.125)
    ('5%', '12.5%')
    """
    return f"{100 * value:.4g}%"


def score(value: float, decimals: int) -> str:
    """A score with a fixed number of decimals; a dash where it is not known."""
    return "–" if math.isnan(value) else f"{value:.{decimals}f}"


def shortened(text: str, length: int) -> str:
    """``text`` cut to ``length`` characters: an ellipsis replaces the middle, as ends differ.

    >>> shortened("creatinine_on_admission", 12)
    'creatini…ion'
    """
    if len(text) <= length:
        return text
    n_last = max(0, (length - 1) // 3)
    first = text[: length - 1 - n_last].rstrip()
    return f"{first}…{text[len(text) - n_last :].lstrip()}"


def short_names(names: Sequence[str], length: int) -> list[str]:
    """Names of models that fit a label and still differ.

    Only the part in brackets is kept where several names share the part before it; it is dropped
    where no other name shares that part and the whole is too long.

    >>> short_names(["HazardBoost (xgboost)", "HazardBoost (catboost)", "Cox"], 18)
    ['xgboost', 'catboost', 'Cox']
    >>> short_names(["HazardBoost (xgboost)", "Cox"], 18)
    ['HazardBoost', 'Cox']
    """
    parts = [re.fullmatch(r"(.+?) \((.+)\)", name) for name in names]
    stems = [part.group(1) if part else None for part in parts]
    short = []
    for name, part, stem in zip(names, parts, stems, strict=True):
        if part is None or stem is None:
            short.append(name)
        elif stems.count(stem) > 1:
            short.append(part.group(2))
        else:
            short.append(name if len(name) <= length else stem)
    if len(set(short)) < len(set(names)):
        short = list(names)
    return distinct_names(short, length)


def distinct_names(names: Sequence[str], length: int) -> list[str]:
    """Names cut to ``length`` characters, each at a place that keeps it apart from the others.

    >>> distinct_names(["pressure_at_rest_first_day", "pressure_at_rest_second_day"], 18)
    ['pressu…first_day', 'pressu…second_day']
    """
    head = length // 3
    short = {}
    for name in names:
        # Names with the same beginning would differ in their last few letters only.
        alike = [other for other in names if len(other) > length and other[:head] == name[:head]]
        if len(name) <= length or len({*alike}) < 2:
            short[name] = shortened(name, length)
            continue
        same = takewhile(lambda letters: len({*letters}) == 1, zip(*alike, strict=False))
        rest = name[len([*same]) :]
        room = length - head - 1
        cut = rest if len(rest) <= room else f"{rest[: room - 1]}…"
        short[name] = f"{name[:head]}…{cut}"
    return [short[name] for name in names]


def limits_text(low: float, high: float) -> str:
    """Lower and upper limit as percentages."""
    return f"{percent(low)} – {percent(high)}"


# -------------------------------------------------------------------------------------- differences
# Scores nearer than this share of each other are a tie, however certain the difference is.
_TIE = 0.01


@dataclass(frozen=True)
class Interval:
    """An estimate with 95 % limits; infinite limits where there is nothing to judge by."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone is an unlikely explanation."""
        return self.low > 0 or self.high < 0

    def is_clear(self, reference: float) -> bool:
        """Whether a difference of scores is a finding: beyond chance, and not a tie.

        ``reference`` is the score of the model that is compared with.

        >>> Interval(-0.0008, -0.0012, -0.0004).is_clear(0.1031)
        False
        """
        return self.excludes_zero and abs(self.estimate) > _TIE * abs(reference)

    def scaled(self, factor: float) -> Interval:
        """The same in another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.estimate * factor, low, high)


def difference(
    assessment: Assessment,
    one: str,
    other: str,
    metric: str = "integrated_brier_score",
    cause: int = 0,
) -> Interval:
    """Score of ``one`` minus that of ``other``, from paired differences of people.

    The limits hold for the models as they were trained: they show how much another draw of
    held-out people would change the difference.
    """
    known = assessment.comparisons
    is_pair = (known["model"] == one) & (known["reference"] == other)
    row = known[is_pair & (known["metric"] == metric) & (known["cause"] == cause)].iloc[0]
    if np.isnan(row["standard_error"]):
        return Interval(float(row["difference"]), -np.inf, np.inf)
    return Interval(*(float(row[name]) for name in ("difference", "lower", "upper")))
