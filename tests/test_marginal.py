"""Kaplan-Meier and Aalen-Johansen: formulas (6)-(8), ties, weights, parity with other packages."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifelines import AalenJohansenFitter, KaplanMeierFitter
from numpy.testing import assert_allclose, assert_array_equal
from sksurv.nonparametric import cumulative_incidence_competing_risks, kaplan_meier_estimator
from strategies import survival_targets

from survival_objectives._people import SurvivalTarget, check_survival_target
from survival_objectives.marginal import (
    StepFunction,
    aalen_johansen,
    incidence_influence,
    kaplan_meier,
    kaplan_meier_censoring,
)

GRID = np.arange(-1, 20) / 16  # Every time of `survival_targets`, between them, before and after.


def tied_people(n_samples=400, n_causes=3, seed=0):
    """Whole-numbered durations: events and censorings tie at almost every time."""
    rng = np.random.default_rng(seed)
    event = rng.choice(n_causes + 1, n_samples)
    duration = rng.integers(1, 25, n_samples).astype(float)
    return check_survival_target((event, duration))


def repeated(target, counts):
    rows = np.repeat(np.arange(target.n_samples), counts)
    return SurvivalTarget(target.event[rows], target.duration[rows], target.event_ids)


# ------------------------------------------------------------------------------ printed formulas
def printed_formulas(target, weight, t, *, left=False):
    """S, F_1..F_K and G at t by (6), (7) and (8), term by term."""
    event, duration = target.event, target.duration
    causes = range(1, target.n_causes + 1)

    def d(k, u):
        return weight[(event == k) & (duration == u)].sum()

    def c(u):
        return weight[(event == 0) & (duration == u)].sum()

    def n(u):
        return weight[duration >= u].sum()

    times = np.unique(duration)

    def product(factor, before):
        return np.prod([factor(u) for u in times if before(u)])

    def event_free(before):
        return product(lambda u: 1 - sum(d(k, u) for k in causes) / n(u), before)

    def uncensored_factor(u):  # Without people at risk the factor is 1.
        return 1 - c(u) / (n(u) - sum(d(k, u) for k in causes)) if c(u) else 1.0

    def until(u):
        return u < t if left else u <= t

    S = event_free(until)
    F = [
        sum(event_free(lambda v, u=u: v < u) * d(k, u) / n(u) for u in times if until(u))
        for k in causes
    ]
    G = product(uncensored_factor, until)
    return S, F, G


@given(survival_targets(), st.booleans())
def test_formulas_6_to_8_as_printed(target, left):
    weight = np.random.default_rng(target.n_samples).integers(1, 4, target.n_samples).astype(float)
    survival, censoring = kaplan_meier(target, weight), kaplan_meier_censoring(target, weight)
    curves = aalen_johansen(target, weight)(GRID, left=left)
    for position, t in enumerate(GRID):
        S, F, G = printed_formulas(target, weight, t, left=left)
        assert_allclose(survival(t, left=left), S, atol=1e-14)
        assert_allclose(curves[position], [S, *F], atol=1e-14)
        assert_allclose(censoring(t, left=left), G, atol=1e-14)


def test_an_event_comes_before_a_censoring_at_the_same_time():
    target = check_survival_target(([1, 0], [2.0, 2.0]))
    # The censored person is still at risk of the event ...
    assert kaplan_meier(target)(2.0) == 0.5
    # ... and the person with the event is not at risk of the censoring any more.
    censoring = kaplan_meier_censoring(target)
    assert censoring(2.0) == 0
    assert censoring(2.0, left=True) == 1


# ------------------------------------------------------------------------- parity, ties and all
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_survival_agrees_with_lifelines(seed, weighted):
    target = tied_people(seed=seed)
    weight = np.random.default_rng(seed).integers(1, 5, target.n_samples) if weighted else None
    fitted = KaplanMeierFitter().fit(target.duration, target.event > 0, weights=weight)
    times = np.arange(0, 27, 0.5)
    ours = kaplan_meier(target, None if weight is None else weight.astype(float))
    assert_allclose(ours(times), fitted.survival_function_at_times(times), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_censoring_agrees_with_lifelines_once_ties_are_broken(seed, weighted):
    target = tied_people(seed=seed)
    weight = np.random.default_rng(seed).integers(1, 5, target.n_samples) if weighted else None
    censored = target.event == 0
    # Events first: a censoring at t happens a quarter later, and nothing else happens in between.
    fitted = KaplanMeierFitter().fit(target.duration + 0.25 * censored, censored, weights=weight)
    times = np.arange(0, 27, 0.5)
    ours = kaplan_meier_censoring(target, None if weight is None else weight.astype(float))
    expected = fitted.survival_function_at_times(times + 0.25)
    assert_allclose(ours(times), expected, rtol=0, atol=1e-12)
    before = fitted.survival_function_at_times(times)
    assert_allclose(ours(times, left=True), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_curves_agree_with_scikit_survival(seed):
    target = tied_people(seed=seed)
    event = target.event > 0
    times, survival = kaplan_meier_estimator(event, target.duration)
    assert_allclose(kaplan_meier(target)(times), survival, rtol=0, atol=1e-12)
    times, censoring = kaplan_meier_estimator(event, target.duration, reverse=True)
    assert_allclose(kaplan_meier_censoring(target)(times), censoring, rtol=0, atol=1e-12)
    times, incidence = cumulative_incidence_competing_risks(target.event, target.duration)
    ours = aalen_johansen(target)(times)
    assert_allclose(ours[:, 1:].T, incidence[1:], rtol=0, atol=1e-12)
    assert_allclose(1 - ours[:, 0], incidence[0], rtol=0, atol=1e-12)


def test_incidence_agrees_with_lifelines_without_ties():
    rng = np.random.default_rng(3)
    target = check_survival_target((rng.integers(0, 4, 300), rng.permutation(300) + 1.0))
    for cause in (1, 2, 3):
        # lifelines would break ties by chance; there are none.
        fitter = AalenJohansenFitter(calculate_variance=False)
        fitted = fitter.fit(target.duration, target.event, event_of_interest=cause)
        expected = fitted.cumulative_density_
        ours = aalen_johansen(target)(expected.index.to_numpy())[:, cause]
        assert_allclose(ours, expected.to_numpy()[:, 0], rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------------- properties
@given(survival_targets(), st.data())
def test_whole_weights_act_like_repeated_people(target, data):
    counts = data.draw(
        st.lists(st.integers(0, 3), min_size=target.n_samples, max_size=target.n_samples).filter(
            any
        )
    )
    weight, many = np.array(counts, dtype=float), repeated(target, counts)
    for curve in (kaplan_meier, kaplan_meier_censoring, aalen_johansen):
        for left in (False, True):
            weighted = curve(target, weight)(GRID, left=left)
            assert_allclose(weighted, curve(many)(GRID, left=left), rtol=0, atol=1e-14)


@given(survival_targets(), st.integers(0, 2**16))
def test_curves_are_probabilities_that_sum_to_one(target, seed):
    weight = np.random.default_rng(seed).exponential(size=target.n_samples)
    curves = aalen_johansen(target, weight)
    assert_allclose(curves(GRID).sum(axis=1), 1, atol=1e-13)
    assert_array_equal(curves(GRID)[:, 0], kaplan_meier(target, weight)(GRID))
    assert (np.diff(curves(GRID)[:, 1:], axis=0) >= 0).all()
    for curve in (kaplan_meier(target, weight), kaplan_meier_censoring(target, weight)):
        assert (np.diff(curve(GRID)) <= 0).all()
        assert ((curve(GRID) >= 0) & (curve(GRID) <= 1)).all()


@given(survival_targets(), st.integers(0, 2**16))
def test_scaling_all_weights_changes_nothing(target, seed):
    weight = np.random.default_rng(seed).exponential(size=target.n_samples)
    for curve in (kaplan_meier, kaplan_meier_censoring, aalen_johansen):
        assert_allclose(curve(target, 7 * weight)(GRID), curve(target, weight)(GRID), atol=1e-13)


@given(survival_targets())
def test_where_no_one_is_left_the_curves_multiply_to_the_empirical_survival(target):
    """P(T > t) P(C > t) = P(min(T, C) > t), exactly so for these estimates."""
    both = kaplan_meier(target)(GRID) * kaplan_meier_censoring(target)(GRID)
    empirical = (target.duration > GRID[:, None]).mean(axis=1)
    assert_allclose(both, empirical, atol=1e-14)


def test_a_tiny_weight_beside_a_tied_event_does_not_divide_by_zero():
    """In floating point n(t) - d(t) = (1e-20 + 1) - 1 would be 0 for the censored person."""
    target = check_survival_target(([1, 0, 1], [1.0, 2.0, 2.0]))
    with np.errstate(all="raise"):
        censoring = kaplan_meier_censoring(target, np.array([1.0, 1e-20, 1.0]))
    assert censoring(2.0, left=True) == 1
    assert censoring(2.0) == 0


@given(st.lists(st.floats(1e-3, 10), min_size=3, max_size=3))
def test_the_last_tied_censoring_leaves_no_one_uncensored(weights):
    target = check_survival_target(([1, 0, 2], [2.0, 2.0, 2.0]))
    assert kaplan_meier_censoring(target, np.array(weights))(2.0) == 0


def test_no_one_censored_and_no_one_with_an_event():
    events = check_survival_target(([1, 2, 1], [1.0, 2.0, 3.0]))
    assert_array_equal(kaplan_meier_censoring(events)(GRID), 1)
    assert kaplan_meier(events)(3.0) == 0
    censored = check_survival_target(([0, 0], [1.0, 2.0]), require_event=False)
    assert_array_equal(aalen_johansen(censored)([0.0, 1.0, 5.0]), [[1], [1], [1]])


# --------------------------------------------------------------------------------- step functions
def test_step_function_is_right_continuous_with_left_limits():
    steps = StepFunction(np.array([1.0, 2.0]), np.array([5.0, 7.0]), np.array(3.0))
    times = [0.0, 1.0, 1.5, 2.0, 9.0]
    assert_array_equal(steps(times), [3, 5, 5, 7, 7])
    assert_array_equal(steps(times, left=True), [3, 3, 5, 5, 7])
    assert_array_equal(steps([[0.0, 1.0], [2.0, 9.0]]), [[3, 5], [7, 7]])


def test_step_function_of_several_curves_and_without_steps():
    several = StepFunction(np.array([1.0]), np.array([[5.0, 6.0]]), np.array([3.0, 4.0]))
    assert_array_equal(several([0.0, 1.0]), [[3, 4], [5, 6]])
    constant = StepFunction(np.empty(0), np.empty((0, 2)), np.array([3.0, 4.0]))
    assert_array_equal(constant([0.0, 1.0]), [[3, 4], [3, 4]])


# ----------------------------------------------------------------- late entry and standard errors
SURVFIT = json.loads((Path(__file__).parent / "metrics/golden/survfit.json").read_text())["cases"]


@pytest.mark.parametrize("name", SURVFIT)
@pytest.mark.parametrize("kind", ["km", "censoring", "aj"])
def test_curves_and_errors_agree_with_survfit_of_r(name, kind):
    case = SURVFIT[name]
    target = check_survival_target(
        {key: case[key] for key in ("event", "duration", "entry")}, late_entry=True
    )
    estimate = {"km": kaplan_meier, "censoring": kaplan_meier_censoring, "aj": aalen_johansen}[kind]
    weight = np.array(case["weight"], float) if case["weighted"] else None
    curve = estimate(target, weight, standard_error=True)
    golden = case[kind]
    times = np.array(golden["time"], float)
    # An error of log S where S is 0 is infinite in R; our curves are known to stay there.
    error = np.nan_to_num(np.array(golden["error"], float))
    assert_allclose(curve(times), np.array(golden["value"]), rtol=0, atol=1e-10)
    assert_allclose(curve.standard_error(times), error, rtol=0, atol=1e-10)


@given(survival_targets(), st.booleans(), st.booleans())
def test_late_entry_is_written_out(target, weighted, left):
    """(6) to (8) with n(u) counted person by person, and the errors (95) and (96) as printed."""
    target = entered_late(target)
    n = target.n_samples
    weight = np.random.default_rng(n).integers(1, 4, n).astype(float) if weighted else np.ones(n)
    given = weight if weighted else None
    causes = range(1, target.n_causes + 1)
    entry = np.zeros(n) if target.entry is None else target.entry
    times = np.unique(target.duration)
    at_risk = ((entry < times[:, None]) | ((entry == 0) & (times[:, None] == 0))) & (
        target.duration >= times[:, None]
    )
    n_at_risk = at_risk @ weight
    count = np.array([[weight[(target.duration == u) & (target.event == k)].sum() for u in times]
                      for k in range(target.n_causes + 1)])  # fmt: skip
    hazard = count[1:] / n_at_risk
    total = hazard.sum(axis=0)
    S = np.cumprod(1 - total)
    before = np.concatenate([[1], S[:-1]])
    F = np.cumsum(before * hazard, axis=1)
    curve = aalen_johansen(target, given, standard_error=True)
    assert_allclose(curve(times), np.vstack([S, F]).T, atol=1e-12)
    survivors = n_at_risk - count[1:].sum(axis=0)
    factor = 1 - np.divide(count[0], survivors, out=np.zeros(len(times)), where=count[0] > 0)
    censoring = kaplan_meier_censoring(target, given)
    assert_allclose(censoring(times), np.cumprod(np.maximum(factor, 0)), atol=1e-12)

    # (95) where it is finite.
    with np.errstate(divide="ignore", invalid="ignore"):
        greenwood = S * np.sqrt(np.cumsum(total / (n_at_risk * (1 - total))))
    error = kaplan_meier(target, given, standard_error=True).standard_error(times)
    finite = np.isfinite(greenwood)
    assert_allclose(error[finite], greenwood[finite], atol=1e-12)

    # (96), person by person.
    happened = target.duration == times[:, None]
    dM = np.stack([(happened & (target.event == k)) - at_risk * hazard[k - 1][:, None]
                   for k in causes]) / n_at_risk[:, None]  # fmt: skip
    z = 0.5
    past = times <= z
    F_z = aalen_johansen(target, given)(z)[1:]
    stays = np.where(total < 1, 1 - total, np.inf)[:, None]
    phi = np.stack([
        ((before[:, None] * dM[k - 1]) - (F_z[k - 1] - F[k - 1])[:, None] * dM.sum(axis=0) / stays)[
            past
        ].sum(axis=0)
        for k in causes
    ])  # fmt: skip
    phi = np.vstack([-phi.sum(axis=0), phi]) * weight
    found = incidence_influence(target, given, [z])[:, :, 0]
    assert_allclose(found.T, phi, atol=1e-12)
    assert_allclose(found.sum(axis=0), 0, atol=1e-12)
    expected = np.sqrt((phi**2).sum(axis=1))
    assert_allclose(curve.standard_error(z), expected, atol=1e-7)


def entered_late(target):
    rng = np.random.default_rng(target.n_samples)
    entry = target.duration * rng.choice([0, 0.5, 0.9], target.n_samples)
    return replace(target, entry=entry)


def test_an_entry_is_after_the_events_of_its_time():
    y = {"event": [1, 1, 0], "duration": [1.0, 2.0, 3.0], "entry": [0.0, 1.0, 0.5]}
    survival = kaplan_meier(check_survival_target(y, late_entry=True))
    assert survival(1.0) == 0.5  # Of two at risk: the second person comes after.
    assert survival(2.0) == 0.25


def test_influence_is_the_derivative_by_the_weight():
    target = entered_late(tied_people(60, 2))
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    times, step = [3.0, 11.0], 1e-6
    found = incidence_influence(target, weight, times)
    for person in range(0, 60, 7):
        more = weight.copy()
        more[person] += step
        change = (aalen_johansen(target, more)(times) - aalen_johansen(target, weight)(times)).T
        assert_allclose(weight[person] * change / step, found[person], atol=1e-5)


def test_weights_that_round_bring_the_curve_to_0():
    y = {"event": [1, 0, 1], "duration": [1.0, 2.0, 3.0], "entry": [0.0, 0.1, 0.2]}
    target = check_survival_target(y, late_entry=True)
    for curve in (kaplan_meier, aalen_johansen):
        values = curve(target, np.array([0.1, 0.2, 0.7]))(3.0)
        assert np.ravel(values)[0] == 0


def test_errors_cost_little_for_many_people():
    rng = np.random.default_rng(0)
    n = 100_000
    entry = rng.uniform(0, 1, n)
    y = {"event": rng.choice(3, n), "duration": entry + rng.exponential(size=n), "entry": entry}
    target = check_survival_target(y, late_entry=True)
    curve = aalen_johansen(target, standard_error=True)
    phi = incidence_influence(target, None, [1.0])[:, :, 0]
    assert_allclose(curve.standard_error(1.0), np.sqrt((phi**2).sum(axis=0)), rtol=1e-8)


def test_errors_that_were_not_asked_for_are_refused():
    with pytest.raises(ValueError, match="estimate it with `standard_error=True`"):
        kaplan_meier(tied_people()).standard_error(1.0)
