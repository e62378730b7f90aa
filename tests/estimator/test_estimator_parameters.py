"""Parameters of both estimators: checked once, every one has an effect or is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from estimator_data import simulated

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives._engines.protocol import ENGINES, engine
from survival_objectives._hazards.settings import DEFAULTS, HazardSettings
from survival_objectives._horizons.settings import DEFAULTS as HORIZON_DEFAULTS
from survival_objectives._horizons.settings import HorizonSettings

KINDS = ((HazardBoost, HazardSettings), (SurvivalBoost, HorizonSettings))


@pytest.fixture(scope="module")
def data():
    return simulated(200)


def defaults(kind):
    return {name: one.default for name, one in inspect.signature(kind).parameters.items()}


def test_tables_have_the_defaults_of_the_constructors():
    assert defaults(HazardBoost) == DEFAULTS
    assert {name: defaults(SurvivalBoost)[name] for name in HORIZON_DEFAULTS} == HORIZON_DEFAULTS
    for kind, settings in KINDS:
        name, default = settings.holds_out
        assert defaults(kind)[name] == default


def test_both_fit_as_the_contract_says():
    columns = ["duration", "event", "censored", "entry", "id", "start", "stop"]
    for kind in (HazardBoost, SurvivalBoost):
        parameters = inspect.signature(kind.fit).parameters
        assert list(parameters)[:4] == ["self", "X", "y", "sample_weight"]
        names = {"groups", "eval_set", "eval_X", "eval_y", "callbacks", *columns}
        assert {n for n, one in parameters.items() if one.kind.name == "KEYWORD_ONLY"} == names


def changed(kind):
    """Another value of every parameter but those that only say how a training runs."""
    shared = {
        "n_estimators": 7,
        "learning_rate": 0.31,
        "max_depth": 2,
        "early_stopping_rounds": 3,
        "min_leaf_people": 3.5,
        "min_split_gain": 0.5,
        "max_features": 0.25,
        "horizon_max": 1.5,
        "n_jobs": 2,
        "verbose": 1,
        "engine_params": {"max_depth": 3},
    }
    if kind is HazardBoost:
        return {**shared, "linear": False, "n_folds": 3, "n_repeats": 2, "rows_per_person": 5}
    return {
        **shared,
        "n_horizons": 2,
        "horizon_sampler": "uniform",
        "refresh_every": 3,
        "censoring": "kaplan-meier",
        "completion": "hazards",
        "monotone": False,
        "time_smoothing": 0.1,
        "min_censoring_survival": 0.2,
    }


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_every_parameter_reaches_the_settings(kind, settings):
    """Trees are compared by their settings, which a function makes."""

    def plain(**parameters):
        found = settings.of(kind(**parameters).get_params(), engine("xgboost"))
        facts = {name: value for name, value in vars(found).items() if name != "trees"}
        return {**facts, "trees": found.trees.keywords}

    usual, values = plain(), changed(kind)
    for name, value in values.items():
        assert plain(**{name: value}) != usual, name
    runs = {"engine", "warm_start", "random_state", "validation_fraction"}
    assert set(kind().get_params()) - set(values) <= runs


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_what_an_engine_lacks_is_refused(name, kind, settings):
    pytest.importorskip(name)
    for parameter in ("min_leaf_people", "min_split_gain"):
        model = kind(name, **{parameter: 1.0})
        if parameter in engine(name).lacks:
            with pytest.raises(ValueError, match=rf"`{parameter}` is 1.0, but {name} has no such"):
                model.fit([[0.0]], ([1], [1.0]))
        else:
            settings.of(model.get_params(), engine(name))
    assert engine("catboost").lacks == ("min_leaf_people", "min_split_gain")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"monotone": False, "time_smoothing": 0.1}, "`time_smoothing` is 0.1, but has no effect"),
        ({"validation_fraction": 0.2}, "`validation_fraction` is 0.2, .* `early_stopping_rounds`"),
        ({"completion": "hazards", "censoring": "imputed"}, "`censoring` is 'imputed', but has no"),
        (
            {"censoring": "hazards"},
            "'hazards'; hazards are trained by `HazardBoost`",
        ),
        ({"censoring": "auto"}, "trained by `HazardBoost`"),
    ],
)
def test_what_has_no_effect_is_refused(data, parameters, words):
    with pytest.raises(ValueError, match=words):
        SurvivalBoost(**parameters).fit(data.X, data.y)


def test_what_held_out_people_replace_is_refused(data):
    held_out = data.X[:80], data.y[:80]
    for model, words in (
        (HazardBoost(n_folds=3), "`n_folds` is 3, but has no effect beside `eval_set`"),
        (SurvivalBoost(early_stopping_rounds=2, validation_fraction=0.3), "`validation_fraction`"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(data.X[80:], data.y[80:], eval_set=held_out)


def test_a_failed_fit_leaves_the_model_as_it_was(data):
    model = HazardBoost(n_estimators=5, random_state=0, n_jobs=1).fit(data.X, data.y)
    before = model.predict(data.X)
    with pytest.raises(ValueError, match="too few for `n_folds=40`"):
        model.set_params(n_folds=40).fit(data.X[:30], data.y[:30])
    np.testing.assert_array_equal(model.predict(data.X), before)
