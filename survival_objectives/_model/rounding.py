"""Times that a fitted model keeps of its training, rounded so that they are no person's own."""

from __future__ import annotations

import numpy as np

from survival_objectives._fit.population import MAX_TIMES, Population

__all__ = ["check_same_time_unit", "rounded_horizon", "two_digits"]

# A time that so many people share is nobody's own.
_SHARED_BY = 5
# Weeks and months, the closest pair of common units, differ by 4.3.
_UNIT_FACTOR = 4.0


def two_digits(time: float) -> float:
    """The time rounded to two significant digits.

    >>> two_digits(1234.5), two_digits(0.0129), two_digits(0.0)
    (1200.0, 0.013, 0.0)
    """
    return float(f"{time:.1e}")


def rounded_horizon(t_max: float, everybody: Population, *, beyond: float = 0.0) -> float:
    """A latest horizon that is no single person's exact time, at or after ``t_max``.

    A time that five or more people share stays, such as the end of a study. Others are raised by
    the share ``beyond`` and rounded up to two significant digits or, where that would be after the
    end of follow-up and nothing is to be beyond it, to three.
    """
    duration, count = everybody.target.duration, everybody.count
    n_sharing = duration == t_max if count is None else count[duration == t_max]
    n_needed = float(_SHARED_BY)
    n_times = len(np.unique(duration))
    if n_times > MAX_TIMES // 2:
        # Times that were counted on a grid share its steps, a few times as many a true time.
        n_needed = max(n_needed, 4 * everybody.n_samples / n_times)
    if n_sharing.sum() >= n_needed:
        return t_max
    rounded = _rounded_up((1 + beyond) * t_max, 2)
    return rounded if beyond or rounded <= duration.max() else _rounded_up(t_max, 3)


def _rounded_up(time: float, n_digits: int) -> float:
    mantissa, exponent = f"{time:.17e}".split("e")
    scale = 10 ** (n_digits - 1)
    # Written and read as a decimal number, so that it is the closest float to what it says.
    return float(f"{int(np.ceil(float(mantissa) * scale - 1e-9))}e{int(exponent) - n_digits + 1}")


def check_same_time_unit(everybody: Population, median: float | None) -> None:
    """Refuse to go on with a model on durations that look like another unit of time.

    ``median`` is that of the durations the model began with, to two digits. A median that is more
    than 4 times as long, or less than a quarter, is refused: that is less than the step from weeks
    to months, and more than another sample of similar people brings about.
    """
    new = everybody.quantile(0.5)
    if not median or not new or 1 / _UNIT_FACTOR <= new / median <= _UNIT_FACTOR:
        return
    factor = max(new / median, median / new)
    msg = (
        f"The median duration is {new:.3g}, but was about {median:g} when the model to go on with "
        f"was begun, {factor:.3g} times {'less' if new > median else 'more'}, as if time were in "
        "another unit. Use the unit of then, or set `warm_start=False`."
    )
    raise ValueError(msg)
