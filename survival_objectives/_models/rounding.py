"""Times that a fitted model keeps from training, rounded so that they reveal no person's time."""

from __future__ import annotations

import numpy as np

from survival_objectives._people.population import MAX_TIMES, Population

# A time shared by this many people identifies none of them.
_SHARED_BY = 5
# Weeks and months, the closest pair of common units, differ by 4.3.
_UNIT_FACTOR = 4.0


def two_digits(time: float) -> float:
    """The time rounded to two significant digits.

    >>> two_digits(1234.5), two_digits(0.0129), two_digits(0.0)
    (1200.0, 0.013, 0.0)
    """
    return float(f"{time:.1e}")


def rounded_horizon(t_max: float, population: Population, *, beyond: float = 0.0) -> float:
    """A latest horizon at or after ``t_max`` that is not the exact time of a single person.

    A time shared by five or more people is kept, such as the end of a study. Other times are
    increased by the share ``beyond`` and rounded up to two significant digits or, if ``beyond`` is
    0 and that would be after the end of follow-up, to three.
    """
    duration, count = population.target.duration, population.count
    n_sharing = duration == t_max if count is None else count[duration == t_max]
    n_needed = float(_SHARED_BY)
    n_times = len(np.unique(duration))
    if n_times > MAX_TIMES // 2:
        # Times counted on a grid are shared by more people than the true times.
        n_needed = max(n_needed, 4 * population.n_samples / n_times)
    if n_sharing.sum() >= n_needed:
        return t_max
    rounded = _rounded_up((1 + beyond) * t_max, 2)
    return rounded if beyond or rounded <= duration.max() else _rounded_up(t_max, 3)


def _rounded_up(time: float, n_digits: int) -> float:
    mantissa, exponent = f"{time:.17e}".split("e")
    scale = 10 ** (n_digits - 1)
    # Through a decimal string, so that the result is the float closest to the decimal number.
    return float(f"{int(np.ceil(float(mantissa) * scale - 1e-9))}e{int(exponent) - n_digits + 1}")


def check_same_time_unit(population: Population, median: float | None) -> None:
    """Refuse to continue a model on durations that seem to be in another time unit.

    ``median`` is the median duration of the first training, to two digits. A median more than 4
    times as long, or less than a quarter, is refused: that is less than the ratio of months to
    weeks, and more than the variation between samples of similar people.
    """
    new = population.quantile(0.5)
    if not median or not new or 1 / _UNIT_FACTOR <= new / median <= _UNIT_FACTOR:
        return
    factor = max(new / median, median / new)
    msg = (
        f"The median duration is {new:.3g}, but was about {median:g} in the first training of the "
        f"model to continue, {factor:.3g} times {'less' if new > median else 'more'}, as if time "
        "were in another unit. Use the same unit, or set `warm_start=False`."
    )
    raise ValueError(msg)
