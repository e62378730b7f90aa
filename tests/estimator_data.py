"""People and small models that the tests of the estimator share."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from survival_objectives import HazardBoost, SurvivalBoost, _training
from survival_objectives._engines.protocol import engine as engine_named
from survival_objectives._horizons.settings import HorizonSettings
from survival_objectives._models.curves import StepCurves
from survival_objectives._people import check_features
from survival_objectives.datasets import make_competing_risks
from survival_objectives.stacking import stacked_matrix

ENGINES = ("lightgbm", "xgboost", "catboost")
_NOT_OF_CATBOOST = ("min_leaf_people", "min_split_gain")


def fitted_attributes(model):
    """Names of the public attributes that a fitted model has."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    return {name for name in names if hasattr(model, name)}


def boost(engine, **parameters):
    """A model that trains in a tenth of a second, the same on every machine.

    It is of the paper, or of hazards for ``censoring="hazards"``. What CatBoost has no setting for
    is left out there.
    """
    settings = {"n_estimators": 20, "n_jobs": 1, "random_state": 0, **parameters}
    if engine == "catboost":
        settings = {name: settings[name] for name in settings if name not in _NOT_OF_CATBOOST}
    if settings.get("censoring") == "hazards":
        del settings["censoring"]
        return HazardBoost(engine, **settings)
    return SurvivalBoost(engine, **settings)


def hazards(engine="xgboost", **parameters):
    """A small model of hazards."""
    return boost(engine, censoring="hazards", **parameters)


def with_checkpoints(patch, checkpoints):
    """Let estimators train with these checkpoints, as on a cluster."""
    as_usual = _training.trained

    def trained(settings, run, *arguments, **options):
        run = replace(run, checkpoints=checkpoints)
        return as_usual(settings, run, *arguments, **options)

    patch.setattr(_training, "trained", trained)


def simulated(n_samples=300, **options):
    return make_competing_risks(
        n_samples, **{"n_causes": 2, "n_features": 4, "random_state": 0, **options}
    )


def mixed_columns(data, seed=0):
    """Features with missing values and categories that matter; returns (X, y)."""
    rng = np.random.default_rng(seed)
    n_samples = len(data.X)
    X = data.X.copy()
    X.loc[rng.random(n_samples) < 0.3, "x0"] = np.nan
    X["city"] = pd.Categorical(rng.choice(list("abcdefg"), n_samples))
    X["sex"] = pd.Categorical(rng.choice(["f", "m"], n_samples))
    slow = X["city"].isin(["a", "c", "e"]).to_numpy()
    X.loc[rng.random(n_samples) < 0.1, "city"] = np.nan
    y = data.y.copy()
    y["duration"] *= np.where(slow, 3.0, 1.0)
    return X, y


def tree_settings(model, schema, n_causes):
    """Settings of a model's trees on stacked rows."""
    settings = HorizonSettings.of(model.get_params(), engine_named(model.engine))
    return settings.trees(schema=schema, n_causes=n_causes, seed=0, n_jobs=settings.n_jobs)


def with_steps(model):
    """The model with the steps of its trees as curves."""
    stepped = copy.copy(model)
    fitted = model.fitted_model
    stepped._model = replace(fitted, curves=StepCurves(fitted.frame.axis))
    return stepped


def engine_margins(model, X, times):
    """Margins by the engine's own predict, one pass per time, (n_samples, n_times, n_margins)."""
    features = check_features(X, like=model._schema)
    person = np.repeat(np.arange(features.n_samples), len(times))
    feature = np.tile(np.asarray(times, np.float32), features.n_samples)
    margin = model._model.trees.sum_of_trees(
        stacked_matrix(features, person, feature), 0, model.n_estimators_
    )
    margin = np.asarray(margin, np.float64) + model._model.start(feature)
    return margin.reshape(features.n_samples, len(times), -1)


def same_booster(model, other):
    """Whether two models hold the same trees, bit for bit."""
    return _raw(model) == _raw(other)


def _raw(model):
    if model.engine_ == "xgboost":
        return bytes(model.booster_.save_raw("json"))
    if model.engine_ == "lightgbm":
        return model.booster_.model_to_string()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.booster_.save_model(str(path), format="json")
        return json.loads(path.read_text())["oblivious_trees"]
