"""The generator against its own formulas, closed forms, Monte Carlo and adaptive quadrature."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from survival_objectives._people import Features, check_survival_target
from survival_objectives.censoring import CensoringModel
from survival_objectives.datasets import (
    _synthetic,
    integrated_squared_error,
    make_competing_risks,
)
from survival_objectives.datasets._weibull import (
    WeibullCensoring,
    WeibullHazards,
    WeibullTruth,
    _incidence_at_start,
)
from survival_objectives.marginal import aalen_johansen

TIMES = np.array([0.0, 0.01, 0.3, 1.0, 2.5, 8.0, 100.0])


@pytest.fixture(scope="module")
def data():
    return make_competing_risks(400, random_state=0)


def truth_of(shape, scale):
    """The truth of people who all have the same Weibull times; the one feature does nothing."""
    nothing = np.zeros((1, len(shape)))
    schema = Features(np.empty((0, 1), np.float32), None, {})
    causes = WeibullHazards(np.log(shape), np.log(scale), nothing, nothing)
    return WeibullTruth(causes, WeibullCensoring(None, schema, dependent=False), schema)


# ------------------------------------------------------------------------------ printed formulas
def transliterated_hazard(hazards, x, k, t):
    shape = np.exp(hazards.log_shape[k] + x @ hazards.shape_coefficients[:, k])  # (50)
    scale = np.exp(hazards.log_scale[k] + x @ hazards.scale_coefficients[:, k])
    return (t / scale) ** shape, shape  # (51)


def test_curves_are_the_printed_formulas(data):
    truth, causes = data.true, data.true.causes
    X = data.X.iloc[:5]
    times = TIMES[1:]
    cif = truth.cumulative_incidence(X, times)
    for i, x in enumerate(X.to_numpy()):

        def event_free(t, x=x):
            return np.exp(-sum(transliterated_hazard(causes, x, k, t)[0] for k in range(3)))  # (52)

        for j, t in enumerate(times):
            assert_allclose(cif[i, 0, j], event_free(t), rtol=1e-12)
            for k in range(3):

                def density(u, k=k, x=x, event_free=event_free):
                    hazard, shape = transliterated_hazard(causes, x, k, u)
                    return event_free(u) * hazard * shape / u

                # (53), over log-time so that the adaptive rule copes with a pole at 0.
                expected, _ = quad(
                    lambda v, density=density: density(np.exp(v)) * np.exp(v),
                    -80,
                    np.log(t),
                    epsabs=1e-11,
                    limit=400,
                    points=(-10, -3, 0),
                )
                assert_allclose(cif[i, k + 1, j], expected, atol=1e-8)
            hazard, _ = transliterated_hazard(truth.censoring.hazards, x, 0, t)
            uncensored = truth.censoring.survival([t], X.iloc[[i]])
            assert_allclose(uncensored, np.exp(-hazard), rtol=1e-12)  # (54)


def test_oracle_brier_is_the_printed_formula(data):
    cif = data.true.cumulative_incidence(data.X, TIMES)
    expected = np.zeros((4, len(TIMES)))
    for k in range(4):
        for j in range(len(TIMES)):
            for i in range(len(cif)):
                expected[k, j] += cif[i, k, j] * (1 - cif[i, k, j]) / len(cif)  # (55)
    scores = data.true.oracle_brier(data.X, TIMES)
    assert_allclose(scores, expected, rtol=1e-12)


def test_integrated_squared_error_is_the_printed_formula():
    generator = np.random.default_rng(0)
    true_cif, cif = generator.random((2, 3, 2, 4))
    times = np.array([0.5, 1.0, 3.0, 4.0])
    by_time = np.zeros(4)
    for j in range(4):
        for i in range(3):
            for k in range(2):
                by_time[j] += (cif[i, k, j] - true_cif[i, k, j]) ** 2 / (3 * 2)
    integral = sum((by_time[j] + by_time[j + 1]) / 2 * (times[j + 1] - times[j]) for j in range(3))
    expected = integral / (times[-1] - times[0])  # (56)
    assert_allclose(integrated_squared_error(true_cif, cif, times), expected, rtol=1e-12)
    assert integrated_squared_error(cif, cif, times) == 0
    one_time = integrated_squared_error(true_cif[:, :, :1], cif[:, :, :1], times[:1])
    assert_allclose(one_time, by_time[0])


def test_the_start_of_the_integral_is_the_printed_formula():
    shape, hazard = np.array([[0.5, 1.0, 3.0]]), np.array([[1e-4, 3e-4, 2e-4]])
    for k in range(3):
        lost = sum(
            hazard[0, j] * hazard[0, k] * shape[0, k] / (shape[0, j] + shape[0, k])
            for j in range(3)
        )
        incidence = _incidence_at_start(shape, hazard)[0, k]
        assert_allclose(incidence, hazard[0, k] - lost, rtol=1e-14)  # (57)


def test_calibration_solves_the_printed_formula(monkeypatch):
    monkeypatch.setattr(_synthetic, "_N_CALIBRATION", 6)
    causes = make_competing_risks(1, random_state=0).true.causes
    hazards = make_competing_risks(1, random_state=5).true.censoring.hazards
    solved = _synthetic._calibrated(hazards, causes, 6, 0.3, np.random.default_rng(0))
    half = np.random.default_rng(0).standard_normal((3, 6))
    rates = []
    for x in [*half, *-half]:
        _, censoring_shape = transliterated_hazard(solved, x, 0, 1.0)
        censoring_scale = np.exp(solved.log_scale[0] + x @ solved.scale_coefficients[:, 0])

        def integrand(u, x=x, shape=censoring_shape, scale=censoring_scale):
            t = scale * (-np.log(u)) ** (1 / shape)  # The inverse of (54).
            return np.exp(-sum(transliterated_hazard(causes, x, k, t)[0] for k in range(3)))

        rates.append(quad(integrand, 0, 1, limit=200)[0])  # (58)
    assert_allclose(np.mean(rates), 0.3, atol=1e-4)


# ----------------------------------------------------------------------------- accuracy of (53)
@pytest.mark.parametrize("shape", [0.2, 0.6, 1.0, 2.0, 7.0])
def test_equal_shapes_have_a_closed_form(shape):
    scale = np.array([0.5, 1.0, 4.0])
    truth = truth_of([shape] * 3, scale)
    times = np.concatenate([TIMES, [1e-6, 30.0]])  # Not in order.
    cif = truth.cumulative_incidence(np.zeros((2, 1)), times)
    rate = scale**-shape
    ever = 1 - np.exp(-rate.sum() * times**shape)
    assert_allclose(cif[1, 1:], ever * (rate / rate.sum())[:, None], atol=1e-9)


@pytest.mark.parametrize("shapes", [(0.2, 8.0), (0.3, 0.6, 2.0), (1.0, 4.0, 8.0, 0.5)])
def test_states_sum_to_one_and_move_one_way(shapes):
    truth = truth_of(shapes, np.linspace(0.5, 3.0, len(shapes)))
    times = np.concatenate([[0.0], np.geomspace(1e-8, 1e3, 60)])
    cif = truth.cumulative_incidence(np.zeros((1, 1)), times)[0]
    assert_allclose(cif.sum(axis=0), 1, atol=1e-9)
    assert_array_equal(cif[:, 0], [1] + [0] * len(shapes))
    assert (np.diff(cif[0]) <= 0).all()
    assert (np.diff(cif[1:]) >= 0).all()


def test_a_single_cause_is_one_minus_survival(data):
    single = make_competing_risks(50, n_causes=1, random_state=1)
    cif = single.true.cumulative_incidence(single.X, TIMES)
    assert_allclose(cif[:, 1], 1 - single.true.survival(single.X, TIMES), atol=1e-9)
    assert_allclose(
        data.true.survival(data.X, TIMES), data.true.cumulative_incidence(data.X, TIMES)[:, 0]
    )


def test_outcomes_follow_the_true_curves():
    data = make_competing_risks(60_000, random_state=3)
    times = np.array([0.2, 1.0, 3.0])
    event, duration = data.y_uncensored["event"], data.y_uncensored["duration"]
    reached = (duration.to_numpy()[:, None] <= times) * event.to_numpy()[:, None]
    sample = data.X.index[:6000]
    cif = data.true.cumulative_incidence(data.X.loc[sample], times)
    for k in range(4):
        hit = reached[sample] == k
        # Standard errors of the difference are near 0.006; overall and where risk is high.
        assert_allclose(hit.mean(axis=0), cif[:, k].mean(axis=0), atol=0.02)
        high = cif[:, k, 1] > np.median(cif[:, k, 1])
        assert_allclose(hit[high].mean(axis=0), cif[high, k].mean(axis=0), atol=0.03)


def test_oracle_brier_is_what_the_truth_scores():
    data = make_competing_risks(6000, random_state=4)
    times = np.array([0.5, 1.5])
    y = data.y_uncensored.to_numpy()
    state = (y[:, 1:] <= times) * y[:, :1]
    cif = data.true.cumulative_incidence(data.X, times)
    oracle = data.true.oracle_brier(data.X, times)
    for k in range(4):
        score = (((state == k) - cif[:, k]) ** 2).mean(axis=0)
        assert_allclose(oracle[k], score, atol=0.01)


# ------------------------------------------------------------------------------------ censoring
@pytest.mark.parametrize("censoring", ["dependent", "independent"])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_censoring_reaches_the_level(censoring, rate):
    data = make_competing_risks(
        30_000, censoring=censoring, censoring_rate=rate, random_state=int(1000 * rate)
    )
    assert_allclose((data.y["event"] == 0).mean(), rate, atol=0.012)


def test_the_true_censoring_is_a_censoring_model(data):
    times = np.linspace(0, 3, 400)
    model = data.true.censoring
    assert isinstance(model, CensoringModel)
    survival = model.survival(times, data.X)
    assert_allclose(survival, model.survival(times, data.X, left=True))
    matrix = model.survival(np.column_stack([times, times]), data.X)
    assert_array_equal(matrix, np.column_stack([survival, survival]))
    with pytest.raises(ValueError, match="pass `X`"):
        model.survival(times)
    with pytest.raises(ValueError, match="one row for each of 400 people"):
        model.survival(times[:5], data.X)


def test_true_weights_recover_the_true_incidence():
    # Inverse weighting by G undoes dependent censoring; the unweighted share does not.
    data = make_competing_risks(40_000, random_state=6)
    horizon = 1.0
    event, duration = data.y["event"].to_numpy(), data.y["duration"].to_numpy()
    hit = (event == 3) & (duration <= horizon)
    weight = 1 / data.true.censoring.survival(duration, data.X, left=True)
    sample = data.X.iloc[:4000]
    truth = data.true.cumulative_incidence(sample, [horizon])[:, 3, 0].mean()
    assert_allclose((hit * weight).mean(), truth, atol=0.01)
    assert hit.mean() < truth - 0.03


def test_independent_and_absent_censoring_do_not_need_features():
    independent = make_competing_risks(50, censoring="independent", random_state=0)
    survival = independent.true.censoring.survival([0.0, 0.5, 1e9])
    assert survival[0] == 1
    assert 0 < survival[1] < 1
    assert survival[2] == 0
    none = make_competing_risks(50, censoring=None, random_state=0)
    assert_array_equal(none.true.censoring.survival([0.0, 1e9]), 1)
    pd.testing.assert_frame_equal(none.y, none.y_uncensored)


# -------------------------------------------------------------------------------------- streams
def test_the_same_seed_gives_the_same_data(data):
    again = make_competing_risks(400, random_state=0)
    pd.testing.assert_frame_equal(again.X, data.X)
    pd.testing.assert_frame_equal(again.y, data.y)
    other = make_competing_risks(400, random_state=1)
    assert not np.allclose(other.X, data.X)


@pytest.mark.parametrize(
    "change",
    [
        {"censoring": None},
        {"censoring": "independent"},
        {"censoring_rate": 0.2},
        {"n_noise_features": 3},
        {"n_samples": 500},
    ],
)
def test_people_stay_when_something_else_changes(data, change):
    changed = make_competing_risks(**{"n_samples": 400, "random_state": 0} | change)
    pd.testing.assert_frame_equal(changed.X[data.X.columns][:400], data.X)
    pd.testing.assert_frame_equal(changed.y_uncensored[:400], data.y_uncensored)
    if not any(name.startswith("censoring") for name in change):
        pd.testing.assert_frame_equal(changed.y[:400], data.y)


def test_streams_are_independent():
    # The reference drew censoring from the stream of its first feature: rank correlation 1. Here
    # nearly everyone is censored, so that the censoring times themselves are seen.
    data = make_competing_risks(5000, censoring="independent", censoring_rate=0.99, random_state=0)
    drawn = data.X.assign(censoring=data.y["duration"], event=data.y_uncensored["duration"])
    ranks = drawn.rank().corr()
    assert ranks["censoring"].drop("censoring").abs().max() < 0.06
    assert abs(ranks.loc["x0":"x5", "x0":"x5"] - np.eye(6)).to_numpy().max() < 0.06


def test_draw_gives_new_people_of_the_same_population(data):
    test = data.draw(300, random_state=9)
    assert test.true is data.true
    assert test.n_samples == 300
    assert not np.allclose(test.X.to_numpy(), data.X[:300].to_numpy())
    pd.testing.assert_frame_equal(test.y, data.draw(300, random_state=9).y)


def test_generators_are_spawned_not_repeated():
    generator = np.random.default_rng(0)
    first = make_competing_risks(10, random_state=generator)
    second = make_competing_risks(10, random_state=generator)
    assert not np.allclose(first.X, second.X)


# ------------------------------------------------------------------------------ shapes and errors
def test_what_comes_back(data):
    assert list(data.X.columns) == [f"x{i}" for i in range(6)]
    assert data.event_names == ("censored", "cause 1", "cause 2", "cause 3")
    assert data.n_causes == 3
    assert "depends on the features" in data.description
    assert_array_equal(data.X.to_numpy(), data.X.to_numpy().astype(np.float32))
    target = check_survival_target(data.y.to_numpy())
    assert_array_equal(target.event_ids, [0, 1, 2, 3])
    curves = aalen_johansen(target)
    assert curves.values.shape[1] == 4
    assert data.true.cumulative_incidence(data.X.to_numpy(), TIMES).shape == (400, 4, len(TIMES))


def test_noise_features_are_ignored_by_the_truth():
    data = make_competing_risks(20, n_noise_features=2, random_state=0)
    changed = data.X.assign(noise0=7.0, noise1=-7.0)
    assert_array_equal(
        data.true.cumulative_incidence(changed, TIMES),
        data.true.cumulative_incidence(data.X, TIMES),
    )


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"n_causes": 0}, "n_causes"),
        ({"n_noise_features": -1}, "n_noise_features"),
        ({"censoring": "informative"}, "choose from 'dependent', 'independent'"),
        ({"censoring_rate": 1.0}, r"`censoring_rate` must be in \(0, 1\); got 1.0"),
    ],
)
def test_bad_arguments_are_named(arguments, match):
    with pytest.raises(ValueError, match=match):
        make_competing_risks(**{"n_samples": 5} | arguments)


def test_bad_curves_are_named(data):
    curves = np.zeros((2, 3, 4))
    with pytest.raises(ValueError, match=r"`true_cif` has shape \(2, 3, 4\) but `cif` has"):
        integrated_squared_error(curves, curves[:, :2], np.arange(4))
    with pytest.raises(ValueError, match="does not fit 3 times"):
        integrated_squared_error(curves, curves, np.arange(3))
    with pytest.raises(ValueError, match=r"got 1.0 after 2.0. Use `numpy.unique"):
        integrated_squared_error(curves, curves, [0, 2, 1, 3])
    with pytest.raises(ValueError, match="x5"):
        data.true.cumulative_incidence(data.X[["x5", "x0", "x1", "x2", "x3", "x4"]], TIMES)
