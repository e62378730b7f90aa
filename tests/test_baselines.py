"""Baselines against other packages, formulas and the estimator contract."""

import doctest
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from survival_objectives import baselines
from survival_objectives.baselines import AalenJohansen, CauseSpecificCox, _combined
from survival_objectives.metrics import integrated_brier_score, make_survival_scorer

TIMES = np.array([0.2, 0.5, 1.0, 2.0])


def outcomes(event, duration):
    frame = pd.DataFrame({"event": event, "duration": duration})
    return frame.to_records(index=False)


@pytest.fixture(scope="module")
def people():
    """Proportional cause-specific hazards, so that Cox regression is the truth."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 2))
    hazard = np.array([0.6, 0.4]) * np.exp(X @ np.array([[0.8, -0.4], [-0.3, 0.7]]))
    event_times = generator.exponential(1 / hazard)
    censored = generator.exponential(2, 400)
    first = event_times.min(axis=1)
    event = np.where(first <= censored, event_times.argmin(axis=1) + 1, 0)
    return X, outcomes(event, np.minimum(first, censored))


@pytest.fixture(scope="module", params=[AalenJohansen, CauseSpecificCox])
def fitted(request, people):
    return request.param().fit(*people)


def test_predictions_keep_the_contract(fitted, people):
    X, y = people
    incidence = fitted.predict_cumulative_incidence(X, TIMES)
    assert incidence.shape == (400, 3, 4)
    assert incidence.dtype == np.float64
    assert_allclose(incidence.sum(axis=1), 1)
    assert (np.diff(incidence[:, 1:], axis=2) >= 0).all()
    assert (incidence >= 0).all()
    assert_allclose(fitted.predict_survival_function(X, TIMES), incidence[:, 0])
    assert_allclose(fitted.predict_proba(X, 0.5), incidence[:, :, 1])
    assert fitted.predict_proba(X[:1], 0.5).shape == (1, 3)
    assert fitted.predict_cumulative_incidence(X[:2]).shape == (2, 3, len(fitted.times_))
    assert fitted.predict(X).shape == (400,)
    start = fitted.predict_proba(X, 0.0)
    assert_allclose(start, np.tile([1, 0, 0], (400, 1)))
    times = fitted.times_[fitted.times_ < y["duration"].max()]
    loss = integrated_brier_score(
        y, y, fitted.predict_cumulative_incidence(X, times), times, average="all"
    )
    assert_allclose(fitted.score(X, y), -loss)


def test_estimators_are_cloned_and_cross_validated(fitted, people):
    X, y = people
    scores = cross_val_score(clone(fitted), X, y, cv=3, scoring=make_survival_scorer("brier"))
    assert (scores < 0).all()


def test_features_beat_the_marginal_curve(people):
    X, y = people
    first, second = slice(0, 200), slice(200, 400)
    scores = [
        model.fit(X[first], y[first]).score(X[second], y[second])
        for model in (AalenJohansen(), CauseSpecificCox())
    ]
    assert scores[1] > scores[0]


def test_example():
    results = doctest.testmod(baselines)
    assert results.attempted > 0
    assert results.failed == 0


def test_labels_are_kept(people):
    X, y = people
    relabelled = outcomes(np.array([0, 3, 7])[y["event"]], y["duration"])
    for model in (AalenJohansen(), CauseSpecificCox()):
        model.fit(X, relabelled)
        assert model.event_ids_.tolist() == [0, 3, 7]
        assert_allclose(model.score(X, relabelled), clone(model).fit(X, y).score(X, y))


# ---------------------------------------------------------------------------------- AalenJohansen
def test_marginal_curves_equal_those_of_scikit_survival(people):
    from sksurv.nonparametric import cumulative_incidence_competing_risks

    X, y = people
    rounded = outcomes(y["event"], y["duration"].round(1))
    times, reference = cumulative_incidence_competing_risks(
        rounded["event"].copy(), rounded["duration"].copy()
    )
    found = AalenJohansen().fit(X, rounded).predict_cumulative_incidence(X[:1], times)
    assert_allclose(found[0, 1:], reference[1:], atol=1e-12)
    assert_allclose(found[0, 0], 1 - reference[0], atol=1e-12)


def test_one_cause_is_kaplan_meier(people):
    from lifelines import KaplanMeierFitter

    X, y = people
    y = outcomes(y["event"] > 0, y["duration"])
    weight = np.linspace(1, 2, 400)
    with pytest.warns(Warning, match="weights are not integers"):
        reference = KaplanMeierFitter().fit(y["duration"], y["event"], weights=weight)
    model = AalenJohansen().fit(X, y, sample_weight=weight)
    found = model.predict_survival_function(X[:1], TIMES)
    assert_allclose(found[0], reference.predict(TIMES), rtol=1e-10)


# -------------------------------------------------------------------------------- CauseSpecificCox
@given(
    baseline=hnp.arrays(np.float64, (6, 2), elements=st.floats(0, 2)),
    risk=hnp.arrays(np.float64, (3, 2), elements=st.floats(1e-3, 5)),
)
@settings(max_examples=40, deadline=None)
def test_hazards_combine_by_their_formulas(baseline, risk):
    found = _combined(baseline, risk)
    for i in range(3):
        survival, incidence = 1.0, np.zeros(2)
        assert_allclose(found[i, :, 0], [1, 0, 0])
        for u in range(6):
            hazard = baseline[u] * risk[i]
            if hazard.sum() > 0:
                incidence += survival * (1 - np.exp(-hazard.sum())) * hazard / hazard.sum()
            survival *= np.exp(-hazard.sum())
            assert_allclose(found[i, :, u + 1], [survival, *incidence], atol=1e-12)


def test_one_cause_is_the_cox_model_of_lifelines(people):
    from lifelines import CoxPHFitter

    X, y = people
    y = outcomes((y["event"] > 0).astype(int), y["duration"])
    frame = pd.DataFrame(X.astype(np.float32).astype(float), columns=["a", "b"])
    both = frame.assign(event=y["event"], duration=y["duration"])
    reference = CoxPHFitter().fit(both, "duration", "event")
    model = CauseSpecificCox(penalizer=0.0).fit(X, y)
    found = model.predict_survival_function(X, y["duration"][:20])
    expected = np.exp(-reference.predict_cumulative_hazard(frame, times=y["duration"][:20]))
    assert_allclose(found, expected.to_numpy().T, rtol=1e-10)


def test_cox_recovers_the_coefficients(people):
    model = CauseSpecificCox().fit(*people)
    assert_allclose(model.coefficients_, [[0.8, -0.4], [-0.3, 0.7]], atol=0.25)
    # The penalty is too small to matter where there is no need of it.
    without = CauseSpecificCox(penalizer=0.0).fit(*people)
    assert_allclose(model.coefficients_, without.coefficients_, rtol=2e-3)
    assert model.penalizers_.tolist() == [1e-4, 1e-4]


@pytest.mark.parametrize("kind", ["collinear", "separated", "hardly varies"])
def test_cox_is_there_on_difficult_tables(people, kind):
    X, y = people
    first = X[:, 0]
    columns = {
        "collinear": np.column_stack([first, 2 * first, first + X[:, 1], X[:, 1]]),
        "separated": np.column_stack([first, y["event"] == 1]),
        "hardly varies": np.column_stack([first, np.arange(400) == 7]),
    }
    model = CauseSpecificCox().fit(columns[kind], y)
    incidence = model.predict_cumulative_incidence(columns[kind], TIMES)
    assert np.isfinite(incidence).all()
    assert model.score(columns[kind], y) > AalenJohansen().fit(X, y).score(X, y)


def test_weights_count_people(people):
    X, y = people
    repeats = np.arange(400) % 3
    again = np.repeat(np.arange(400), repeats)
    weighted = CauseSpecificCox().fit(X, y, sample_weight=repeats)
    repeated = CauseSpecificCox().fit(X[again], y[again])
    # Repeated people are tied events; Efron's correction tells them from one person of weight 2.
    assert_allclose(weighted.predict_proba(X, 1.0), repeated.predict_proba(X, 1.0), atol=0.01)


def test_categories_and_constant_columns(people):
    X, y = people
    frame = pd.DataFrame({"a": X[:, 0], "one": 1.0})
    frame["group"] = pd.Categorical(np.array(["x", "y", "z"])[np.arange(400) % 3])
    model = CauseSpecificCox().fit(frame, y)
    by_hand = np.column_stack([X[:, 0], frame["group"] == "y", frame["group"] == "z"])
    expected = CauseSpecificCox().fit(by_hand, y).predict_proba(by_hand, 1.0)
    assert_allclose(model.predict_proba(frame, 1.0), expected, rtol=1e-8)


def test_errors_name_the_way_out(people, monkeypatch):
    X, y = people
    with pytest.raises(NotFittedError):
        CauseSpecificCox().predict_proba(X, 1.0)
    missing = X.copy()
    missing[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"Column 1 of `X` has missing values.*Impute"):
        CauseSpecificCox().fit(missing, y)
    with pytest.raises(ValueError, match="All columns of `X` are constant"):
        CauseSpecificCox().fit(np.ones((400, 2)), y)
    with pytest.raises(ValueError, match="`X` has 399 rows but `y` has 400"):
        AalenJohansen().fit(X[1:], y)
    with pytest.raises(ValueError, match="nothing to score"):
        AalenJohansen().fit(X, y).score(X[:2], ([1, 1], [0.0, 0.0]))
    monkeypatch.setitem(sys.modules, "lifelines", None)
    with pytest.raises(ImportError, match="pip install lifelines"):
        CauseSpecificCox().fit(X, y)


# -------------------------------------------------------------------------------------- late entry
COX = json.loads((Path(__file__).parent / "metrics/golden/cox.json").read_text())


def test_cox_with_late_entry_is_that_of_r():
    X = np.array(COX["x"])
    y = {name: np.array(COX[name]) for name in ("event", "duration", "entry")}
    model = CauseSpecificCox(penalizer=0.0).fit(X, y)
    for code, cause in enumerate(COX["causes"]):
        assert_allclose(model.coefficients_[:, code], cause["coefficients"], atol=1e-5)
        at = np.searchsorted(model.jumps_, cause["time"], side="right")
        shift = np.exp(model._offset[code])
        cumulative = np.append(0, np.cumsum(model.baseline_hazards_[:, code] * shift))[at]
        assert_allclose(cumulative, cause["hazard"], rtol=1e-4)


def test_baselines_with_late_entry_recover_the_truth_and_naive_ones_do_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1))
    rate = 0.7 * np.exp(0.5 * X[:, 0])
    time, entry = rng.exponential(1 / rate), rng.uniform(0, 1.5, 4000)
    kept = entry < time
    whole = {"event": np.ones(4000, int), "duration": time}
    late = {"event": np.ones(kept.sum(), int), "duration": time[kept], "entry": entry[kept]}
    naive = {name: late[name] for name in ("event", "duration")}
    for model in (AalenJohansen(), CauseSpecificCox()):
        curves = [
            clone(model).fit(features, y).predict_survival_function(X[:50], [0.5, 1.0, 2.0])
            for features, y in ((X, whole), (X[kept], late), (X[kept], naive))
        ]
        assert np.abs(curves[1] - curves[0]).max() < 0.06
        assert np.abs(curves[2] - curves[0]).max() > 0.15
    with pytest.raises(ValueError, match=r'make_survival_scorer\("likelihood"\)'):
        clone(model).fit(X[kept], late).score(X[kept], late)


def test_more_columns_than_a_regression_takes_are_refused_at_once():
    X = np.random.default_rng(0).normal(size=(60, 600))
    y = outcomes(np.arange(60) % 2, np.arange(1.0, 61))
    with pytest.raises(ValueError, match="takes at most 500 columns; `X` has 600"):
        CauseSpecificCox().fit(X, y)
    assert np.isfinite(AalenJohansen().fit(X, y).predict_survival_function(X, TIMES)).all()
