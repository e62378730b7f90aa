"""Features that change in time: training on long tables, and curves along paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost

FloatArray = npt.NDArray[np.float64]
ENGINES = ("xgboost", "lightgbm", "catboost")
TIMES = np.linspace(0.1, 3.5, 18)
FEATURES = ["x0", "x1", "treated"]


def boost(engine: str = "xgboost", **own: Any) -> Any:
    settings = {"random_state": 0, "n_estimators": 40, "n_jobs": 1}
    return HazardBoost(engine, **{**settings, **own})


def treatment(seed: int, n: int) -> pd.DataFrame:
    """People who are treated at a time that depends on x0; then their hazard is a quarter."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    begin = rng.exponential(1.2 * np.exp(-0.7 * x[:, 0]))
    rate = 0.5 * np.exp(0.6 * x[:, 0])
    need = rng.exponential(size=n)
    before = rate * begin
    time = np.where(need < before, need / rate, begin + (need - before) / (0.25 * rate))
    end = rng.uniform(1, 4, n)
    event, stop = (time <= end).astype(int), np.minimum(time, end)
    rows = []
    for i in range(n):
        own = {"id": f"p{i}", "x0": x[i, 0], "x1": x[i, 1]}
        if begin[i] < stop[i]:
            rows.append({**own, "start": 0.0, "stop": begin[i], "event": 0, "treated": 0.0})
            rows.append(
                {**own, "start": begin[i], "stop": stop[i], "event": event[i], "treated": 1.0}
            )
        else:
            rows.append({**own, "start": 0.0, "stop": stop[i], "event": event[i], "treated": 0.0})
    return pd.DataFrame(rows)


def outcomes(table: pd.DataFrame) -> pd.DataFrame:
    return table[["id", "start", "stop", "event"]]


def paths(seed: int, n: int) -> tuple[pd.DataFrame, FloatArray]:
    """Given paths, and their true survival."""
    rng = np.random.default_rng(seed)
    x, begin = rng.normal(size=(n, 2)), rng.uniform(0.2, 3, n)
    own = pd.DataFrame({"id": np.arange(n), "x0": x[:, 0], "x1": x[:, 1]})
    table = pd.concat(
        [
            own.assign(start=0.0, stop=begin, treated=0.0),
            own.assign(start=begin, stop=begin + 1, treated=1.0),
        ]
    )
    rate = 0.5 * np.exp(0.6 * x[:, :1])
    passed = np.minimum(TIMES, begin[:, None]) + 0.25 * np.maximum(TIMES - begin[:, None], 0)
    return table, np.exp(-rate * passed)


@pytest.mark.parametrize("engine", ENGINES)
def test_curves_along_given_paths_are_recovered(engine: str) -> None:
    table = treatment(0, 1500)
    model = boost(engine).fit(table[FEATURES], outcomes(table))
    given, truth = paths(1, 300)
    found = model.predict_survival_function(
        given.sample(frac=1, random_state=0),
        TIMES,
        id="id",
        start="start",
        stop="stop",
        as_frame=True,
    )
    error = ((found.loc[np.arange(300)].to_numpy() - truth) ** 2).mean()
    assert error < 0.25 * ((truth.mean(axis=0) - truth) ** 2).mean()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return treatment(0, 400)


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> Any:
    return boost().fit(table[FEATURES], outcomes(table))


def test_counts_are_of_people(table: pd.DataFrame, model: Any) -> None:
    assert model.n_events_.sum() == 400
    assert model.n_events_[1] == table["event"].sum()


@pytest.mark.parametrize("engine", ENGINES)
def test_time_cut_into_rows_gives_the_same_model(engine: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)))
    X.loc[::7, 1] = np.nan
    scale = np.exp(X[0].to_numpy())
    stop, event = scale * rng.weibull(1.2, 200) + 0.01, rng.integers(0, 3, 200)
    whole = boost(engine).fit(X, (event, stop)).predict_cumulative_incidence(X, TIMES)
    ids = np.arange(200)
    y = pd.DataFrame({"id": ids, "start": 0.0, "stop": stop, "event": event})
    single = boost(engine).fit(X, y).predict_cumulative_incidence(X, TIMES)
    assert_array_equal(single, whole)
    cuts = stop * 0.4
    first = y.assign(stop=cuts, event=0)
    cut = pd.concat([first, y.assign(start=cuts).iloc[::-1]])
    rows = pd.concat([X, X.iloc[::-1]])
    parts = boost(engine).fit(rows, cut).predict_cumulative_incidence(X, TIMES)
    assert_array_equal(parts, whole)


def test_the_order_of_rows_within_people_does_not_matter(table: pd.DataFrame, model: Any) -> None:
    mixed = table.iloc[::-1].sort_values("id", key=lambda ids: ids.str[1:].astype(int))
    again = boost().fit(mixed[FEATURES], outcomes(mixed))
    X = table[FEATURES]
    assert_array_equal(
        again.predict_survival_function(X, TIMES), model.predict_survival_function(X, TIMES)
    )


def test_one_row_per_path_is_features_held_fixed(table: pd.DataFrame, model: Any) -> None:
    people = table.drop_duplicates("id").assign(start=0.0)
    held = model.predict_cumulative_incidence(people[FEATURES], TIMES)
    columns = {"id": "id", "start": "start", "stop": "stop"}
    path = people[["id", "start", "stop", *FEATURES]]
    found = model.predict_cumulative_incidence(path, TIMES, **columns)
    assert_allclose(found, held, atol=1e-12)
    # Cut into rows with the same features it is the same.
    cut = pd.concat([path.assign(stop=0.5), path.assign(start=0.5, stop=1.0)])
    assert_allclose(model.predict_cumulative_incidence(cut, TIMES, **columns), held, atol=1e-12)
    # Whoever starts later is event-free until then.
    late = path.assign(start=0.7, stop=0.9)
    known = model.predict_cumulative_incidence(people[FEATURES], TIMES, conditional_after=0.7)
    assert_allclose(model.predict_cumulative_incidence(late, TIMES, **columns), known, atol=1e-12)


def test_curves_along_a_path_follow_the_formula(model: Any) -> None:
    """(94) by hand, for each model of the mixture."""
    path = pd.DataFrame(
        {
            "id": [0, 0, 0],
            "start": [0.0, 0.8, 1.7],
            "stop": [0.8, 1.7, 2.0],
            "x0": [0.0, 0.5, -1.0],
            "x1": [0.0, 0.0, 1.0],
            "treated": [0.0, 1.0, 0.0],
        }
    )
    fitted, total = model.fitted_model, np.zeros(len(TIMES))
    values = path[FEATURES].to_numpy(np.float32)
    for share, curves in fitted.mixture.knot_curves(values):

        def event(row: int, time: float, curves: FloatArray = curves) -> float:
            return float(np.interp(time, fitted.curves.knots, curves[0, :, row]))

        for number, time in enumerate(TIMES):
            alive = 1.0
            for row, (begin, end) in enumerate([(0.0, 0.8), (0.8, 1.7), (1.7, np.inf)]):
                if time > begin:
                    alive *= (1 - event(row, min(time, end))) / (1 - event(row, begin))
            total[number] += share * alive
    found = model.predict_survival_function(path, TIMES, id="id", start="start", stop="stop")
    assert_allclose(found[0], total, rtol=1e-9)


def test_paths_need_three_columns_and_hazards(table: pd.DataFrame, model: Any) -> None:
    with pytest.raises(ValueError, match="`stop` is None"):
        model.predict_cumulative_incidence(table, TIMES, id="id", start="start")
    other = SurvivalBoost(censoring="kaplan-meier", n_estimators=5)
    other.fit(table[FEATURES], (table["event"], table["stop"]))
    with pytest.raises(ValueError, match="HazardBoost"):
        other.predict_survival_function(
            table[["id", "start", "stop", *FEATURES]], TIMES, id="id", start="start", stop="stop"
        )


# ---------------------------------------------------------------------------------- event-free at s
def test_conditional_after_may_differ_between_people(table: pd.DataFrame, model: Any) -> None:
    X = table[FEATURES].iloc[:20]
    known = np.linspace(0, 2, 20)
    found = model.predict_cumulative_incidence(X, TIMES, conditional_after=known)
    quantile = model.predict_quantile(X, [0.2, 0.5], conditional_after=known)
    mean = model.predict_restricted_mean_time(X, 3.0, conditional_after=known)
    lost = model.predict_restricted_mean_time(X, 3.0, cause=1, conditional_after=known)
    proba = model.predict_proba(X, 2.5, conditional_after=known)
    assert_allclose(mean + lost, 3.0 - known)
    for row in (0, 7, 19):
        own, s = X.iloc[[row]], float(known[row])
        assert_allclose(
            found[[row]], model.predict_cumulative_incidence(own, TIMES, conditional_after=s)
        )
        assert_allclose(
            proba[row],
            model.predict_cumulative_incidence(own, 2.5, conditional_after=s)[0, :, 0],
        )
        reached = quantile[row][np.isfinite(quantile[row])]
        left = model.predict_survival_function(own, np.append(reached, 0.0), conditional_after=s)
        # Quantiles stay on the clock of training.
        assert (reached > s).all()
        assert_allclose(1 - left[0, :-1], [0.2, 0.5][: len(reached)], atol=1e-9)
        fine = np.linspace(s, 3, 3001)
        curve = model.predict_survival_function(own, fine, conditional_after=s)[0]
        assert_allclose(mean[row], np.trapezoid(curve, fine), atol=1e-4)


def test_conditional_after_of_other_people_is_refused(table: pd.DataFrame, model: Any) -> None:
    with pytest.raises(ValueError, match="2 times for 3 people"):
        model.predict_survival_function(
            table[FEATURES].iloc[:3], TIMES, conditional_after=[1.0, 2.0]
        )


def test_whole_units_follow_their_own_clock() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    duration = np.ceil(rng.exponential(6, 400) * np.exp(-0.5 * X[:, 0])).clip(1, 24)
    model = boost().fit(X, ((duration < 24).astype(int), duration))
    known = np.repeat([3.0, 5.5], 5)
    mean = model.predict_restricted_mean_time(X[:10], 12.0, conditional_after=known)
    for row in (0, 9):
        s = known[row]
        curve = model.predict_survival_function(X[[row]], np.arange(13.0), conditional_after=s)[0]
        # Constant within units.
        edges = np.maximum(np.arange(14.0)[:13], s)
        assert_allclose(mean[row], curve[:12] @ np.diff(edges))


def test_columns_of_one_frame_are_a_long_table(table: pd.DataFrame, model: Any) -> None:
    again = boost().fit(
        table[["id", "start", "stop", "event", *FEATURES]],
        id="id",
        start="start",
        stop="stop",
        event="event",
    )
    X = table[FEATURES]
    assert_array_equal(
        again.predict_survival_function(X, TIMES), model.predict_survival_function(X, TIMES)
    )


def test_horizons_refuse_long_tables(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="HazardBoost"):
        SurvivalBoost().fit(table[FEATURES], outcomes(table))


def test_models_of_long_tables_are_saved(table: pd.DataFrame, model: Any, tmp_path: Any) -> None:
    model.save(tmp_path / "model")
    loaded = HazardBoost.load(tmp_path / "model")
    columns = {"id": "id", "start": "start", "stop": "stop"}
    path = table[["id", "start", "stop", *FEATURES]]
    assert_array_equal(
        loaded.predict_survival_function(path, TIMES, **columns),
        model.predict_survival_function(path, TIMES, **columns),
    )


def test_disk_takes_one_row_per_person_from_time_0(table: pd.DataFrame) -> None:
    external = pytest.importorskip("survival_objectives.adapters.external_memory")
    late = {"event": table["event"], "duration": table["stop"], "entry": table["stop"] / 2}
    for y in (outcomes(table), late):
        with pytest.raises(ValueError, match="train in memory"):
            external.fit_external(HazardBoost(), [(table[FEATURES], y)])


def test_columns_that_held_outcomes_are_ignored_in_predictions(tmp_path):
    table = treatment(0, 150)
    names = {"id": "id", "start": "start", "stop": "stop"}
    model = boost(n_estimators=5).fit(table, **names, event="event")
    model.save(tmp_path / "model")
    for one in (model, HazardBoost.load(tmp_path / "model")):
        along = one.predict_survival_function(table, TIMES, **names)
        without = table.drop(columns="event")
        assert_array_equal(along, one.predict_survival_function(without, TIMES, **names))
        assert_array_equal(one.predict(table), one.predict(table[FEATURES]))
        with pytest.raises(ValueError, match="unknown columns"):
            one.predict(table.assign(other=1.0))
