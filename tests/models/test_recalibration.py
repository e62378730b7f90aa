"""Recalibration: level and slope of the interval hazards of each cause on other people."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost, SurvivalBoost, load, recalibrate
from survival_objectives._models import recalibration
from survival_objectives._models.recalibration import Recalibration
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import TimeAxis
from survival_objectives.datasets import make_competing_risks
from survival_objectives.metrics import Evaluation

TIMES = np.linspace(0, 3, 13)


def trained(estimator=HazardBoost, engine="lightgbm", **options):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(1500, 3)), columns=list("abc"))
    values = X.assign(b=X["b"].abs()).to_numpy()
    hazard = [0.5, 0.3] * np.exp(values @ [[1.0, -0.5], [-0.8, 0.0], [0.0, 0.8]])
    times = np.column_stack([generator.exponential(1 / hazard), generator.exponential(2, 1500)])
    y = {"event": (times.argmin(axis=1) + 1) % 3, "duration": times.min(axis=1)}
    X.iloc[::9, 2] = np.nan
    if options.pop("days", False):
        y["duration"] = np.ceil(10 * y["duration"])
    rounds = 20 if estimator is HazardBoost else 10
    return estimator(engine, n_estimators=rounds, random_state=0, **options).fit(X, y), X


@pytest.fixture(scope="module")
def hazards():
    return trained(n_repeats=1)


def shifted(model, level, slope):
    """The model with these parameters."""
    knots = model.fitted_model.knots()
    centre = tuple((-2.5,) * (len(knots) - 1) for _ in level)
    found = Recalibration(level, slope, tuple(knots.tolist()), centre)
    return HazardBoost.of(model.fitted_model.with_frame(recalibration=found))


def drawn(model, X, seed):
    """Outcomes by the model's curves, and censoring that is independent of them."""
    generator = np.random.default_rng(seed)
    last = float(model.times_[-1])
    grid = np.linspace(0, last, 400)
    curves = model.predict_cumulative_incidence(X, grid)[:, 1:].cumsum(axis=1)
    shares = generator.uniform(size=len(X))
    cause = (shares[:, None] >= curves[:, :, -1]).sum(axis=1)
    happened = cause < curves.shape[1]
    cause = np.where(happened, cause, 0)
    # Given the cause, the time at which its own curve has risen by the rest of the share.
    before = np.pad(curves, ((0, 0), (1, 0), (0, 0)))[np.arange(len(X)), cause]
    own = curves[np.arange(len(X)), cause] - before
    reached = own >= (shares - before[:, -1])[:, None]
    time = np.where(happened, grid[reached.argmax(axis=1)], last)
    gone = generator.exponential(last / 1.5, len(X)).clip(grid[1], last)
    event = np.where(happened & (time <= gone), cause + 1, 0)
    return {"event": event, "duration": np.minimum(np.maximum(time, grid[1]), gone)}


def many(X, n_people, seed):
    return X.sample(n_people, replace=True, random_state=seed).reset_index(drop=True)


# --------------------------------------------------------------------------------------- formulas
def test_hazards_follow_their_equation(hazards):
    """(98) and the products of 1 - h', written out."""
    model, X = hazards
    people = X.head(5)
    level, slope = (0.4, -0.3), (0.7, 1.5)
    changed = shifted(model, level, slope)
    knots = np.array(changed.recalibration_.knots)
    old = model.predict_cumulative_incidence(people, knots)
    new = changed.predict_cumulative_incidence(people, knots)
    for person in range(5):
        survival, incidence = 1.0, np.zeros(2)
        for j in range(1, len(knots)):
            hazard = (old[person, 1:, j] - old[person, 1:, j - 1]) / old[person, 0, j - 1]
            odds = hazard / (1 - hazard.sum())
            moved = [
                np.exp(a - 2.5 + b * (np.log(o) + 2.5))
                for a, b, o in zip(level, slope, odds, strict=True)
            ]
            changed_hazard = np.array(moved) / (1 + sum(moved))
            incidence += survival * changed_hazard
            survival *= 1 - changed_hazard.sum()
            np.testing.assert_allclose(new[person, 1:, j], incidence, rtol=1e-9)
            assert new[person, 0, j] == pytest.approx(survival)


def test_curves_stay_curves(hazards):
    model, X = hazards
    changed = shifted(model, (1.5, -1.0), (0.4, 2.0))
    curves = changed.predict_cumulative_incidence(X, TIMES)
    np.testing.assert_allclose(curves.sum(axis=1), 1, atol=1e-12)
    assert (np.diff(curves[:, 1:]) >= 0).all()
    median = changed.predict_quantile(X.head(40))
    for row, time in enumerate(median):
        if np.isfinite(time):
            survival = changed.predict_survival_function(X.iloc[[row]], [time])
            assert survival == pytest.approx(0.5, abs=1e-6)
    after = changed.predict_survival_function(X, [2.0], conditional_after=1.0)
    both = changed.predict_survival_function(X, [1.0, 2.0])
    np.testing.assert_allclose(after[:, 0], both[:, 1] / both[:, 0], rtol=1e-4, atol=1e-9)
    hazard, knots = changed.predict_hazard(X)
    at_end = changed.predict_survival_function(X, knots[-1:])[:, 0]
    np.testing.assert_allclose(np.prod(1 - hazard.sum(axis=1), axis=1), at_end, atol=1e-12)


def test_a_constant_path_gives_the_same_curves(hazards):
    model, X = hazards
    changed = shifted(model, (0.5, 0.0), (0.8, 1.0))
    path = X.head(20).assign(person=range(20), begin=0.0, end=1.0)
    found = changed.predict_cumulative_incidence(
        path, TIMES, id="person", start="begin", stop="end"
    )
    np.testing.assert_allclose(found, changed.predict_cumulative_incidence(X.head(20), TIMES))


# ------------------------------------------------------------------------------ simulated shifts
def test_a_shift_is_found_and_calibration_restored(hazards):
    model, X = hazards
    other = shifted(model, (0.8, -0.6), (0.6, 1.0))
    people, later = many(X, 1500, 1), many(X, 3000, 2)
    y, y_later = drawn(other, people, 3), drawn(other, later, 4)
    changed = recalibrate(model, people, y)
    slope = changed.recalibration_.slope
    assert slope[0] == pytest.approx(0.6, abs=0.15)
    assert slope[1] == pytest.approx(1.0, abs=0.25)
    before, after = (
        Evaluation(None, y_later, one.predict_cumulative_incidence(later, [1.5]), [1.5])
        for one in (model, changed)
    )
    for cause in (1, 2):
        off, left = (abs(np.log(one.observed_expected(cause).value[0])) for one in (before, after))
        assert left < off / 2
        gained = after.concordance(cause) - before.concordance(cause)
        assert gained.value[0] > -0.005
        assert after.brier(cause).value[0] < before.brier(cause).value[0]
    assert abs(after.calibration(1).slope.value - 1) < abs(before.calibration(1).slope.value - 1)


def test_nothing_is_changed_where_nothing_shifted(hazards):
    model, X = hazards
    assert model.recalibration_ is None
    chosen = [
        recalibrate(model, people, drawn(model, people, seed)).recalibration_
        for seed in range(20)
        for people in [many(X, 300, seed)]
    ]
    assert sum(found is None for found in chosen) >= 16
    people = many(X, 300, 0)
    same = recalibrate(shifted(model, (0.5, 0.0), (1.0, 1.0)), people, drawn(model, people, 0))
    assert same.recalibration_ is chosen[0] is None
    expected = model.predict_cumulative_incidence(X, TIMES)
    np.testing.assert_array_equal(same.predict_cumulative_incidence(X, TIMES), expected)


def test_late_entry_weights_and_order_of_people():
    """A person of weight 2 is two people; entries are conditioned on."""
    generator = np.random.default_rng(0)
    axis, knots = TimeAxis(0.0), np.array([0.0, 1.0, 2.0])
    margin = generator.normal(-1, 1, (6, 1, 2))
    y = {"event": [1, 0, 1, 0, 1, 1], "duration": [0.5, 1.5, 2.0, 2.0, 1.2, 0.7]}
    target = check_survival_target(y)
    weight = np.array([1.0, 2, 1, 1, 0, 1])
    people = recalibration._People.of(margin, target, weight, axis, knots)
    rows = np.array([0, 1, 1, 2, 3, 5])
    copied = recalibration._People.of(margin[rows], target.take(rows), np.ones(6), axis, knots)
    np.testing.assert_allclose(people.centre, copied.centre)
    for kind in recalibration.KINDS:
        np.testing.assert_allclose(
            people.fitted(kind, people.centre), copied.fitted(kind, people.centre), atol=1e-4
        )
    late = replace(target, entry=np.array([0, 1.0, 1.0, 0, 0, 0.2]))
    entered = recalibration._People.of(margin, late, np.ones(6), axis, knots)
    np.testing.assert_allclose(entered.weight[:3], [[1, 0], [0, 0.5], [0, 1]])


def test_the_gradient_is_that_of_the_likelihood():
    generator = np.random.default_rng(1)
    target = check_survival_target((generator.integers(3, size=40), generator.uniform(0, 3, 40)))
    margin = generator.normal(-1, 1, (40, 2, 3))
    people = recalibration._People.of(margin, target, np.ones(40), TimeAxis(0.0), np.arange(4.0))
    at, centre = np.array([[0.3, -0.2], [0.8, 1.1]]), people.centre
    _, by_level, by_slope = people.likelihood(*at, centre)
    for place, expected in zip(np.ndindex(2, 2), [*by_level, *by_slope], strict=True):
        step = np.zeros((2, 2))
        step[place] = 1e-5
        up, down = (people.likelihood(*(at + s), centre)[0].sum() for s in (step, -step))
        assert (up - down) / 2e-5 == pytest.approx(expected, rel=1e-5)


# --------------------------------------------------------------------------- files, both subjects
@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (HazardBoost, {}),
        (HazardBoost, {"days": True, "engine": "xgboost"}),
        (SurvivalBoost, {"censoring": "kaplan-meier"}),
        (SurvivalBoost, {"censoring": "kaplan-meier", "time_smoothing": 0.0, "engine": "catboost"}),
    ],
)
def test_it_is_saved_and_exported(estimator, options, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, X = trained(estimator, **options)
    times = np.concatenate([np.linspace(0, 1.2, 9) * model.times_[-1], [1e-9]])
    people = many(X, 600, 1)
    y = drawn(model, people, 2)
    if "days" in options:
        y["duration"] = np.ceil(y["duration"])
    y["event"] = np.where((y["event"] == 1) & (np.arange(600) % 3 > 0), 0, y["event"])
    changed = recalibrate(model, people, y)
    assert changed.recalibration_.level[0] < -0.4
    expected = changed.predict_cumulative_incidence(X, times)
    assert np.abs(expected - model.predict_cumulative_incidence(X, times)).max() > 0.02
    assert np.abs(expected[:, 1:, -1]).min() >= 0
    changed.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.recalibration_ == changed.recalibration_
    np.testing.assert_array_equal(again.predict_cumulative_incidence(X, times), expected)
    changed.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    given = {"features": X.to_numpy(np.float32), "times": times}
    np.testing.assert_allclose(session.run(None, given)[0], expected, rtol=0, atol=2e-6)


def test_a_model_of_the_plugin_is_recalibrated():
    lgb = pytest.importorskip("lightgbm")
    from survival_objectives.adapters.lightgbm import HazardObjective

    data = make_competing_risks(600, n_causes=1, random_state=0)
    objective = HazardObjective(data.X, data.y, random_state=0)
    params = {**objective.params, "objective": objective, "num_leaves": 7, "verbosity": -1}
    model = objective.fitted(lgb.train(params, objective.train_set, 10))
    y = drawn(shifted(model, (1.0,), (1.0,)), data.X, 1)
    changed = recalibrate(model, data.X, y)
    ratios = [
        Evaluation(None, y, one.predict_survival_function(data.X, [1.0]), [1.0]).observed_expected()
        for one in (model, changed)
    ]
    assert ratios[0].value[0] > 1.4
    assert ratios[1].value[0] == pytest.approx(1, abs=0.05)


def test_what_cannot_be_recalibrated_is_refused(hazards):
    model, X = hazards
    y = {"event": np.zeros(len(X), int), "duration": np.ones(len(X))}
    with pytest.raises(ValueError, match=r"None of the 1500 people had an event by"):
        recalibrate(model, X, y)
    with pytest.raises(ValueError, match="1500 rows but `y` has 10"):
        recalibrate(model, X, {"event": np.ones(10, int), "duration": np.ones(10)})
    long = {"id": [1, 1], "start": [0.0, 1.0], "stop": [1.0, 2.0], "event": [0, 1]}
    with pytest.raises(ValueError, match="one row per person"):
        recalibrate(model, X.head(2), long)
    free, X = trained(SurvivalBoost, censoring="kaplan-meier", monotone=False)
    with pytest.raises(ValueError, match="monotone=True"):
        recalibrate(free, X, y)
