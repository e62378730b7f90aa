"""Completion of people who were censored: formula (46), checks of models, cross-fitting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from simulation import simulate
from strategies import survival_targets

from survival_objectives._horizons.completion import (
    CompletionModel,
    CrossFittedCompletion,
    SurvivalCompletion,
    check_completion_model,
    completed_targets,
    cross_fitted,
    labelled_rows,
    states_after_censoring,
    warn_of_another_unit,
)
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import TimeAxis, event_unit
from survival_objectives.losses import pointwise_log_loss
from survival_objectives.stacking import TimeStacker, all_rows, rows_after_censoring

CONTINUOUS = TimeAxis(0.0)


class Exponential:
    """Incidences of causes with constant hazards."""

    def __init__(self, hazards):
        self.hazards = np.asarray(hazards)
        self.asked = []

    def predict_cumulative_incidence(self, X, times):
        self.asked.append(times)
        total = self.hazards.sum()
        gone = -np.expm1(-total * np.asarray(times))
        curves = np.vstack([1 - gone, np.outer(self.hazards / total, gone)])
        return np.tile(curves, (len(X), 1, 1))


def rows_of(target, n_horizons=3, seed=0):
    return all_rows(target, TimeStacker(n_horizons, "uniform", random_state=seed).draw(target))


def incidence(model):
    return lambda people, times: model.predict_cumulative_incidence(people[:, None], times)


@given(survival_targets(), st.integers(0, 2**16))
@settings(max_examples=40)
def test_formula_46_as_printed(target, seed):
    rows = rows_of(target, seed=seed)
    model = Exponential(np.arange(1, target.n_causes + 1) / 4)
    at_horizon, at_exit = states_after_censoring(incidence(model), target, rows, CONTINUOUS)
    psi = completed_targets(target, rows, at_horizon, at_exit)
    assert psi.flags.f_contiguous
    assert psi.dtype == np.float32
    for row, (i, z) in enumerate(zip(rows.person, rows.horizon, strict=True)):
        t, d = target.duration[i], target.event[i]
        if t > z or d > 0:
            expected = np.eye(target.n_causes + 1)[0 if t > z else d]
            assert_array_equal(psi[row], expected)
            continue
        (F_z, F_c) = (
            model.predict_cumulative_incidence([0], [time])[0, :, 0] for time in (float(z), t)
        )
        expected = (F_z - F_c) / F_c[0]
        expected[0] = F_z[0] / F_c[0]
        # The model is asked at a few times, between which its curves are straight lines.
        assert_allclose(psi[row], expected, atol=2e-3)


def test_a_model_is_asked_at_few_times_and_only_about_people_who_were_censored():
    people = simulate(2000, seed=3)
    target = CONTINUOUS.aligned(check_survival_target(people.y))
    rows = rows_of(target)
    asked = []

    def model(who, times):
        asked.append((who, times))
        return people_curves(people, who, times)

    at_horizon, at_exit = states_after_censoring(model, target, rows, CONTINUOUS)
    lost = rows_after_censoring(target, rows)
    who = np.unique(np.concatenate([block for block, _ in asked]))
    assert_array_equal(who, np.unique(rows.person[lost]))
    assert max(len(times) for _, times in asked) <= 192
    person = rows.person[lost]
    for states, times in ((at_horizon, rows.horizon[lost]), (at_exit, target.duration[person])):
        exact = np.array(
            [people_curves(people, [i], [t])[0, :, 0] for i, t in zip(person, times, strict=True)]
        )
        assert_allclose(states, exact, atol=2e-3)


def people_curves(people, who, times):
    total = people.hazards[who].sum(axis=1)[:, None]
    gone = -np.expm1(-total * np.asarray(times))
    share = people.hazards[who] / total
    return np.concatenate([1 - gone[:, None], share[:, :, None] * gone[:, None]], axis=1)


def test_true_completion_has_the_true_incidences_on_average():
    people = simulate(20_000, seed=5)
    target = CONTINUOUS.aligned(check_survival_target(people.y))
    rows = rows_of(target, n_horizons=1)
    states = states_after_censoring(
        lambda who, times: people_curves(people, who, times), target, rows, CONTINUOUS
    )
    psi = completed_targets(target, rows, *states)
    total = people.hazards[rows.person].sum(axis=1)
    gone = -np.expm1(-total * rows.horizon)
    truth = people.hazards[rows.person] / total[:, None] * gone[:, None]
    difference = psi[:, 1:] - truth
    assert (np.abs(difference.mean(axis=0)) < 4 * difference.std(axis=0) / np.sqrt(20_000)).all()


def test_whole_units_are_asked_about_when_they_have_begun():
    event, duration = np.array([1, 0, 1, 0, 2] * 6), np.array([0.1, 0.2, 0.3, 0.3, 0.7] * 6)
    given = check_survival_target((event, duration))
    axis = TimeAxis(event_unit(given))
    assert axis.unit == pytest.approx(0.1)
    target = axis.aligned(given)
    stacker = TimeStacker(4, random_state=0, time_unit=axis.unit)
    rows = all_rows(target, stacker.draw(target))
    model = Exponential([0.5, 0.5])
    states_after_censoring(incidence(model), target, rows, axis)
    (asked,) = model.asked
    units = np.rint(asked / axis.unit)
    # Just behind the beginning, where a step at 0.30000000000000004 has happened.
    assert ((asked > units * axis.unit) & (asked < (units + 1e-3) * axis.unit)).all()
    assert set(units) <= set(range(8))


def test_labelled_rows_have_the_loss_of_the_distributions():
    rng = np.random.default_rng(0)
    psi = rng.dirichlet(np.ones(3), 20).astype(np.float32)
    psi[:5] = np.eye(3)[rng.integers(0, 3, 5)]
    margin = rng.normal(size=(20, 2))
    number, label, weight = labelled_rows(psi)
    assert len(number) == 5 + 15 * 3
    by_label = pointwise_log_loss(margin[number], label, weight, reference=True)
    expected = pointwise_log_loss(margin, psi, reference=True)
    assert_allclose(np.bincount(number, weights=by_label), expected, rtol=1e-6)


# ------------------------------------------------------------------------------------------ models
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c[:, :2], r"returned shape .* expected \(.*, 3, .*\)"),
        (lambda c: c[..., 0], "returned shape"),
        (lambda c: c * np.nan, "returned nan, which is not a probability"),
        (lambda c: c + np.reshape([2.0, -1.0, -1.0], (1, 3, 1)), "which is not a probability"),
        (lambda c: c * 0.9, r"sum to 0\.9 instead of 1\. Index 0 must be"),
        (lambda c: c[:, :, ::-1], "survival rises by .* must be monotone"),
        (
            lambda c: np.stack([c[:, 0], c[:, 2] * 0, 1 - c[:, 0]], 1)[:, :, :],
            None,
        ),
        (
            lambda c: np.stack(
                [
                    0.5 + 0 * c[:, 0],
                    0.2 + 0.1 * np.cos(np.arange(c.shape[2])) + 0 * c[:, 0],
                    0.3 - 0.1 * np.cos(np.arange(c.shape[2])) + 0 * c[:, 0],
                ],
                1,
            ),
            "an incidence falls by",
        ),
    ],
)
def test_what_a_model_returns_is_checked(change, words):
    people = simulate(100, seed=1)
    target = CONTINUOUS.aligned(check_survival_target(people.y))
    rows = rows_of(target)

    def model(who, times):
        return change(people_curves(people, who, times))

    if words is None:
        states_after_censoring(model, target, rows, CONTINUOUS)
        return
    with pytest.raises(ValueError, match=words):
        states_after_censoring(model, target, rows, CONTINUOUS)


def test_survival_completion_is_a_model_of_one_cause():
    model = SurvivalCompletion(lambda X, times: np.exp(-np.outer(X[:, 0], times)))
    assert isinstance(model, CompletionModel)
    curves = model.predict_cumulative_incidence(np.array([[0.5], [2.0]]), np.array([1.0, 3.0]))
    assert_allclose(curves[:, 0], np.exp(-np.outer([0.5, 2.0], [1.0, 3.0])))
    assert_allclose(curves.sum(axis=1), 1)


def test_what_is_no_model_or_one_of_other_causes_is_refused():
    ids = np.array([0, 1, 2])
    for no_model in (object(), SurvivalCompletion, np.array([1.0])):
        with pytest.raises(TypeError, match=r"`predict_cumulative_incidence\(X, times\)`"):
            check_completion_model(no_model, ids)
    model = Exponential([1.0, 1.0])
    check_completion_model(model, ids)
    model.event_ids_ = np.array([0, 1, 3])
    with pytest.raises(ValueError, match=r"states \[0, 1, 3\], but .* have \[0, 1, 2\]"):
        check_completion_model(model, ids)


# ----------------------------------------------------------------------------------- cross-fitting
class Remembering(Exponential):
    def __init__(self, X, y, weight):
        super().__init__([1.0] * (len(np.unique(y["event"])) - 1))
        self.seen = set(X[:, 0])
        self.weight = weight
        self.event_ids_ = np.unique(y["event"])

    def predict_cumulative_incidence(self, X, times):
        assert not self.seen & set(X[:, 0])
        return super().predict_cumulative_incidence(X, times)


@pytest.mark.parametrize(
    ("factor", "warns"), [(1.0, False), (2.5, False), (12.0, True), (1 / 7, True)]
)
def test_hazards_of_another_unit_are_noticed(factor, warns):
    rng = np.random.default_rng(0)
    time, censored = rng.exponential(size=400), rng.exponential(2.0, 400)
    target = check_survival_target((time <= censored, np.minimum(time, censored)))
    model = Exponential([factor])
    if warns:
        with pytest.warns(UserWarning, match=r"where 6\d.* % are .*as if its time were in another"):
            warn_of_another_unit(incidence(model), target, None)
    else:
        warn_of_another_unit(incidence(model), target, None)


def test_everyone_is_completed_by_a_model_that_was_fitted_without_them():
    rng = np.random.default_rng(0)
    X = np.arange(50.0)[:, None]
    target = check_survival_target((np.repeat([0, 1, 3, 0, 1], 10), rng.exponential(size=50)))
    weight = rng.random(50)
    models = cross_fitted(
        lambda X, y, weight, number: Remembering(X, y, weight), X, target, weight, n_folds=3
    )
    assert isinstance(models, CrossFittedCompletion)
    for number, model in enumerate(models.models):
        assert model.seen == set(X[models.fold != number, 0])
        assert_array_equal(model.weight, weight[models.fold != number])
        assert_array_equal(model.event_ids_, [0, 1, 3])
    people = np.array([4, 30, 7, 49])
    curves = models.of_training_people(people, X[people], np.array([0.5, 1.0]))
    assert curves.shape == (4, 3, 2)
    others = models.predict_cumulative_incidence(X[:2] + 100, np.array([0.5]))
    assert_allclose(others.sum(axis=1), 1)


def test_a_cause_of_one_person_has_no_incidence_in_the_fold_that_never_saw_it():
    X = np.arange(30.0)[:, None]
    event = np.array([0, 1] * 14 + [0, 2])
    target = check_survival_target((event, np.arange(1.0, 31)))
    models = cross_fitted(
        lambda X, y, weight, number: Remembering(X, y, weight), X, target, None, seed=2**40
    )
    without = models.fold[29]
    assert_array_equal(models.models[without].event_ids_, [0, 1])
    curves = models.of_training_people(np.array([29]), X[[29]], np.array([1.0]))
    assert curves.shape == (1, 3, 1)
    assert curves[0, 2, 0] == 0
    assert_allclose(curves.sum(axis=1), 1)
