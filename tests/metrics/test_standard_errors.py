"""Standard errors and comparisons of scores against R, derivatives and simulation."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scores import WEIGHTED, WITHOUT_CAUSE, estimate_of, value_of
from simulated import simulate

from survival_objectives.censoring import KaplanMeierCensoring
from survival_objectives.metrics import (
    Evaluation,
    FollowUpWarning,
    integrated_brier_score,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "standard_errors.json").read_text())
CASES = list(GOLDEN["cases"])
METRICS = {"brier": "brier_score", "auc": "time_dependent_auc"}
TIMES = np.array([0.4, 0.9])
# Of the scores with weights; that of (21) moves with its null model only to second order.
ALL = WEIGHTED


def influence_of(name, *data, **options):
    return estimate_of(name, *data, **options).influence


def outcomes(case):
    return np.array(case["event"]), np.array(case["duration"])


# ------------------------------------------------------------------------------------------ like R
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("metric", METRICS)
def test_standard_errors_are_those_of_riskregression(name, metric):
    case = GOLDEN["cases"][name]
    y, times = outcomes(case), case["times"]
    for position, model in enumerate(("smooth", "tied")):
        found = estimate_of(METRICS[metric], y, y, case[model], times, cause=1)
        rows = slice(position * len(times), (position + 1) * len(times))
        for field in ("value", "standard_error", "lower", "upper"):
            if metric == "auc" and field in ("lower", "upper"):
                continue  # Ours are symmetric on the logit scale.
            assert_allclose(getattr(found, field), case[metric][field][rows], atol=1e-10)
    tied, smooth = (Evaluation(y, y, case[name], times) for name in ("tied", "smooth"))
    table = tied.compare(smooth, 1).query("score == @metric")
    for field in ("difference", "standard_error", "lower", "upper", "p_value"):
        assert_allclose(table[field], case[f"{metric}_difference"][field], atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_integrated_brier_scores_by_steps_are_those_of_r(name):
    case = GOLDEN["cases"][name]
    y, times = outcomes(case), case["times"]
    for position, model in enumerate(("smooth", "tied")):
        for last in range(1, len(times) + 1):
            curves = np.array(case[model])[:, :last]
            found = integrated_brier_score(y, y, curves, times[:last], cause=1, rule="steps")
            expected = case["ibs"][position * len(times) + last - 1]
            assert found == pytest.approx(expected, abs=1e-10)
        assert found == pytest.approx(case["crps"][position], abs=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_standard_errors_of_harrells_index_are_those_of_survival(name):
    case = GOLDEN["cases"][name]
    event, duration = outcomes(case)
    y, n_samples = (np.minimum(event, 1), duration), len(event)
    for position, model in enumerate(("smooth", "tied")):
        risk = np.array(case[model])[:, :1]
        found = Evaluation(None, y, risk, [duration.max()]).concordance(1, weighted=False)
        assert_allclose(found.value, case["harrell"]["value"][position], rtol=1e-10)
        # It sums squares without n / (n - 1).
        error = found.standard_error * np.sqrt((n_samples - 1) / n_samples)
        assert_allclose(error, case["harrell"]["standard_error"][position], rtol=1e-10)


# ------------------------------------------------------------------------- formulas, by derivatives
@pytest.fixture(scope="module")
def tied():
    data = simulate(40, seed=3, digits=1)
    states = data.incidence(TIMES, np.round(data.hazard, 1) + 0.1)
    return data, states, np.random.default_rng(4).uniform(0.5, 2, 40)


class MovedCensoring:
    """Kaplan-Meier with one more factor exp(-step) from `jump` on; marginal or, with X, not."""

    def __init__(self, y, weight, jump=np.inf, step=0.0):
        self.marginal = KaplanMeierCensoring().fit(y, sample_weight=weight)
        self.jump, self.step = jump, step

    def survival(self, times, X=None, *, left=False):
        times = np.asarray(times)
        moved = times > self.jump if left else times >= self.jump
        return self.marginal.survival(times, left=left) * np.where(moved, np.exp(-self.step), 1)


@pytest.mark.parametrize("options", [{}, {"cause": 2}, {"min_censoring_survival": 0.7}])
@pytest.mark.parametrize("name", ALL)
def test_parts_of_the_people_are_derivatives_by_their_weights(tied, name, options):
    """Equations (63) to (65): the derivative of the metric by s_i at fixed G, times s_i."""
    data, states, s = tied
    if "cause" in options and name in WITHOUT_CAUSE:
        return
    metric, step = partial(value_of, name), 1e-5
    for X in (None, data.X):
        model = MovedCensoring(data.y, s)
        shared = {"X": X, **options}
        found = influence_of(name, model, data.y, states, TIMES, sample_weight=s, **shared)
        expected = metric(model, data.y, states, TIMES, sample_weight=s, **shared)
        assert_allclose(found.value, expected, rtol=1e-12)
        assert found.training is None
        for i in (0, 7, 23):
            values = []
            for sign in (1, -1):
                moved = s.copy()
                moved[i] *= 1 + sign * step
                values.append(metric(model, data.y, states, TIMES, sample_weight=moved, **shared))
            slope = (np.asarray(values[0]) - values[1]) / (2 * step)
            assert_allclose(found.people[i], slope, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"cause": 1}, {"min_censoring_survival": 0.7}])
@pytest.mark.parametrize("name", ALL)
def test_parts_of_the_censoring_follow_their_formula(tied, name, options):
    """Equation (66), with R(u) the derivative of the metric by the factor of G at u."""
    data, states, s = tied
    if "cause" in options and name in WITHOUT_CAUSE:
        return
    metric, step = partial(value_of, name), 1e-5
    event, duration = data.y
    expected = 0.0
    for u in np.unique(duration[event == 0]):
        values = []
        for sign in (1, -1):
            model = MovedCensoring(data.y, s, u, sign * step)
            values.append(metric(model, data.y, states, TIMES, sample_weight=s, **options))
        changed = (np.asarray(values[0]) - values[1]) / (2 * step)
        is_censored = (duration == u) & (event == 0)
        is_at_risk = (duration > u) | is_censored
        censored, at_risk = s[is_censored].sum(), s[is_at_risk].sum()
        martingale = s * (is_censored - is_at_risk * censored / at_risk)
        expected = expected + np.multiply.outer(martingale / at_risk, changed)
    given_model = influence_of(
        name, MovedCensoring(data.y, s), data.y, states, TIMES, sample_weight=s, **options
    )
    estimated = influence_of(name, data.y, data.y, states, TIMES, sample_weight=s, **options)
    assert_allclose(estimated.people - given_model.people, expected, atol=1e-8)


def test_training_people_are_a_second_source_of_error(tied):
    data, states, _ = tied
    other = simulate(60, seed=5, digits=1)
    for name in ALL:
        found = influence_of(name, other.y, data.y, states, TIMES)
        model = KaplanMeierCensoring().fit(other.y)
        alone = influence_of(name, model, data.y, states, TIMES)
        assert_allclose(found.people, alone.people, atol=1e-14)
        assert found.training.shape[0] == 60
        assert_allclose(found.training.sum(axis=0), 0, atol=1e-12)
        assert (found.variance() > alone.variance()).all()


# ------------------------------------------------------------------------------------- arguments
def test_shapes_are_those_of_the_metric(tied):
    data, states, _ = tied
    for name in ALL:
        found = estimate_of(name, data.y, data.y, states, TIMES)
        shapes = {np.shape(part) for part in (found.value, found.standard_error, found.lower)}
        assert len(shapes) == 1
        assert (found.lower <= found.value).all()


def test_equal_models_differ_by_nothing(tied):
    data, states, _ = tied
    evaluation = Evaluation(data.y, data.y, states, TIMES)
    table = evaluation.compare(Evaluation(data.y, data.y, states, TIMES)).dropna()
    assert len(table) > 40
    assert_array_equal(table["difference"], 0.0)
    assert_array_equal(table["p_value"], 1.0)


def test_unknown_times_are_nan_with_a_warning():
    y = ([1, 2, 0, 1, 0], [1.0, 2.0, 2.5, 1.5, 3.0])
    states = np.full((5, 3, 2), 1 / 3)
    for name in ALL:
        # The concordance ends where no pair is left; there is none before the first event.
        times = [0.5, 2.2] if name == "concordance_index" else [4.0, 2.2]
        with pytest.warns(FollowUpWarning):
            found = estimate_of(name, y, y, states, times)
        if "integrated" in name:
            assert np.isfinite(found.standard_error).all()
        else:
            assert np.isnan(found.standard_error[..., 0]).all()
            assert np.isfinite(found.standard_error[..., 1]).all()


# -------------------------------------------------------------------------------------- simulation
def test_intervals_cover_the_truth():
    """A small version of benchmarks/validation_coverage.py: at least 88 of 100 limits of 95 %."""
    # The true scores, of all people alike, from one large uncensored sample.
    population = simulate(100_000, seed=0, slope=0.0)
    generator = np.random.default_rng(1)
    event_times = generator.exponential(1 / population.hazard)
    y_true = (event_times.argmin(axis=1) + 1, event_times.min(axis=1))
    horizon = [0.8]
    predicted = population.incidence(horizon, population.hazard**0.7)
    truth = {
        name: value_of(name, y_true, y_true, predicted, horizon, cause=1)[0]
        for name in ("brier_score", "time_dependent_auc", "concordance_index", "observed_expected")
    }
    covered = dict.fromkeys(truth, 0)
    for seed in range(100):
        data = simulate(300, seed=seed, slope=0.0)
        curves = data.incidence(horizon, data.hazard**0.7)
        for name, value in truth.items():
            found = estimate_of(name, data.y, data.y, curves, horizon, cause=1)
            covered[name] += found.lower[0] <= value <= found.upper[0]
    assert all(88 <= count <= 100 for count in covered.values()), covered


def test_a_difference_of_a_hundred_thousand_people_is_sure():
    data = simulate(100_000, seed=1)
    states, other = data.incidence([0.8]), data.incidence([0.8], data.hazard**0.5)
    first, second = (Evaluation(None, data.y, curves, [0.8]) for curves in (states, other))
    found = first.compare(second, cause=1).loc[lambda row: row["score"] == "brier"]
    assert (found["difference"] < 0).all()  # The first curves are the true ones.
    assert (found["p_value"] < 1e-6).all()
