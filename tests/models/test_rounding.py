"""Times that a model keeps identify no one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from survival_objectives._models.frame import check_same_time_unit, rounded_horizon, two_digits
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.population import Population

TIMES = st.floats(1e-6, 1e6)


def population(duration):
    duration = np.asarray(duration, dtype=np.float64)
    return Population(
        SurvivalTarget(np.ones(len(duration), np.int32), duration, np.array([0, 1])), None
    )


def n_digits(time):
    """Significant digits of the shortest decimal number that is this float."""
    return len(np.format_float_scientific(time).split("e")[0].replace(".", "").rstrip("0"))


@given(TIMES)
def test_two_digits_are_within_5_per_cent(time):
    rounded = two_digits(time)
    assert n_digits(rounded) <= 2
    assert abs(rounded - time) <= 0.05 * time * (1 + 1e-9)


@given(st.lists(TIMES, min_size=1, max_size=20, unique=True), st.sampled_from([0.0, 0.1]))
def test_a_latest_horizon_is_rounded_up_and_stays_near(times, beyond):
    t_max = max(times)
    found = rounded_horizon(t_max, population(times), beyond=beyond)
    least = (1 + beyond) * t_max
    assert least * (1 - 1e-9) <= found <= 1.1 * least * (1 + 1e-9)
    assert n_digits(found) <= 3


@given(TIMES, st.integers(1, 9))
def test_a_time_is_kept_only_where_five_share_it(t_max, n_sharing):
    people = population([t_max] * n_sharing + [t_max / 3])
    found = rounded_horizon(t_max, people)
    if n_sharing >= 5:
        assert found == t_max
    else:
        assert n_digits(found) <= 3


@given(TIMES, st.floats(0.01, 100.0))
def test_another_unit_is_a_factor_of_more_than_four(median, factor):
    people = population([median * factor])
    if 0.2501 < factor < 3.999:
        check_same_time_unit(people, median)
    elif not 0.2499 < factor < 4.001:
        with pytest.raises(ValueError, match="as if time were in another unit"):
            check_same_time_unit(people, median)
