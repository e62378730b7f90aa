"""One training problem without any engine: rows, weights, starts, folds, and the feedback loop."""

import logging
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from simulation import KnownCensoring, simulate
from strategies import survival_targets

from survival_objectives._engines.forest import Forest
from survival_objectives._engines.protocol import Evaluator
from survival_objectives._horizons import model as horizon_model
from survival_objectives._people import check_survival_target
from survival_objectives._people.population import TimeAxis, event_unit
from survival_objectives._plugin.alternation import CensoringTrainer, RefreshSchedule
from survival_objectives._plugin.objective import TrainingProblem
from survival_objectives._plugin.slot import RowTargets
from survival_objectives.censoring import BoostedCensoring, KaplanMeierCensoring
from survival_objectives.losses import gradient_hessian, pointwise_log_loss
from survival_objectives.marginal import aalen_johansen

# Random outcomes may be of people who all had an event.
pytestmark = [
    pytest.mark.filterwarnings("ignore:No one is censored"),
    pytest.mark.filterwarnings("ignore:`duration` is 0 or 1"),
]


class FunctionEvaluator(Evaluator):
    """A function from rows to margins, as if trees had a split on time at every float."""

    n_rounds = 1
    times = np.unique(np.concatenate([np.linspace(0, 3, 13), [2.5, 1.5]]))

    @property
    def n_margins(self):
        return self.model(np.zeros((1, self.schema.n_features + 1), np.float32)).shape[1]

    def _rounds(self, values, first, last):
        return self.model(values)

    def _read_forest(self):
        breaks = np.nextafter(self.times.astype(np.float32), np.float32(-np.inf))
        return Forest([], self.n_margins, self.schema.n_features, at_most=True, breaks=breaks)

    def _contributions(self, values):
        return np.zeros((len(values), self.n_margins, values.shape[1] + 1))

    def importances(self):
        return np.zeros(self.schema.n_features + 1)


class Problem(TrainingProblem):
    """The smallest engine: a model is a function from rows to margins.

    {parameters}
    """

    _hessian_scale = 1.0

    def _check_model(self, model):
        """A function bears no mark."""

    def _evaluator(self, model):
        return FunctionEvaluator(model, self._features.schema)

    def _finished_model(self, model):
        return model

    def _constraint_params(self, directions, groups):
        return {"directions": directions, "groups": groups}

    def _refresh_callback(self, params):
        raise NotImplementedError

    def predict_cumulative_incidence(self, model, X, times, *, calibrated=False):
        """By default what the margins say: this module is about margins, rows and weights."""
        # Curves are read at the first float of each step.
        at = self._data.axis.prediction_time(np.ravel(times).astype(float))
        FunctionEvaluator.times = np.unique(at)
        vars(self).pop("_known", None)
        return super().predict_cumulative_incidence(model, X, times, calibrated=calibrated)

    def predict_survival_function(self, model, X, times, *, calibrated=False):
        return super().predict_survival_function(model, X, times, calibrated=calibrated)


def no_trees(n_margins):
    return lambda matrix: np.zeros((len(matrix), n_margins))


def same_horizons(*horizons):
    """A sampler that gives all people the same horizons."""
    return lambda generator, n_samples, n_horizons, target: np.tile(horizons, (n_samples, 1))


def kaplan_meier_of(event, duration, sample_weight=None):
    """Censoring of these people, with times rounded as the trees see them."""
    rounded = np.asarray(duration, np.float32).astype(np.float64)
    return KaplanMeierCensoring().fit((event, rounded), sample_weight=sample_weight)


def aligned(event, duration):
    """Durations at their places on the time axis (16), which has no ties."""
    target = check_survival_target((event, np.asarray(duration, np.float32)))
    return TimeAxis(event_unit(target)).aligned(target).duration


def slow_weights(problem, event, duration, floor=0.05, people=slice(None)):
    """Weights (10) of the problem's rows, one at a time, from the censoring of some people."""
    weights = []
    duration = aligned(event, duration)
    censoring = kaplan_meier_of(event[people], duration[people])
    for i, z in zip(problem.person, problem.horizon, strict=True):
        t = duration[i]
        if t > z:
            G = censoring.survival([np.float64(z)])[0]
        else:
            assert event[i] != 0
            G = censoring.survival([t], left=True)[0]
        weights.append(1 / max(G, floor))
    return np.array(weights)


@pytest.fixture(scope="module")
def people():
    return simulate(300, seed=1)


# ---------------------------------------------------------------------------------- the schedule
@given(st.integers(1, 50), st.integers(0, 500))
def test_refresh_is_due_after_every_so_many_rounds_but_not_at_the_start(every, n_rounds):
    due = RefreshSchedule(every).is_due(n_rounds)
    assert due == (n_rounds in range(every, 501, every))


def test_schedule_refuses_what_is_no_number_of_rounds():
    with pytest.raises(ValueError, match="`refresh_every` must be an integer >= 1; got 0"):
        RefreshSchedule(0)


# -------------------------------------------------------------------------------- rows and weights
@pytest.mark.parametrize("sampler", ["uniform", "stratified", "events", "mixture"])
def test_initial_weights_are_those_of_kaplan_meier_row_by_row(people, sampler):
    problem = Problem(people.X, people.y, n_horizons=3, horizon_sampler=sampler, random_state=0)
    expected = slow_weights(problem, *people.y)
    assert problem.initial_weight.dtype == np.float32
    assert_allclose(problem.initial_weight, expected, rtol=1e-6)
    assert problem.n_floored_ == (np.isclose(expected, 20)).sum()


@given(survival_targets(min_events=1), st.integers(0, 9))
def test_weights_and_targets_with_ties_and_time_zero(target, seed):
    rng = np.random.default_rng(seed)
    horizons = rng.integers(0, 9, (target.n_samples, 2)) / 8
    horizons[target.duration.argmax(), 0] = 0  # Someone is event-free at some horizon.
    y = target.event_ids[target.event], target.duration
    problem = Problem(
        np.zeros((target.n_samples, 1)), y, n_horizons=2, horizon_sampler=lambda *_: horizons
    )
    assert_allclose(problem.initial_weight, slow_weights(problem, *y), rtol=1e-6)
    labels = problem.event_ids_[problem.target]
    seen = aligned(*y)[problem.person] <= problem.horizon
    assert_array_equal(labels, np.where(seen, y[0][problem.person], 0))
    at_zero = (target.duration[problem.person] == 0) & seen
    assert_array_equal(problem.initial_weight[at_zero], 1)  # No one is censored before 0.


def test_rows_are_people_at_horizons(people):
    problem = Problem(people.X, people.y, n_horizons=3, random_state=0)
    matrix = problem.stacked_features
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert_array_equal(matrix[:, :-1], people.X.astype(np.float32)[problem.person])
    assert_array_equal(matrix[:, -1], problem.horizon)
    assert len(matrix) < 3 * 300  # Rows of people censored before the horizon teach nothing.
    assert set(problem.target) == {0, 1, 2}


def test_labels_keep_their_names(people):
    event = np.array([0, 3, 70])[people.event]
    problem = Problem(people.X, (event, people.duration), random_state=0)
    assert_array_equal(problem.event_ids_, [0, 3, 70])
    plain = Problem(people.X, people.y, random_state=0)
    assert_array_equal(problem.target, plain.target)
    assert_array_equal(problem.initial_weight, plain.initial_weight)


def test_same_seed_same_rows_and_another_seed_others(people):
    first, again, other = (Problem(people.X, people.y, random_state=seed) for seed in (0, 0, 1))
    assert_array_equal(first.horizon, again.horizon)
    assert_array_equal(first.initial_weight, again.initial_weight)
    shown = np.intersect1d(first.horizon, other.horizon)
    assert len(shown) < len(first.horizon) / 2


def test_people_who_are_all_followed_to_the_end_weigh_one(people):
    event = np.maximum(people.event, 1)
    problem = Problem(people.X, (event, people.duration), random_state=0)
    assert_array_equal(problem.initial_weight, 1)
    assert len(problem.target) == 4 * 300
    assert problem.n_floored_ == 0
    assert not problem._new_alternation().has_censoring


@pytest.mark.parametrize("floor", [0.4, 0.6, 1.0])
def test_floor_limits_weights_and_is_reported(people, floor, caplog):
    with caplog.at_level(logging.INFO, logger="survival_objectives"):
        problem = Problem(
            people.X,
            people.y,
            min_censoring_survival=floor,
            horizon_max=float(people.duration.max()),
            random_state=0,
        )
    unlimited = slow_weights(problem, *people.y, floor=1e-9)
    n_floored = (unlimited > 1 / floor).sum()
    assert problem.initial_weight.max() <= np.float32(1 / floor)
    assert problem.n_floored_ == n_floored > 0
    share = 100 * n_floored / len(unlimited)
    assert caplog.messages == [
        f"min_censoring_survival={floor:g} limits the weight of {n_floored} of {len(unlimited)} "
        f"rows ({share:.1f} %)."
    ]


def test_no_log_line_where_the_floor_touches_nothing(people, caplog):
    event = np.maximum(people.event, 1)
    with caplog.at_level(logging.INFO, logger="survival_objectives"):
        Problem(people.X, (event, people.duration), random_state=0)
    assert caplog.messages == []


@given(survival_targets(min_events=1), st.data())
def test_sample_weights_act_like_repeated_people(target, data):
    counts = np.array(
        data.draw(st.lists(st.integers(1, 3), min_size=target.n_samples, max_size=target.n_samples))
    )
    X = np.arange(target.n_samples, dtype=float)[:, None]
    y = target.event_ids[target.event], target.duration
    sampler = same_horizons(0.0, 0.5, 1.0)
    rows = np.repeat(np.arange(target.n_samples), counts)
    weighted = Problem(X, y, n_horizons=3, horizon_sampler=sampler, sample_weight=counts)
    repeated = Problem(X[rows], (y[0][rows], y[1][rows]), n_horizons=3, horizon_sampler=sampler)

    # Whether events are in units is a matter of how many people there are.
    assume(weighted._data.axis == repeated._data.axis)

    def totals(problem, person):
        keys = zip(person, problem.horizon, problem.target, strict=True)
        total = {}
        for key, weight in zip(keys, problem.initial_weight, strict=True):
            total[key] = total.get(key, 0) + weight
        return total

    expected = totals(repeated, rows[repeated.person])
    ours = totals(weighted, weighted.person)
    assert ours.keys() == expected.keys()
    # Weights are relative: their mean is 1.
    actual = np.array(list(ours.values())) * counts.mean()
    assert_allclose(actual, [expected[key] for key in ours], rtol=1e-5)


@pytest.mark.parametrize("unit", [1 / 300, 1e-9, 7.0, 1e6])
def test_sample_weights_are_relative(people, unit):
    weight = np.random.default_rng(0).integers(1, 4, 300)
    ours, other = (
        Problem(people.X, people.y, sample_weight=scale * weight, random_state=0)
        for scale in (1, unit)
    )
    assert_array_equal(ours.initial_weight, other.initial_weight)
    same = Problem(people.X, people.y, sample_weight=np.full(300, unit), random_state=0)
    plain = Problem(people.X, people.y, random_state=0)
    assert_allclose(same.initial_weight, plain.initial_weight, rtol=1e-6)


def test_people_of_weight_zero_have_no_say(people):
    """Neither their causes nor their durations nor their features count."""
    weight = np.ones(300)
    weight[[0, 7, 299]] = 0
    event, duration = people.event.copy(), people.duration.copy()
    event[[0, 7]], duration[[0, 299]] = 9, 1e6
    y = event, duration
    for form in (np.asarray, pd.DataFrame, pl.DataFrame):
        X = form(people.X)
        ours = Problem(X, y, sample_weight=weight, random_state=0)
        kept = np.flatnonzero(weight)
        alone = Problem(people.X[kept], (event[kept], duration[kept]), random_state=0)
        assert_array_equal(ours.event_ids_, [0, 1, 2])
        assert ours.n_margins == alone.n_margins
        assert_array_equal(ours.person, kept[alone.person])
        for name in ("horizon", "target", "initial_weight", "stacked_features"):
            assert_array_equal(getattr(ours, name), getattr(alone, name))
    with pytest.raises(ValueError, match="are censored"):
        Problem(people.X, y, sample_weight=event == 0)


def test_own_censoring_model_is_not_asked_about_people_of_weight_zero(people):
    model = Recording()
    weight = np.arange(300) % 3
    Problem(people.X, people.y, censoring=model, sample_weight=weight, random_state=0)
    dropped = people.X[weight == 0]
    for _, X, _ in model.asked:
        assert len(X)
        assert not (X[:, None, 0] == dropped[None, :, 0]).any()


# ------------------------------------------------------------------------- a censoring of one's own
class Recording(KnownCensoring):
    """The known censoring, which remembers whom it was asked about."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def survival(self, times, X=None, *, left=False):
        self.asked.append((np.array(times), X, left))
        return super().survival(times, X, left=left)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_own_censoring_model_sees_the_users_own_rows(people, form):
    model = Recording()
    X = form(people.X) if form is not pd.DataFrame else form(people.X, index=range(1000, 1300))
    problem = Problem(X, people.y, censoring=model, min_censoring_survival=1e-6, random_state=0)
    assert problem.censoring_ is model
    for times, rows, _ in model.asked:
        assert isinstance(rows, np.ndarray if form is np.ndarray.tolist else type(X))
        assert len(times) == len(rows)
    (_, stayed, left), (_, leavers, left_of_leavers) = model.asked
    assert (left, left_of_leavers) == (False, True)
    is_stayed = problem.target == 0
    assert_array_equal(np.asarray(stayed), people.X[problem.person[is_stayed]])
    assert_array_equal(np.asarray(leavers), people.X[np.unique(problem.person[~is_stayed])])
    if form is pd.DataFrame:
        assert_array_equal(stayed.index, 1000 + problem.person[is_stayed])

    duration = people.duration.astype(np.float32)[problem.person]
    G = people.censoring.survival(np.minimum(duration, problem.horizon), people.X[problem.person])
    assert_allclose(problem.initial_weight, 1 / G, rtol=1e-5)


def test_own_censoring_model_is_asked_about_event_times_as_they_were_given():
    """float32(0.1) > 0.1, so a study that ends at 0.1 seems to have ended before an event then."""

    class EndsAt:
        def survival(self, times, X=None, *, left=False):
            times = np.asarray(times)
            return np.where(times <= 0.1 if left else times < 0.1, 1.0, 0.0)

    X, y = np.zeros((4, 1)), ([1, 1, 0, 0], [0.05, 0.1, 0.1, 0.1])
    problem = Problem(
        X, y, n_horizons=2, horizon_sampler=same_horizons(0.01, 0.1), censoring=EndsAt()
    )
    assert_array_equal(problem.initial_weight, 1)
    # A person censored at 0.1 is known to be event-free then.
    assert len(problem.initial_weight) == 8


@pytest.mark.parametrize(
    ("survival", "words"),
    [
        (lambda times: np.full(len(times), 1.5), r"returned 1\.5, which is not a probability"),
        (lambda times: np.full(len(times), -0.1), r"returned -0\.1"),
        (lambda times: np.full(len(times), np.nan), "returned nan"),
        (lambda times: np.ones((len(times), 1)), r"returned shape \(\d+, 1\) for"),
        (lambda times: 1.0, r"returned shape \(\) for"),
    ],
)
def test_own_censoring_model_must_return_probabilities(people, survival, words):
    class Wrong:
        def survival(self, times, X=None, *, left=False):
            return survival(times)

    with pytest.raises(ValueError, match=words):
        Problem(people.X, people.y, censoring=Wrong())


def test_what_is_no_censoring_model_is_refused(people):
    with pytest.raises(TypeError, match="`censoring` of type float has no method"):
        Problem(people.X, people.y, censoring=0.5)
    with pytest.raises(ValueError, match="`censoring` is 'cox'; choose from 'kaplan-meier'"):
        Problem(people.X, people.y, censoring="cox")


def test_true_curves_have_the_least_loss_over_the_rows():
    people = simulate(20_000, seed=3)
    problem = Problem(
        people.X,
        people.y,
        n_horizons=2,
        horizon_max=2.0,
        censoring=people.censoring,
        min_censoring_survival=1e-3,
        random_state=0,
    )

    def loss_of_people(hazards):
        proba = people.incidence(problem.horizon, hazards[problem.person])
        losses = pointwise_log_loss(np.log(proba), problem.target, problem.initial_weight)
        return np.bincount(problem.person, weights=losses, minlength=len(people.X))

    truth = loss_of_people(people.hazards)
    for wrong in (1.3 * people.hazards, people.hazards / 1.3, people.hazards * [1.4, 0.7]):
        difference = loss_of_people(wrong) - truth
        assert difference.mean() > 4 * difference.std() / np.sqrt(len(difference))


# --------------------------------------------------------------------------- starts and predictions
@pytest.mark.parametrize("margins", ["reference", "free"])
def test_start_at_the_marginal_curve_predicts_aalen_johansen_without_trees(people, margins):
    problem = Problem(people.X, people.y, margins=margins, start="marginal", random_state=0)
    times = np.linspace(0, 3, 13)
    model = no_trees(problem.n_margins)
    curves = problem.predict_cumulative_incidence(model, people.X[:2], times)
    marginal = aalen_johansen(check_survival_target(people.y))(times)
    for person in (0, 1):  # But for half a person, below which probabilities are not told from 0.
        assert_allclose(curves[person].T, marginal, atol=1.5 / len(people.X))
    inner = (marginal > 1 / len(people.X)).all(axis=1)
    assert_allclose(curves[0].T[inner], marginal[inner], atol=1e-6)


def test_start_at_the_marginal_curve_counts_people_by_their_weight(people):
    counts = np.where(people.event == 2, 3, 1)
    rows = np.repeat(np.arange(300), counts)
    weighted = Problem(people.X, people.y, start="marginal", sample_weight=counts)
    repeated = Problem(
        people.X[rows], (people.event[rows], people.duration[rows]), start="marginal"
    )
    ours, theirs = (
        problem.predict_cumulative_incidence(no_trees(2), people.X[:1], [0.5, 1.0, 2.0])
        for problem in (weighted, repeated)
    )
    assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("margins", ["reference", "free"])
def test_start_at_the_best_constant_has_no_gradient_left(people, margins):
    problem = Problem(people.X, people.y, margins=margins, start="constant", random_state=0)
    model = no_trees(problem.n_margins)
    curves = problem.predict_cumulative_incidence(model, people.X[:1], [0.5, 2.0])[0]
    weight = problem.initial_weight.astype(np.float64)
    frequency = np.bincount(problem.target, weights=weight) / weight.sum()
    assert_allclose(curves, np.column_stack([frequency, frequency]), rtol=1e-6)


@pytest.mark.parametrize(("margins", "n_margins"), [("reference", 2), ("free", 3)])
def test_start_at_zero_gives_every_state_the_same_probability(people, margins, n_margins):
    problem = Problem(people.X, people.y, margins=margins, start="zero", random_state=0)
    assert problem.n_margins == n_margins
    curves = problem.predict_cumulative_incidence(no_trees(n_margins), people.X, [1.0])
    assert_allclose(curves, 1 / 3)


def test_predictions_evaluate_each_person_at_each_time(people, monkeypatch):
    problem = Problem(people.X, people.y, start="zero", monotone=False, random_state=0)

    def model(matrix):
        assert matrix.dtype == np.float32
        return np.column_stack([matrix[:, 0] + matrix[:, -1], matrix[:, 1] * matrix[:, -1]])

    times = [2.0, 0.5, 1.0]
    curves = problem.predict_cumulative_incidence(model, people.X, times)
    assert curves.shape == (300, 3, 3)
    assert curves.dtype == np.float64
    assert_allclose(curves.sum(axis=1), 1, rtol=1e-14)
    x = people.X.astype(np.float32).astype(np.float64)
    for position, time in enumerate(times):
        odds = np.exp(np.column_stack([x[:, 0] + time, x[:, 1] * time]))
        expected = odds / (1 + odds.sum(axis=1, keepdims=True))
        assert_allclose(curves[:, 1:, position], expected, rtol=1e-5)
    survival = problem.predict_survival_function(model, people.X, times)
    assert_array_equal(survival, curves[:, 0])
    # In blocks of people, also of less than one.
    for n_rows in (1, 7, 100):
        monkeypatch.setattr(horizon_model, "ENGINE_ROWS", n_rows)
        blocks = problem.predict_cumulative_incidence(model, people.X, times)
        assert_array_equal(blocks, curves)


def test_prediction_checks_people_and_times(people):
    problem = Problem(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match=r"1 features, but .* expecting 2 features"):
        problem.predict_cumulative_incidence(no_trees(2), people.X[:, :1], [1.0])
    with pytest.raises(ValueError, match=r"`times` is -1\.0 at position 0"):
        problem.predict_cumulative_incidence(no_trees(2), people.X, [-1.0])


def test_scikit_learn_objective_is_the_loss_of_the_rows(people):
    problem = Problem(people.X, people.y, margins="free", start="zero", random_state=0)
    margin = np.random.default_rng(0).normal(size=(len(problem.target), 3))
    rows = problem.target.astype(float), margin, problem.initial_weight
    expected = gradient_hessian(margin, problem.target, problem.initial_weight)
    for ours, theirs in zip(problem.sklearn_objective(*rows), expected, strict=True):
        assert_array_equal(ours, theirs)
    for options in ({"margins": "reference", "start": "zero"}, {"margins": "free"}):
        with pytest.raises(ValueError, match="Construct with `margins='free', start='zero'`"):
            Problem(people.X, people.y, **options).sklearn_objective(*rows)


# ----------------------------------------------------------------------------- folds and held-out
@pytest.mark.parametrize("n_splits", [2, 3, 5])
def test_folds_keep_the_rows_of_a_person_together(people, n_splits):
    problem = Problem(people.X, people.y, random_state=0)
    folds = problem.folds(n_splits, random_state=0)
    assert len(folds) == n_splits
    tested = np.concatenate([test for _, test in folds])
    assert_array_equal(np.sort(tested), np.arange(len(problem.target)))
    for train, test in folds:
        assert not set(problem.person[train]) & set(problem.person[test])
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(problem.target)))
    again = problem.folds(n_splits, random_state=0)
    other = problem.folds(n_splits, random_state=1)
    assert_array_equal(folds[0][1], again[0][1])
    assert not np.array_equal(folds[0][1], other[0][1])


@pytest.mark.parametrize("n_splits", [2, 3])
def test_both_sides_of_a_fold_are_weighted_by_the_censoring_of_its_training_people(
    people, n_splits
):
    # Everyone has a row at 0.
    problem = Problem(
        people.X, people.y, n_horizons=3, horizon_sampler=same_horizons(0.0, 0.5, 1.5)
    )
    folds = problem.folds(n_splits, random_state=0)
    expected = []
    for train, _ in folds:
        trained = np.unique(problem.person[train])
        expected.append(slow_weights(problem, *people.y, people=trained))
    # First the objective sees the training rows of all folds, then the metric the others, as in cv.
    for (train, _), weight in zip(folds, expected, strict=True):
        assert_allclose(problem._data.fold_weight(train, held_out=False), weight[train], rtol=1e-6)
    for (_, test), weight in zip(folds, expected, strict=True):
        assert_allclose(problem._data.fold_weight(test, held_out=True), weight[test], rtol=1e-6)
    assert not np.allclose(expected[0], expected[1])


def test_outcomes_of_the_held_out_fold_do_not_change_the_training_weights(people):
    options = {"n_horizons": 3, "horizon_sampler": same_horizons(0.0, 0.5, 1.5)}
    problem = Problem(people.X, people.y, **options)
    train, test = problem.folds(3, random_state=0)[0]
    held_out = np.unique(problem.person[test])
    event, duration = people.event.copy(), people.duration.copy()
    event[held_out] = 0
    duration[held_out] /= 3
    changed = Problem(people.X, (event, duration), **options)
    same_rows = np.flatnonzero(~np.isin(changed.person, held_out))
    assert_array_equal(changed.horizon[same_rows], problem.horizon[train])
    assert_array_equal(
        changed._data.fold_weight(same_rows, held_out=False),
        problem._data.fold_weight(train, held_out=False),
    )
    assert not np.allclose(changed.initial_weight[same_rows], problem.initial_weight[train])


def test_held_out_people_are_weighted_by_the_censoring_of_the_training_people(people):
    train, test = slice(0, 200), slice(200, 300)
    event, duration = people.y
    problem = Problem(people.X[train], (event[train], duration[train]), random_state=0)
    before = [array.copy() for array in (problem.horizon, problem.initial_weight)]
    rows = problem._held_out_rows(people.X[test], (event[test], duration[test]))

    # Training is what it was.
    assert_array_equal(problem.horizon, before[0])
    assert_array_equal(problem.initial_weight, before[1])

    censoring = kaplan_meier_of(event[train], duration[train])
    position = {tuple(x): i for i, x in enumerate(people.X[test].astype(np.float32))}
    for row, target, weight in zip(rows.matrix, rows.target, rows.weight, strict=True):
        i = 200 + position[tuple(row[:-1])]
        t, z = np.float32(duration[i]), row[-1]
        assert target == (event[i] if t <= z else 0)
        G = censoring.survival([z])[0] if t > z else censoring.survival([t], left=True)[0]
        assert_allclose(weight, 1 / max(G, 0.05), rtol=1e-6)
    assert rows.matrix[:, -1].max() <= np.float32(duration[train].max())


def test_held_out_people_may_lack_a_cause_or_any_event(people):
    problem = Problem(people.X, people.y, random_state=0)
    for event in ([0, 1, 1], [0, 0, 0]):
        rows = problem._held_out_rows(people.X[:3], (event, [1.0, 2.0, 3.0]))
        assert set(rows.target) <= set(event)
    with pytest.raises(ValueError, match="label 5, which was not seen in training"):
        problem._held_out_rows(people.X[:2], ([0, 5], [1.0, 2.0]))
    with pytest.raises(ValueError, match="`X` has 3 rows but `y` has 2"):
        problem._held_out_rows(people.X[:3], ([0, 1], [1.0, 2.0]))


# --------------------------------------------------------------------------------- the alternation
class FakeTrainer(CensoringTrainer):
    """A censoring booster whose trees add slope * x_0 + n_rounds * rate * t; remembers weights."""

    def __init__(self, slope=0.4, rate=0.1):
        super().__init__()
        self.slope, self.rate = slope, rate
        self.advanced, self.rows = [], []

    def add(self, values, start):
        self.rows.append((values, start))
        return len(self.rows) - 1

    def advance(self, weight, n_rounds):
        self.advanced.append((self._target.copy(), weight.copy(), n_rounds))

    def margin(self, key):
        values, start = self.rows[key]
        return start + self._trees(values)[:, None]

    def _trees(self, matrix):
        return self.slope * matrix[:, 0] + self.n_rounds * self.rate * matrix[:, -1]

    def model(self):
        return FakeModel(self._trees)


class FakeModel:
    def __init__(self, trees):
        self.trees = trees

    def margin(self, matrix, start):
        return np.ravel(start) + self.trees(matrix)


class LiveModel:
    """An event model by a formula, as an adapter shows it to a refresh."""

    def __init__(self, problem, trees, **censoring):
        self._problem, self._trees = problem, trees
        self.trainer = FakeTrainer(**censoring)

    def row_margin(self):
        rows = self._problem.stacked_features
        return self._trees(rows) + self._problem._start_margin(rows[:, -1])

    def probe_margin(self):
        probes = self._problem._data.event_probes
        at_probes = self._trees(probes.matrix(self._problem._features))
        return at_probes + self._problem._start_margin(probes.feature)

    def new_trainer(self):
        return self.trainer


def rising_risk(matrix):
    return np.column_stack([0.3 * matrix[:, 0] + matrix[:, -1], 0.5 * matrix[:, -1]])


@pytest.mark.parametrize("weighted", [False, True])
def test_refresh_weighs_both_models_by_each_other_row_by_row(people, weighted):
    sample_weight = np.random.default_rng(0).uniform(0.5, 2, 300) if weighted else None
    problem = Problem(
        people.X,
        people.y,
        min_censoring_survival=0.3,
        min_event_survival=0.2,
        sample_weight=sample_weight,
        random_state=0,
    )
    person_weight = np.ones(300) if sample_weight is None else sample_weight / sample_weight.mean()
    alternation = problem._new_alternation()
    assert_array_equal(alternation.targets.weight, problem.initial_weight)
    assert alternation.has_censoring
    model = LiveModel(problem, rising_risk)
    alternation.refresh(model, 20)

    # Algorithm 3: the censoring rows weigh 1/S(z) or 1/S(t).
    rows = problem._data.rows.censorings
    duration = people.duration.astype(np.float32)[rows.person]
    last_seen = np.minimum(duration, rows.horizon)
    survival = np.array(
        [
            problem.predict_survival_function(rising_risk, people.X[[i]], [t])[0, 0]
            for i, t in zip(rows.person, last_seen, strict=True)
        ]
    )
    assert_array_equal(rows.target, duration <= rows.horizon)
    ((target, weight, n_rounds),) = model.trainer.advanced
    assert n_rounds == 10
    assert_array_equal(target, rows.target)
    expected = person_weight[rows.person] / np.maximum(survival, 0.2)
    assert_allclose(weight, expected, rtol=1e-6)

    # Algorithm 2: the event rows weigh 1/G(z) or 1/G(t-), of the model after its advance.
    duration = people.duration.astype(np.float32)[problem.person]
    stayed = duration > problem.horizon
    X, censoring = people.X[problem.person], problem.censoring_
    assert isinstance(censoring, BoostedCensoring)
    before = censoring.survival(duration, X, left=True)
    G = np.where(stayed, censoring.survival(problem.horizon, X), before)
    expected = person_weight[problem.person] / np.maximum(G, 0.3)
    assert_allclose(alternation.targets.weight, expected, rtol=1e-5)
    assert alternation.targets.weight.dtype == np.float32

    n_floored = (G < 0.3).sum()
    (record,) = problem.refreshes_
    assert record.round == 20
    assert_allclose(record.mean_weight, expected.mean(), rtol=1e-5)
    assert_allclose(record.max_weight, expected.max(), rtol=1e-5)
    assert record.n_floored == problem.n_floored_ == n_floored > 0
    assert record.n_floored_censoring == (survival < 0.2).sum() > 0


def test_refreshed_weights_follow_formula_9(people):
    problem = Problem(people.X, people.y, random_state=0, min_censoring_survival=1e-6)
    alternation = problem._new_alternation()
    alternation.refresh(LiveModel(problem, rising_risk), 10)
    marginal = kaplan_meier_of(*people.y)
    floor = 0.5 / 300
    for row in range(0, len(problem.target), 7):
        x = np.float32(people.X[problem.person[row], 0])
        duration, z = np.float32(people.duration[problem.person[row]]), problem.horizon[row]
        left = duration <= z
        t = min(duration, z)
        G_KM = np.clip(marginal.survival([t], left=left)[0], floor, 1 - floor)
        censored = expit(logit(1 - G_KM) + 0.4 * x + t)  # (9), ten rounds of t / 10
        assert_allclose(alternation.targets.weight[row], 1 / (1 - censored), rtol=0.01)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_trees_the_refreshed_weights_are_those_of_kaplan_meier(people, weighted):
    sample_weight = np.where(people.event == 0, 3.0, 1.0) if weighted else None
    problem = Problem(people.X, people.y, random_state=0, sample_weight=sample_weight)
    alternation = problem._new_alternation()
    alternation.refresh(LiveModel(problem, rising_risk, slope=0.0, rate=0.0), 10)
    # The log-odds are floored at half a person.
    assert_allclose(alternation.targets.weight, problem.initial_weight, rtol=0.005)


def test_refresh_reports_the_floor(people, caplog):
    problem = Problem(people.X, people.y, random_state=0, min_censoring_survival=0.5)
    alternation = problem._new_alternation()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="survival_objectives"):
        alternation.refresh(LiveModel(problem, rising_risk), 10)
    n_floored = np.isclose(alternation.targets.weight, 2).sum()
    assert problem.n_floored_ == n_floored > 0
    (message,) = caplog.messages
    assert f"limits the weight of {n_floored} of {len(problem.target)} rows" in message


def test_an_event_at_time_zero_weighs_one_after_a_refresh():
    rng = np.random.default_rng(0)
    event, duration = rng.integers(0, 3, 60), rng.integers(0, 4, 60).astype(float)
    X = rng.normal(size=(60, 1))
    problem = Problem(X, (event, duration), random_state=0)
    alternation = problem._new_alternation()
    alternation.refresh(LiveModel(problem, rising_risk, slope=2.0), 10)
    at_zero = (duration[problem.person] == 0) & (problem.target > 0)
    assert at_zero.any()
    assert_array_equal(alternation.targets.weight[at_zero], 1)
    assert (alternation.targets.weight[~at_zero] != 1).all()


def test_a_second_training_starts_afresh(people):
    problem = Problem(people.X, people.y, random_state=0)
    n_floored, initial = problem.n_floored_, problem.initial_weight.copy()
    first = problem._new_alternation()
    model = LiveModel(problem, rising_risk)
    for n_rounds in (10, 20):
        first.refresh(model, n_rounds)
    assert [record.round for record in problem.refreshes_] == [10, 20]
    second = problem._new_alternation()
    assert problem.refreshes_ == []
    assert problem.n_floored_ == n_floored
    assert isinstance(problem.censoring_, KaplanMeierCensoring)
    assert_array_equal(second.targets.weight, initial)
    assert_array_equal(problem.initial_weight, initial)
    assert not np.allclose(first.targets.weight, second.targets.weight)


def test_a_given_censoring_model_is_not_refreshed(people):
    problem = Problem(people.X, people.y, censoring=people.censoring, random_state=0)
    with pytest.raises(ValueError, match="does not change, so there is nothing to refresh"):
        problem._new_alternation()


# ------------------------------------------------------------------------------------- derivatives
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("margins", ["reference", "free"])
def test_derivatives_use_the_weights_offered_for_one_round_and_else_the_initial_ones(
    people, margins, order
):
    problem = Problem(people.X, people.y, margins=margins, random_state=0)
    shape = len(problem.target), problem.n_margins
    margin = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    weight = np.random.default_rng(1).exponential(size=shape[0]).astype(np.float32)
    offered = RowTargets(problem.target[::-1].copy(), weight)

    def check(targets):
        flat = margin.ravel(order=order)  # Engines hand over flat or shaped margins.
        ours = problem._derivatives(flat, None, order)
        reference = margins == "reference"
        expected = gradient_hessian(margin, targets.target, targets.weight, reference=reference)
        for array, theirs in zip(ours, expected, strict=True):
            assert array.dtype == np.float32
            assert array.flags[f"{order}_CONTIGUOUS"]
            assert_array_equal(array, theirs)

    initial = RowTargets(problem.target, problem.initial_weight)
    check(initial)
    problem._slot.offer(offered)
    check(offered)
    problem._slot.check_taken(offered)
    check(initial)
    with pytest.raises(ValueError, match="were not used in the last round"):
        problem._slot.check_taken(offered)


def test_a_wrong_number_of_margins_says_what_to_merge(people):
    problem = Problem(people.X, people.y, random_state=0)
    with pytest.raises(ValueError, match=r"has 1 margins per row.* trains 2.*objective\.params"):
        problem._derivatives(np.zeros(len(problem.target), np.float32), None, "C")


def test_curves_that_rise_although_trees_are_constrained_are_refused(people):
    def model(matrix):
        return np.column_stack([-matrix[:, -1], matrix[:, -1] * 0])

    problem = Problem(people.X, people.y, start="zero", random_state=0)
    with pytest.raises(ValueError, match=r"Survival rises by .*Merge `objective\.params`"):
        problem.predict_survival_function(model, people.X, [2.0, 1.0])
    free = Problem(people.X, people.y, start="zero", monotone=False, random_state=0)
    assert free.predict_survival_function(model, people.X, [2.0, 1.0]).shape == (300, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"margins": "free"},
        {"start": "marginal"},
        {"start": "zero"},
        {"y": "other labels"},
        {"X": "other names"},
        {"X": "fewer people"},
    ],
)
def test_the_fingerprint_tells_what_turns_margins_into_curves(people, change):
    def problem(X=None, y=None, **options):
        frame = pd.DataFrame(people.X, columns=["a", "b"])
        event, duration = people.y
        if X == "other names":
            frame.columns = ["a", "c"]
        if X == "fewer people":
            frame, event, duration = frame[:-5], event[:-5], duration[:-5]
        if y is not None:
            event = 3 * event
        return Problem(frame, (event, duration), random_state=0, **options)

    assert problem()._fingerprint == pickle.loads(pickle.dumps(problem()))._fingerprint
    assert problem()._fingerprint != problem(**change)._fingerprint


# ---------------------------------------------------------------------------------------- pickling
def test_a_pickled_problem_is_the_same_problem(people):
    problem = Problem(people.X, people.y, random_state=0)
    margin = np.zeros((len(problem.target), 2), np.float32)
    problem._derivatives(margin, None, "C")
    problem._data.fold_weight(problem.folds(3)[0][0], held_out=False)
    copy = pickle.loads(pickle.dumps(problem))
    assert not set(vars(copy)) & set(problem._transient)
    for name in ("person", "horizon", "target", "initial_weight", "event_ids_"):
        assert_array_equal(getattr(copy, name), getattr(problem, name))
    for ours, theirs in zip(
        copy._derivatives(margin, None, "C"), problem._derivatives(margin, None, "C"), strict=True
    ):
        assert_array_equal(ours, theirs)
    times = [0.5, 1.0]
    assert_array_equal(
        copy.predict_cumulative_incidence(rising_risk, people.X, times),
        problem.predict_cumulative_incidence(rising_risk, people.X, times),
    )
    held_out = [p._held_out_rows(people.X, people.y).matrix for p in (copy, problem)]
    assert_array_equal(*held_out)


# -------------------------------------------------------------------------------------- wrong calls
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"margins": "both"}, ValueError, "`margins` is 'both'; choose from 'reference', 'free'"),
        ({"start": "random"}, ValueError, "`start` is 'random'"),
        ({"margins": "free", "monotone": True}, ValueError, "needs `margins='reference'`"),
        ({"n_horizons": 0}, ValueError, "`n_horizons` must be an integer >= 1; got 0"),
        ({"horizon_sampler": "late"}, ValueError, "`horizon_sampler` is 'late'"),
        ({"refresh_every": 0}, ValueError, "`refresh_every` .* got 0"),
        ({"min_censoring_survival": 0.0}, ValueError, r"`min_censoring_survival` .* got 0\.0"),
        ({"min_event_survival": 2}, ValueError, "`min_event_survival` .* got 2"),
        ({"sample_weight": [1.0]}, ValueError, "1 values for 300 people"),
        ({"random_state": -1}, ValueError, "`random_state` is -1"),
    ],
)
def test_bad_options_are_refused_by_name(people, options, error, words):
    with pytest.raises(error, match=words):
        Problem(people.X, people.y, **options)


def test_lengths_that_differ_are_refused(people):
    with pytest.raises(ValueError, match="`X` has 299 rows but `y` has 300"):
        Problem(people.X[1:], people.y)


def test_a_single_class_is_refused():
    with pytest.raises(ValueError, match="No one is event-free at any horizon"):
        Problem(
            np.zeros((3, 1)),
            ([1, 1, 1], [1.0, 2.0, 3.0]),
            n_horizons=1,
            horizon_sampler=same_horizons(5.0),
        )


def test_docstring_lists_the_parameters():
    for parameter in ("n_horizons", "min_censoring_survival", "sample_weight"):
        assert f"    {parameter} : " in Problem.__doc__
