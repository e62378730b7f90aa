"""The estimator among scikit-learn's tools: its own checks, pipelines, searches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, mixed_columns, simulated
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from survival_objectives import HazardBoost, SurvivalBoost, outcomes_frame
from survival_objectives.metrics import make_survival_scorer


class OneColumn:
    """An estimator on the checks' outcomes: one number per person, taken as an event time."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, _outcomes(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, _outcomes(y))


class OneColumnHazards(OneColumn, HazardBoost):
    pass


class OneColumnHorizons(OneColumn, SurvivalBoost):
    pass


def _outcomes(y):
    if y is None:
        msg = "requires y to be passed, but the target y is None"
        raise ValueError(msg)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "biufO":
        return y
    y = y.astype(np.float64)
    if np.isfinite(y).all() and len(y):
        y = 1 + y - y.min()
    return np.ones(len(y)), y


REPEATED = {
    OneColumnHazards: "weights are relative: more rows mean more people, for penalties and folds",
    OneColumnHorizons: "a repeated person is seen at horizons of their own, so equal on average",
}
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "as in REPEATED",
    "check_sample_weight_equivalence_on_sparse_data": "as on dense data",
    # Sparse input itself is tested in test_frames.py.
    "check_estimator_sparse_array": "takes any estimator with `predict_proba` for a classifier",
    "check_estimator_sparse_matrix": "takes any estimator with `predict_proba` for a classifier",
}


@pytest.mark.filterwarnings("ignore:No one is censored")
@pytest.mark.filterwarnings("ignore:No split on a feature was worth its gain")
@parametrize_with_checks(
    [
        kind(engine, n_estimators=2, n_jobs=1, random_state=0)
        for engine in ("lightgbm", "xgboost", "catboost")
        for kind in (OneColumnHazards, OneColumnHorizons)
    ],
    expected_failed_checks=lambda estimator: {
        **EXPECTED_FAILURES,
        "check_sample_weight_equivalence_on_dense_data": REPEATED[type(estimator)],
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_expected_failures_are_few():
    assert len(EXPECTED_FAILURES) <= 4


# -------------------------------------------------------------------------- attributes and state
def test_unfitted_models_say_so(engine, data, tmp_path):
    model = boost(engine)
    for ask in (
        lambda: model.predict(data.X),
        lambda: model.predict_cumulative_incidence(data.X),
        lambda: model.predict_survival_function(data.X),
        lambda: model.predict_proba(data.X, 1.0),
        lambda: model.predict_quantile(data.X),
        lambda: model.predict_restricted_mean_time(data.X),
        lambda: model.shap_values(data.X, 1.0),
        lambda: model.importance(data.X),
        lambda: model.partial_dependence(data.X, "x0"),
        lambda: model.predict_cumulative_hazard_function(data.X),
        lambda: model.score(data.X, data.y),
        lambda: model.save(tmp_path / "model"),
        lambda: model.feature_importances_,
    ):
        with pytest.raises(NotFittedError):
            ask()


def test_fit_changes_neither_parameters_nor_data(engine):
    X, y = mixed_columns(simulated(150))
    X_before, y_before = X.copy(), y.copy()
    params: dict[str, object] = {}
    weight = np.ones(150)
    model = boost(engine, engine_params=params, early_stopping_rounds=3)
    before = dict(model.get_params())
    model.fit(X, y, sample_weight=weight)
    model.predict(X)
    model.shap_values(X, 1.0)
    assert model.get_params() == before
    assert model.engine_params is params
    assert params == {}
    pd.testing.assert_frame_equal(X, X_before)
    pd.testing.assert_frame_equal(y, y_before)
    assert_array_equal(weight, 1.0)


def test_names_are_forgotten_by_a_fit_on_an_array(data):
    model = boost("lightgbm").fit(data.X, data.y)
    assert list(model.feature_names_in_) == list(data.X.columns)
    model.fit(data.X.to_numpy(), data.y)
    assert not hasattr(model, "feature_names_in_")


def test_set_params_and_clone(data):
    model = boost("xgboost").set_params(engine="lightgbm", n_estimators=3)
    copy = clone(model.fit(data.X, data.y))
    assert copy.get_params() == model.get_params()
    assert_array_equal(copy.fit(data.X, data.y).predict(data.X), model.predict(data.X))
    assert "n_estimators=3" in repr(copy)


# ---------------------------------------------------------------------------- pipelines, searches
def test_pipeline_reaches_the_curves(engine, data):
    """The documented way: transform with all steps but the last, then ask the last."""
    pipeline = make_pipeline(StandardScaler(), boost(engine)).fit(data.X, data.y)
    assert pipeline.predict(data.X).shape == (300,)
    assert isinstance(pipeline.score(data.X, data.y), float)
    # `predict_proba` is scikit-learn's own name, and takes the horizon along.
    assert pipeline.predict_proba(data.X, time_horizon=1.0).shape == (300, 3)
    survival = pipeline[-1].predict_survival_function(pipeline[:-1].transform(data.X), [1.0])
    assert_array_equal(survival[:, 0], pipeline.predict_proba(data.X, time_horizon=1.0)[:, 0])


def test_pipeline_passes_weights_and_frames(data):
    pipeline = Pipeline([("scale", StandardScaler()), ("model", boost("lightgbm"))])
    pipeline.set_output(transform="pandas")
    weight = np.random.default_rng(0).random(300)
    pipeline.fit(data.X, data.y, model__sample_weight=weight)
    assert list(pipeline[-1].feature_names_in_) == list(data.X.columns)
    with pytest.raises(ValueError, match="another order"):
        pipeline[-1].predict(data.X[data.X.columns[::-1]])


def test_column_transformer_keeps_categories(engine, mixed):
    X, y = mixed
    numbers = ["x0", "x1", "x2", "x3"]
    columns = ColumnTransformer(
        [("numbers", SimpleImputer(), numbers)],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, boost(engine)).fit(X, y)
    assert list(pipeline[-1].feature_names_in_) == [*numbers, "city", "sex"]
    assert sorted(pipeline[-1]._schema.categories) == [4, 5]
    assert np.isfinite(pipeline.predict(X)).all()


# At fixed times, because an early fold may have no pair of people to compare at an early time.
brier = make_survival_scorer("brier")
rank = make_survival_scorer("concordance", times=[1.0, 2.0])


@pytest.mark.parametrize("scoring", [brier, rank, None])
def test_grid_search(scoring, data):
    search = GridSearchCV(
        boost("lightgbm"),
        {"n_estimators": [1, 30], "max_depth": np.array([2, 3])},
        scoring=scoring,
        cv=KFold(3, shuffle=True, random_state=0),
    ).fit(data.X, data.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    scores = search.cv_results_["mean_test_score"]
    assert search.best_params_ == search.cv_results_["params"][int(np.argmax(scores))]
    assert len(np.unique(scores)) == 4
    assert search.best_estimator_.predict_survival_function(data.X).shape == (300, 101)


def test_search_over_a_pipeline(data):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), boost("lightgbm")),
        {"survivalboost__learning_rate": [0.01, 0.1]},
        cv=3,
    ).fit(data.X, data.y)
    scores = dict(zip([0.01, 0.1], search.cv_results_["mean_test_score"], strict=True))
    assert search.best_params_ == {"survivalboost__learning_rate": max(scores, key=scores.get)}
    assert len(set(scores.values())) == 2


def test_cross_validation(engine, data):
    scores = cross_val_score(boost(engine), data.X, data.y, scoring=brier, cv=3)
    assert ((scores < -0.05) & (scores > -0.3)).all()
    result = cross_validate(boost(engine), data.X, data.y, cv=3, return_estimator=True)
    assert len(result["estimator"]) == 3
    assert np.isfinite(result["test_score"]).all()


def test_outcomes_as_a_pair_or_dict_become_a_frame(data):
    event, duration = data.y["event"].to_numpy(), data.y["duration"].to_numpy()
    expected = cross_val_score(boost("lightgbm"), data.X, data.y, cv=3)
    for y in ((event, duration), {"event": event, "duration": duration}):
        frame = outcomes_frame(y)
        assert_array_equal(cross_val_score(boost("lightgbm"), data.X, frame, cv=3), expected)
    assert outcomes_frame(data.y[5:9]).index.tolist() == [5, 6, 7, 8]


def test_scorers_and_searches_over_pipelines(engine, data):
    """The search that scored NaN: a pipeline has no curves of its own."""
    search = GridSearchCV(
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), boost(engine))),
        {"pipeline__survivalboost__n_estimators": [1, 30]},
        scoring=brier,
        cv=KFold(3, shuffle=True, random_state=0),
    ).fit(data.X, data.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 2
    assert -0.3 < brier(search, data.X, data.y) < -0.05


def test_permutation_importance(data):
    model = boost("lightgbm").fit(data.X, data.y)
    result = permutation_importance(
        model, data.X, data.y, scoring=brier, n_repeats=2, random_state=0
    )
    assert result.importances_mean.shape == (4,)
    assert result.importances_mean.max() > 0


def test_in_parallel_workers(data):
    """Models travel to other processes."""
    scores = [
        cross_val_score(boost("lightgbm"), data.X, data.y, cv=2, n_jobs=n_jobs)
        for n_jobs in (None, 2)
    ]
    assert_array_equal(*scores)
