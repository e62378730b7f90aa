"""Events known to lie between two visits: equation (83), checks, and curves of a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._hazards.intervals import completed, interval_outcomes
from survival_objectives._people.cohort import Cohort
from survival_objectives.adapters.xgboost import HazardObjective
from survival_objectives.metrics import Evaluation

FloatArray = npt.NDArray[np.float64]
TIMES = np.linspace(0.2, 3.8, 30)


def people(seed: int, n: int, gap: float = 0.8) -> tuple[FloatArray, pd.DataFrame, FloatArray]:
    """Two causes; events are known to lie between visits; exact times are beside them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    rate = np.exp(0.7 * x) * [0.3, 0.2]
    time = rng.exponential(size=n) / rate.sum(axis=1)
    cause = 1 + (rng.random(n) * rate.sum(axis=1) > rate[:, 0])
    last = gap * rng.integers(2, 6, n)  # The last visit.
    seen = time <= last
    upper = np.where(seen, gap * np.ceil(time / gap), np.inf)
    lower = np.where(seen, upper - gap, last)
    y = pd.DataFrame({"event": np.where(seen, cause, 0), "lower": lower, "upper": upper})
    return x, y, np.minimum(time, last)


def truth(x: FloatArray) -> FloatArray:
    rate = np.exp(0.7 * x) * [0.3, 0.2]
    total = rate.sum(axis=1)[:, None]
    passed = 1 - np.exp(-total * TIMES)
    return np.stack([1 - passed, *(rate.T[:, :, None] / total * passed)], axis=1)


def test_curves_are_nearly_those_of_exact_times() -> None:
    x, y, duration = people(0, 500)
    middle = np.where(y["event"] > 0, (y["lower"] + y["upper"]) / 2, y["lower"])
    others = np.random.default_rng(1).normal(size=(300, 2))

    def error(outcomes: Any) -> float:
        model = HazardBoost(random_state=0, n_jobs=1, n_estimators=20).fit(x, outcomes)
        assert model.n_events_.sum() == 500
        curves = model.predict_cumulative_incidence(others, TIMES)
        return float(((curves - truth(others)) ** 2).mean())

    found = error(y)
    assert found < 0.5 * error((y["event"], middle))
    assert found < 1.3 * error((y["event"], duration))


def test_times_are_at_levels_of_the_incidence_within_the_interval() -> None:
    x, y, _ = people(0, 300)
    model: Any = HazardBoost(random_state=0, n_jobs=1, n_estimators=5).fit(x, y)
    frame, lower = interval_outcomes({name: y[name] for name in y})
    assert lower is not None
    cohort = Cohort.checked(x, frame)
    drawn = completed(cohort, lower, model.fitted_model, np.random.default_rng(0))
    assert drawn.weight is not None
    assert drawn.group is not None
    assert_allclose(np.bincount(drawn.group, drawn.weight), 1)
    for person in np.flatnonzero(y["event"] > 0)[:5]:
        own = drawn.target.duration[drawn.group == person]
        left, right = y["lower"][person], y["upper"][person]
        at = [left, right, *own]
        curve = model.predict_cumulative_incidence(x[[person]], at)[0, y["event"][person]]
        level = (curve[2:] - curve[0]) / (curve[1] - curve[0])
        # One in each part of (0, 1), up to the grid on which the incidence is read.
        parts = np.arange(len(own)) + 0.5
        assert_allclose(len(own) * level, parts, atol=0.6)


def test_known_times_are_the_model_without_intervals() -> None:
    x, y, duration = people(0, 200)
    exact = y.assign(lower=duration, upper=np.where(y["event"] > 0, duration, np.nan))
    settings: Any = {"random_state": 0, "n_jobs": 1, "n_estimators": 5}
    weight = np.arange(200) % 3
    found, plain = (
        HazardBoost(**settings).fit(x, outcomes, sample_weight=weight, groups=np.arange(200))
        for outcomes in (exact, (y["event"], duration))
    )
    assert_array_equal(
        found.predict_survival_function(x, TIMES), plain.predict_survival_function(x, TIMES)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lower": np.nan}, "`lower` is nan at row 0"),
        ({"lower": -1.0}, r"`lower` is -1.0 at row 0 .*counted from 0"),
        ({"lower": 9.0, "upper": 8.0}, "`lower` is 9.0 at row 0 .*after `upper`"),
        ({"event": 0, "upper": 9.0}, "`event` is 0 at row 0 .*needs a finite `upper`"),
        ({"event": 1, "upper": np.inf}, "`event` is 1 at row 0 .*needs a finite `upper`"),
        ({"entry": 3.9, "event": 1, "lower": 3.0, "upper": 4.0}, "`entry` is 3.9.*after `lower`"),
    ],
)
def test_mistakes_name_the_value(changes: dict[str, float], said: str) -> None:
    x, y, _ = people(0, 50)
    y = y.assign(entry=0.0)
    for name, value in changes.items():
        y[name] = y[name].astype(float)
        y.loc[0, name] = value
    with pytest.raises(ValueError, match=said):
        HazardBoost().fit(x, {name: y[name].to_numpy() for name in y})


def test_what_takes_no_intervals_says_who_does() -> None:
    x, y, _ = people(0, 50)
    model = HazardBoost(random_state=0, n_estimators=5).fit(x, people(0, 50, gap=0.1)[1])
    curves = np.ones((50, 1))
    for refused in (
        lambda: SurvivalBoost().fit(x, y),
        lambda: HazardObjective(x, y),
        lambda: model.score(x, y),
        lambda: Evaluation(None, y, curves, [1.0]),
        lambda: HazardBoost().fit(x, y, eval_set=(x, y)),
    ):
        with pytest.raises(ValueError, match=r"Only `HazardBoost\.fit` takes"):
            refused()
    model.set_params(warm_start=True, n_estimators=9)
    with pytest.raises(ValueError, match="warm_start=False"):
        model.fit(x, y)
