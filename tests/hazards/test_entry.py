"""People who come under observation late: rows, likelihood, weights, and curves of known truths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._hazards.formulas import (
    interval_start,
    risk_rows,
)
from survival_objectives._models.frame import exposures, marginal_hazard
from survival_objectives._people import SurvivalTarget
from survival_objectives._people.cohort import Cohort
from survival_objectives._people.population import TimeAxis

FloatArray = npt.NDArray[np.float64]
KNOTS = np.array([0.0, 1.0, 2.0, 4.0])
ENGINES = ("xgboost", "lightgbm", "catboost")


def cells(
    event: list[int], position: list[float], entry: list[float], knots: FloatArray = KNOTS
) -> list[tuple[int, int, int, float]]:
    rows = risk_rows(
        np.array(event, np.int32), np.array(position), knots, entry=np.array(entry, dtype=float)
    )
    return sorted(zip(*(v.tolist() for v in vars(rows).values()), strict=True))


def test_rows_begin_at_the_entry_and_weigh_the_part_at_risk() -> None:
    found = cells([1, 0, 0, 1], [3.0, 3.0, 3.5, 3.9], [0.25, 1.0, 2.5, 3.8])
    assert found == [
        (0, 0, 0, 0.75),
        (0, 1, 0, 1.0),
        (0, 2, 1, 1.0),
        (1, 1, 0, 1.0),
        (1, 2, 0, 0.5),
        (2, 2, 0, 0.5),
        # However late the entry, an event weighs 1.
        (3, 2, 1, 1.0),
    ]


def test_exposures_are_the_weights_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    entry = np.round(rng.uniform(0, 3, 50), 1)
    position = entry + rng.uniform(0.05, 0.9, 50)
    event = rng.integers(0, 2, 50).astype(np.int32)
    rows = risk_rows(event, position, KNOTS, entry=entry)
    target = SurvivalTarget(event, position, np.arange(2), entry)
    found = exposures(TimeAxis(0.0), KNOTS, target)
    by_row = np.zeros((50, 3))
    np.add.at(by_row, (rows.person, rows.interval), rows.weight)
    assert_allclose(found, by_row, atol=1e-12)
    assert_allclose(marginal_hazard(TimeAxis(0.0), KNOTS, target, None).at_risk, by_row.sum(axis=0))


def test_a_mass_is_at_risk_fully_or_not_at_all() -> None:
    before = float(np.nextafter(np.float32(2), np.float32(0)))
    knots = np.array([0.0, before, 2.0, 4.0])
    # Entry just before the mass, at it, and at time 0 of knots that begin before it.
    assert cells([0, 0], [3.0, 3.0], [before, 2.0], knots) == [
        (0, 1, 0, 1.0),
        (0, 2, 0, 0.5),
        (1, 2, 0, 0.5),
    ]
    knots = np.array([-1.0, 0.0, 2.0])
    assert cells([0, 0], [1.0, 1.0], [-np.inf, 0.5], knots) == [
        (0, 0, 0, 1.0),
        (0, 1, 0, 0.5),
        (1, 1, 0, 0.25),
    ]


def test_entry_in_whole_units_is_after_its_unit() -> None:
    target = SurvivalTarget(
        np.array([1, 0, 1, 0], np.int32),
        np.array([4.0, 4.0, 4.0, 4.0]),
        np.arange(2),
        np.array([2.0, 3.5, 3.5, 0.0]),
    )
    number = TimeAxis(1.0).entry_number(target)
    assert_array_equal(number, [2.0, 3.0, 3.0, -np.inf])
    # An event is in a unit at risk even if the entry is recorded in the same one.
    late = SurvivalTarget(target.event, target.duration, target.event_ids, np.full(4, 4.0))
    assert_array_equal(TimeAxis(1.0).entry_number(late), [3.0, 4.0, 3.0, 4.0])


def test_drawn_rows_are_among_the_intervals_at_risk_and_weigh_as_all() -> None:
    knots = np.arange(32.0)
    event, position = np.zeros(4000, np.int32), np.full(4000, 31.0)
    entry = np.full(4000, 6.25)
    rows = risk_rows(
        event, position, knots, entry=entry, n_rows=5, generator=np.random.default_rng(0)
    )
    assert rows.interval.min() == 6
    total = np.bincount(rows.interval, rows.weight, minlength=31)
    assert_allclose(total[7:30], 4000, rtol=0.1)
    assert_allclose(total[6], 0.75 * 4000, rtol=0.1)
    assert_allclose(total[30], 4000)


def test_the_hazard_of_an_interval_is_found_where_people_enter_within_it() -> None:
    rng = np.random.default_rng(0)
    n, q = 200_000, 0.3
    time = np.where(rng.random(n) < q, rng.random(n), 2.0)  # Linear in the first interval.
    entry = rng.random(n)
    seen = time > entry
    event = (time < 1).astype(np.int32)[seen]
    position = np.minimum(time, 1.0)[seen]
    rows = risk_rows(event, position, np.array([0.0, 1.0]), entry=entry[seen])
    start = interval_start(rows, 1, 1)
    # Margins start at log(D / R), the log of a hazard.
    assert_allclose(np.exp(start), q, atol=0.005)


# ------------------------------------------------------------------------------------------- models
def truncated(seed: int, n: int) -> tuple[FloatArray, dict[str, FloatArray], FloatArray]:
    """People with a Weibull time, event-free at an entry up to half of the follow-up."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3 * n, 3)).astype(np.float32)
    time = 3 * np.exp(-0.5 * x[:, 0]) * rng.weibull(1.5, 3 * n)
    entry = rng.uniform(0, 2.5, 3 * n)
    seen = np.flatnonzero(time > entry)[:n]
    x, time, entry = x[seen], time[seen], entry[seen]
    end = np.minimum(5.0, entry + rng.uniform(0.5, 5, n))
    y = {
        "event": (time <= end).astype(int),
        "duration": np.minimum(time, end),
        "entry": entry,
    }
    return x, y, entry


def survival(x: FloatArray, times: FloatArray) -> FloatArray:
    curves: FloatArray = np.exp(-((times / (3 * np.exp(-0.5 * x[:, :1]))) ** 1.5))
    return curves


@pytest.mark.parametrize("engine", ENGINES)
def test_curves_of_truncated_people_are_those_of_the_population(engine: str) -> None:
    x, y, _ = truncated(0, 1500)
    other = np.random.default_rng(9).normal(size=(500, 3)).astype(np.float32)
    times = np.linspace(0.2, 4.5, 20)
    truth = survival(other, times)

    def error(y: dict[str, FloatArray]) -> float:
        model = HazardBoost(engine, random_state=0, n_estimators=50)
        found = model.fit(x, y).predict_survival_function(other, times)
        return float(((found - truth) ** 2).mean())

    marginal = ((truth.mean(axis=0) - truth) ** 2).mean()
    naive = error({name: y[name] for name in ("event", "duration")})
    assert error(y) < 0.05 * marginal < 0.2 * naive


@pytest.mark.parametrize("engine", ENGINES)
def test_entry_at_time_0_for_all_is_the_model_without_entry(engine: str) -> None:
    x, y, _ = truncated(0, 300)
    model = HazardBoost(engine, random_state=0, n_estimators=20)
    times = np.linspace(0, 5, 30)
    without = model.fit(x, (y["event"], y["duration"])).predict_cumulative_incidence(x, times)
    zero = {**y, "entry": np.zeros(300)}
    assert_array_equal(model.fit(x, zero).predict_cumulative_incidence(x, times), without)


def test_held_out_people_may_enter_late_too() -> None:
    x, y, _ = truncated(0, 600)
    held = {name: values[400:] for name, values in y.items()}
    kept = {name: values[:400] for name, values in y.items()}
    model = HazardBoost(linear=False, random_state=0, n_estimators=20)
    with_entry = model.fit(x[:400], kept, eval_set=(x[400:], held)).history_
    without = {name: held[name] for name in ("event", "duration")}
    naive = model.fit(x[:400], kept, eval_set=(x[400:], without)).history_
    assert [one.loss for one in with_entry] != [one.loss for one in naive]


def test_a_method_without_hazards_names_the_class_that_takes_entry() -> None:
    x, y, _ = truncated(0, 100)
    with pytest.raises(ValueError, match="HazardBoost"):
        SurvivalBoost(censoring="boosted").fit(x, y)


def test_entries_stay_before_durations_in_float32() -> None:
    y = {"event": [1, 0], "duration": [100.000001, 5.0], "entry": [100.0, 0.0]}
    target = Cohort.checked(np.zeros((2, 1)), y, late_entry=True).target
    assert target.entry is not None
    assert (target.entry < target.duration).all()
    assert_allclose(target.entry, y["entry"], rtol=1e-6)


def test_the_objective_of_hazards_takes_entry() -> None:
    xgb = pytest.importorskip("xgboost")
    from survival_objectives.adapters.xgboost import HazardObjective

    x, y, _ = truncated(0, 1000)
    objective = HazardObjective(x[:800], {k: v[:800] for k, v in y.items()}, random_state=0)
    held = objective.held_out(x[800:], {k: v[800:] for k, v in y.items()})
    booster = xgb.train(
        {**objective.params, "max_depth": 3, "eta": 0.1},
        objective.dtrain,
        20,
        obj=objective,
        custom_metric=objective.metric,
        evals=[(held, "held_out")],
        verbose_eval=False,
    )
    times = np.linspace(0.2, 4.5, 20)
    truth = survival(x, times)
    found = objective.predict_survival_function(booster, x, times)
    assert ((found - truth) ** 2).mean() < 0.15 * ((truth.mean(axis=0) - truth) ** 2).mean()
