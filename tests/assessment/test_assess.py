"""Who is held out, what censoring the scores see, and who wins where the truth is known."""

import importlib.util
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from survival_objectives import HazardBoost
from survival_objectives.assessment import assess
from survival_objectives.assessment._assess import check_assessable
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox
from survival_objectives.datasets import make_competing_risks
from survival_objectives.metrics import (
    Evaluation,
    FollowUpWarning,
    brier_score,
    concordance_index,
    integrated_brier_score,
)

FAST = HazardBoost(n_estimators=8, random_state=0, n_jobs=1)


class Oracle(BaseEstimator):
    """The truth of a simulation as an estimator."""

    def __init__(self, truth):
        self.truth = truth

    def fit(self, X, y):
        return self

    def predict_cumulative_incidence(self, X, times):
        return self.truth.cumulative_incidence(X, times)


class TwoStates(AalenJohansen):
    def predict_cumulative_incidence(self, X, times=None):
        return super().predict_cumulative_incidence(X, times)[:, :2]


@pytest.fixture(scope="module")
def people():
    return make_competing_risks(500, n_causes=2, censoring_rate=0.4, random_state=0)


@pytest.fixture(scope="module")
def assessed(people):
    return assess(FAST, people.X, people.y, n_splits=4, random_state=3)


def held_out(assessed, fold):
    return assessed.index[assessed.fold == fold], np.setdiff1d(
        assessed.index, assessed.index[assessed.fold == fold]
    )


# ------------------------------------------------------------------------------------------- folds
def test_everyone_is_held_out_once_and_folds_share_the_events(assessed, people):
    assert_array_equal(assessed.index, np.arange(500))
    assert_array_equal(np.unique(assessed.fold), np.arange(4))
    event = people.y["event"].to_numpy()
    for label in (0, 1, 2):
        counts = np.bincount(assessed.fold[event == label], minlength=4)
        assert np.ptp(counts) <= 1


def test_a_person_is_predicted_by_the_fit_that_left_them_out(assessed, people):
    for name, model in (("HazardBoost", FAST), ("Aalen-Johansen", AalenJohansen())):
        for fold in range(4):
            test, train = held_out(assessed, fold)
            fitted = clone(model).fit(people.X.iloc[train], people.y.iloc[train])
            expected = fitted.predict_cumulative_incidence(people.X.iloc[test], assessed.times)
            assert_allclose(assessed.curves[name][test], expected)


def test_the_model_itself_stays_unfitted(assessed, people):
    with pytest.raises(NotFittedError):
        FAST.predict(people.X)


def test_seed_decides_the_folds(people):
    first, same, other = (
        assess(AalenJohansen(), people.X, people.y, baselines=False, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert_array_equal(first.fold, same.fold)
    assert (first.fold != other.fold).any()
    assert (first.seed, other.seed) == (1, 2)


def test_single_split_holds_out_the_share_asked_for(people):
    result = assess(
        AalenJohansen(), people.X, people.y, test_size=0.2, baselines=False, random_state=0
    )
    assert result.n_splits == 1
    assert result.index.shape == (100,)
    assert (np.diff(result.index) > 0).all()
    assert set(result.scores["fold"]) == {0}
    share = (people.y["event"] > 0).mean()
    assert (people.y["event"].iloc[result.index] > 0).mean() == pytest.approx(share, abs=0.011)


def test_a_cause_rarer_than_the_folds_is_spread_over_them(people):
    y = people.y.copy()
    y.loc[y["event"] == 2, "event"] = 0
    y.loc[[5, 105, 205], "event"] = 7
    result = assess(AalenJohansen(), people.X, y, baselines=False, random_state=0)
    assert len(set(result.fold[[5, 105, 205]])) == 3
    assert_array_equal(result.event_ids, [0, 1, 7])
    concordance = result.values("concordance_75", 7).loc[result.main]
    # Two folds never saw the cause, and say so instead of inventing a number.
    assert concordance.isna().sum() >= 2


# ------------------------------------------------------------------------------------------ scores
def test_scores_are_those_of_the_metrics_with_the_training_part_as_reference(assessed, people):
    times, horizons = assessed.times, assessed.horizons
    columns = np.searchsorted(times, horizons)
    assert_array_equal(times[columns], horizons)
    assert assessed.scored.all()
    for fold in range(4):
        test, train = held_out(assessed, fold)
        for name in assessed.models:
            curves = assessed.curves[name][test]
            data = (people.y.iloc[train], people.y.iloc[test], curves, times)
            scores = assessed.scores.query("model == @name and fold == @fold")
            got = scores.set_index(["metric", "cause"])["value"]
            by_state = integrated_brier_score(*data, average=None)
            assert got["integrated_brier_score", 0] == pytest.approx(by_state.mean())
            assert got["integrated_brier_score", 2] == pytest.approx(by_state[2])
            assert got["integrated_log_loss", 0] == pytest.approx(
                Evaluation(*data).log_loss(integrated=True).value
            )
            for cause in (1, 2):
                concordance = concordance_index(
                    *data[:2], curves[:, :, columns], horizons, cause=cause
                )
                names = [f"concordance_{percent}" for percent in (25, 50, 75)]
                assert_allclose([got[metric, cause] for metric in names], concordance)
                groups = Evaluation(*data).risk_groups(cause, horizons[1], n_groups=5)
                gap = np.abs(groups.observed - groups.predicted) @ groups.n_samples / len(test)
                assert got["calibration_error", cause] == pytest.approx(gap)
            over_time = assessed.brier.query("model == @name and fold == @fold")
            table = over_time.pivot(index="cause", columns="time", values="value")
            assert_allclose(table, brier_score(*data))


def test_the_held_out_part_would_give_other_weights(assessed, people):
    """The parity test above can tell the two references apart."""
    test, train = held_out(assessed, 0)
    curves = assessed.curves["HazardBoost"][test]
    by_test, by_train = (
        integrated_brier_score(people.y.iloc[part], people.y.iloc[test], curves, assessed.times)
        for part in (test, train)
    )
    assert abs(by_test - by_train) > 1e-5


def test_models_are_ordered_as_the_truth_says():
    data = make_competing_risks(1500, n_causes=2, censoring="independent", random_state=1)
    model = HazardBoost(n_estimators=60, random_state=0, n_jobs=1)
    extra = {"oracle": Oracle(data.true)}
    result = assess(model, data.X, data.y, n_splits=3, extra_models=extra, random_state=0)
    assert result.models == ["HazardBoost", "oracle", "Aalen-Johansen", "Cox"]
    for metric in ("integrated_brier_score", "integrated_log_loss"):
        mean = result.values(metric).mean(axis=1)
        assert mean.idxmin() == "oracle"
        assert mean.idxmax() == "Aalen-Johansen"
    for cause in (1, 2):
        concordance = result.values("concordance_50", cause).mean(axis=1)
        assert concordance.idxmax() in ("oracle", "Cox")
        assert concordance["Aalen-Johansen"] == pytest.approx(0.5)
        assert concordance["HazardBoost"] > 0.55


def test_summary_prints_means_and_deviations_of_the_scores(assessed):
    table = assessed.summary()
    assert list(table.index) == ["HazardBoost", "Aalen-Johansen", "Cox"]
    values = assessed.scores.query("model == 'Cox' and metric == 'concordance_50' and cause == 2")[
        "value"
    ]
    expected = f"{values.mean():.3f} ± {values.std():.3f}"
    assert table.loc["Cox", "concordance, cause 2"] == expected


def test_one_cause_has_one_brier_score():
    data = make_competing_risks(200, n_causes=1, random_state=0)
    result = assess(CauseSpecificCox(), data.X, data.y, name="ours", n_splits=2, random_state=0)
    assert result.models == ["ours", "Kaplan-Meier", "Cox"]
    integrated = result.scores.query("metric == 'integrated_brier_score'")
    assert set(integrated["cause"]) == {0}
    assert_allclose(result.curves["ours"], result.curves["Cox"], atol=1e-6)


# ------------------------------------------------------------------------------------------- times
def test_times_beyond_follow_up_have_curves_but_no_scores(people):
    times = [0.5, 1.0, 2.0, 1000.0]
    with pytest.warns(FollowUpWarning, match=r"1 of 4 times, from 1000 on"):
        result = assess(
            AalenJohansen(), people.X, people.y, baselines=False, times=times, random_state=0
        )
    assert result.scored.tolist() == [True, True, True, False]
    assert result.curves[result.main].shape == (500, 3, 4)
    assert result.brier.query("time == 1000")["value"].isna().all()
    assert result.scores["value"].notna().all()
    assert set(result.horizons) <= {0.5, 1.0, 2.0}


def test_horizons_follow_the_events_in_two_digits(assessed, people):
    seen = people.y.loc[people.y["event"] > 0, "duration"]
    assert_allclose(assessed.horizons, np.quantile(seen, [0.25, 0.5, 0.75]), rtol=0.06)
    assert all(float(f"{horizon:.2g}") == horizon for horizon in assessed.horizons)
    assert assessed.times[-1] == pytest.approx(np.quantile(seen, 0.95))


# --------------------------------------------------------------------------------------- baselines
def test_cox_alone_gets_imputed_and_encoded_features(people):
    X = people.X.copy()
    X.loc[::5, "x0"] = np.nan
    levels = np.where(X["x1"] > 0, "high", "low").astype(object)
    levels[::11] = None
    X["level"] = pd.Categorical(levels)
    result = assess(FAST, X, people.y, n_splits=2, random_state=0)
    assert result.unavailable == {}
    test, train = held_out(result, 0)
    ready = X.drop(columns="level")
    ready["x0"] = ready["x0"].fillna(ready["x0"].iloc[train].median())
    ready["low"] = (levels == "low").astype(float)
    ready["missing"] = pd.isna(levels).astype(float)
    cox = CauseSpecificCox().fit(ready.iloc[train], people.y.iloc[train])
    expected = cox.predict_cumulative_incidence(ready.iloc[test], result.times)
    assert_allclose(result.curves["Cox"][test], expected, atol=1e-4)


def test_cox_on_a_sample_says_so(people, monkeypatch):
    data = (AalenJohansen(), people.X, people.y)
    on_all = assess(*data, n_splits=2, random_state=0).curves["Cox"]
    monkeypatch.setattr("survival_objectives.assessment._assess._MOST_FOR_COX", 150)
    on_some = assess(*data, n_splits=2, random_state=0).curves["Cox on 150 people"]
    assert 0.005 < np.abs(on_all - on_some).mean() < 0.1


def test_a_cox_that_cannot_be_fitted_is_reported_with_the_reason(people, monkeypatch):
    def fail(*_, **__):
        msg = "Convergence halted. Please see the following tips: https://lifelines.org/x Sorry."
        raise ValueError(msg)

    monkeypatch.setattr(CauseSpecificCox, "fit", fail)
    calls = []
    result = assess(
        AalenJohansen(),
        people.X,
        people.y,
        n_splits=3,
        random_state=0,
        on_fit=lambda *call: calls.append(call),
    )
    assert set(result.unavailable) == {"Cox"}
    assert "fold 1 of 3" in result.unavailable["Cox"]
    assert "Convergence halted." in result.unavailable["Cox"]
    assert "http" not in result.unavailable["Cox"]
    assert "Cox" not in result.curves
    assert "Cox" not in set(result.scores["model"])
    assert set(result.summary().loc["Cox"]) == {"unavailable"}
    assert calls[-1] == (9, 9, "Cox")


def test_without_lifelines_cox_is_reported(people, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "lifelines" else found(name)
    )
    result = assess(AalenJohansen(), people.X, people.y, n_splits=2)
    assert "pip install lifelines" in result.unavailable["Cox"]


def test_progress_counts_every_fit(people):
    calls = []
    assess(
        AalenJohansen(),
        people.X,
        people.y,
        n_splits=2,
        baselines=False,
        extra_models={"again": AalenJohansen()},
        on_fit=lambda *call: calls.append(call),
    )
    assert calls == [
        (1, 4, "AalenJohansen"),
        (2, 4, "again"),
        (3, 4, "AalenJohansen"),
        (4, 4, "again"),
    ]


# ------------------------------------------------------------------------------------------- input
def test_arrays_and_lists_give_the_same_as_frames(people):
    event, duration = people.y["event"].to_numpy(), people.y["duration"].to_numpy()
    array = people.X.to_numpy()
    results = [
        assess(CauseSpecificCox(), X, y, n_splits=2, baselines=False, random_state=0)
        for X, y in (
            (people.X, people.y),
            (array, (event, duration)),
            (array.tolist(), np.column_stack([event, duration])),
        )
    ]
    for other in results[1:]:
        assert_allclose(other.scores["value"], results[0].scores["value"], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_splits": 1}, ValueError, r"`n_splits` is 1 for 500 people; use 2 to 250"),
        ({"n_splits": 400}, ValueError, r"use 2 to 250, or `test_size`"),
        ({"n_splits": 2.5}, TypeError, r"`n_splits` must be an integer"),
        ({"test_size": 1.5}, ValueError, r"`test_size` must be in \(0, 1\)"),
        ({"times": [0.0, 1.0]}, ValueError, r"`times` contains 0"),
        ({"times": [1000.0]}, ValueError, r"Follow-up of some fold ends before 1000"),
        ({"name": "Cox"}, ValueError, r"Two models are called 'Cox'"),
        ({"name": ""}, TypeError, r"Names of models are text"),
        ({"extra_models": {"other": AalenJohansen}}, TypeError, r"'other' is .*no `predict_cumul"),
        ({"random_state": -1}, ValueError, r"`random_state` is -1"),
    ],
)
def test_mistakes_are_named_before_any_fit(people, options, error, message):
    fits = []
    with pytest.raises(error, match=message):
        assess(
            AalenJohansen(), people.X, people.y, on_fit=lambda *call: fits.append(call), **options
        )
    assert fits == []


def test_data_that_cannot_be_split_is_refused(people):
    y = people.y.assign(event=0)
    with pytest.raises(ValueError, match="censored"):
        assess(FAST, people.X, y)
    y.loc[[1, 2, 3], "event"] = 1
    y.loc[9, "event"] = 4
    with pytest.raises(ValueError, match=r"Cause 4 was observed once"):
        assess(FAST, people.X, y)
    with pytest.raises(ValueError, match=r"`X` has 499 rows but `y` has 500"):
        assess(FAST, people.X.iloc[1:], people.y)


def test_errors_of_the_users_own_models_are_theirs(people):
    with pytest.raises(ValueError, match=r"returned shape .* expected \(people, K \+ 1, times\)"):
        assess(TwoStates(), people.X, people.y, baselines=False)


# ------------------------------------------------------------------------------- standard errors
def test_estimates_are_means_over_folds_with_their_errors(assessed):
    keys = ["model", "metric", "cause"]
    means = assessed.scores.groupby(keys)["value"].mean()
    estimates = assessed.estimates.set_index(keys).sort_index()
    assert set(estimates.index.get_level_values("metric")) == set(assessed.scores["metric"]) - {
        "calibration_error"
    }
    assert_allclose(estimates["value"], means.loc[estimates.index])
    half = 1.959964 * estimates["standard_error"]
    assert_allclose(estimates["upper"] - estimates["value"], half, rtol=1e-6)
    assert_allclose(estimates["value"] - estimates["lower"], half, rtol=1e-6)
    assert (estimates.loc["HazardBoost", "standard_error"] > 0).all()


def test_errors_are_those_of_everyone_together(assessed, people):
    """Folds together score everyone once, and everyone is in the weights of the other folds."""
    together = Evaluation(None, people.y, assessed.curves["Cox"], assessed.times)
    found = together.brier(1, integrated=True)
    row = assessed.estimates.query(
        "model == 'Cox' and metric == 'integrated_brier_score' and cause == 1"
    )
    assert row["standard_error"].item() == pytest.approx(found.standard_error, rel=0.05)


def test_comparisons_pair_the_people(assessed):
    estimates = assessed.estimates.set_index(["model", "metric", "cause"])
    compared = assessed.comparisons
    n_scores = len(assessed.estimates) // 3
    assert len(compared) == 6 * n_scores
    assert set(compared["model"]) == set(compared["reference"]) == set(assessed.models)
    for row in compared.itertuples():
        score, other = (
            estimates.loc[(name, row.metric, row.cause)] for name in (row.model, row.reference)
        )
        assert row.difference == pytest.approx(score["value"] - other["value"])
        assert row.lower <= row.difference <= row.upper
        assert 0 <= row.p_value <= 1
        assert (row.p_value < 0.05) == (row.lower > 0 or row.upper < 0)
    brier = compared.query(
        "model == 'HazardBoost' and metric == 'integrated_brier_score' and cause == 0"
    )
    errors = estimates.loc[("HazardBoost", "integrated_brier_score", 0), "standard_error"]
    # What is common to the models cancels out.
    assert (brier["standard_error"] < errors).all()


def test_one_split_has_the_error_of_its_people(people):
    result = assess(
        AalenJohansen(), people.X, people.y, test_size=0.3, baselines=False, random_state=0
    )
    test = result.index
    train = np.setdiff1d(np.arange(500), test)
    data = (people.y.iloc[train], people.y.iloc[test])
    evaluation = Evaluation(*data, result.curves[result.main], result.times)
    expected = evaluation.log_loss(integrated=True)
    row = result.estimates.query("metric == 'integrated_log_loss'")
    assert row["standard_error"].item() == pytest.approx(expected.standard_error, rel=0.01)
    assert result.comparisons.empty


def test_a_fold_that_cannot_tell_is_left_out(people):
    y = people.y.copy()
    y.loc[y["event"] == 2, "event"] = 0
    y.loc[[5, 105], "event"] = 7
    result = assess(AalenJohansen(), people.X, y, baselines=False, random_state=0)
    rows = result.estimates.query("metric == 'concordance_75' and cause == 7")
    known = result.values("concordance_75", 7).loc[result.main].dropna()
    assert rows["value"].item() == pytest.approx(known.mean(), nan_ok=True)


def test_pipelines_are_assessed(people):
    plain = assess(FAST, people.X, people.y, n_splits=2, baselines=False, random_state=0)
    piped = assess(
        make_pipeline(FunctionTransformer(lambda X: X), FAST),
        people.X,
        people.y,
        n_splits=2,
        baselines=False,
        random_state=0,
    )
    assert_allclose(piped.curves[piped.main], plain.curves[plain.main])


def test_horizons_can_be_chosen(people):
    data = (AalenJohansen(), people.X, people.y)
    middle = float(np.quantile(people.y["duration"][people.y["event"] > 0], 0.4))
    result = assess(*data, n_splits=2, baselines=False, horizons=[middle])
    assert result.horizons.tolist() == [middle] * 3
    assert middle in result.times
    two = assess(*data, n_splits=2, baselines=False, horizons=[middle, middle / 2])
    assert two.horizons.tolist() == [middle / 2, middle, middle]
    with pytest.raises(ValueError, match="one to three times > 0"):
        assess(*data, horizons=[1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"`horizons` has 1e[+]06, but follow-up"):
        assess(*data, n_splits=2, horizons=[1e6])


# ----------------------------------------------------------------------------------- many people
def test_folds_in_processes_give_the_same_bit_for_bit(people):
    model = HazardBoost("xgboost", n_estimators=5, random_state=0, n_jobs=1)
    one, two = (
        assess(model, people.X, people.y, n_splits=3, random_state=0, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    assert list(one.curves) == list(two.curves)
    for name, curves in one.curves.items():
        np.testing.assert_array_equal(two.curves[name], curves)
    pd.testing.assert_frame_equal(one.scores, two.scores)
    pd.testing.assert_frame_equal(one.estimates, two.estimates)


def test_warnings_and_failures_come_back_from_processes(people):
    class Careful(AalenJohansen):
        def fit(self, X, y):
            warnings.warn("mind the gap", UserWarning, stacklevel=2)
            return super().fit(X, y)

    with pytest.warns(UserWarning, match="mind the gap"):
        assess(Careful(), people.X, people.y, n_splits=2, baselines=False, n_jobs=2)
    with pytest.raises(ValueError, match=r"returned shape"):
        assess(TwoStates(), people.X, people.y, baselines=False, n_jobs=2)


class Interrupted(AalenJohansen):
    """Fits as often as it is allowed to; the next fit is interrupted."""

    allowed: ClassVar[list[int]] = []

    def fit(self, X, y):
        if not self.allowed:
            raise KeyboardInterrupt
        self.allowed.pop()
        return super().fit(X, y)


def test_an_interruption_keeps_complete_folds(people):
    Interrupted.allowed[:] = [1, 1, 1]
    whole = assess(AalenJohansen(), people.X, people.y, n_splits=5, random_state=0)
    result = assess(
        Interrupted(), people.X, people.y, n_splits=5, random_state=0, keep_interrupted=True
    )
    assert (result.n_splits, result.n_planned) == (3, 5)
    assert (whole.n_splits, whole.n_planned) == (5, 5)
    assert set(result.scores["fold"]) == {0, 1, 2}
    kept = np.isin(whole.index, result.index)
    assert kept.sum() == 300
    np.testing.assert_array_equal(whole.curves["Cox"][kept], result.curves["Cox"])
    assert np.isfinite(result.estimates["standard_error"]).any()


@pytest.mark.parametrize("allowed", [[], [1]])
def test_an_interruption_is_raised_where_nothing_is_complete_or_wanted(people, allowed):
    Interrupted.allowed[:] = allowed
    with pytest.raises(KeyboardInterrupt):
        assess(Interrupted(), people.X, people.y, n_splits=5, keep_interrupted=not allowed)


def test_training_parts_can_be_limited(people):
    class Counting(AalenJohansen):
        def fit(self, X, y):
            self.n_people_ = len(X)
            return super().fit(X, y)

        def predict_cumulative_incidence(self, X, times=None):
            assert self.n_people_ == 120
            return super().predict_cumulative_incidence(X, times)

    result = assess(Counting(), people.X, people.y, test_size=0.2, max_train=120, random_state=0)
    assert (result.n_trained, len(result.index)) == (120, 100)


def test_what_cannot_be_assessed_is_known_before_training(people):
    check_assessable(people.y, n_splits=5, random_state=0)
    with pytest.raises(ValueError, match="`horizons` has 1e"):
        check_assessable(people.y, horizons=[1e9])
    with pytest.raises(ValueError, match="`max_train` must be"):
        check_assessable(people.y, max_train=0)
