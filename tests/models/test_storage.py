"""Saved models: the same after loading, without outcomes, and damage is noticed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives.datasets import make_competing_risks

METADATA = "model.json"


@pytest.fixture(scope="module")
def people():
    data = make_competing_risks(400, n_causes=2, n_features=3, random_state=0)
    X = data.X.assign(city=pd.Categorical(np.tile(["a", "b", "c", "d"], 100)))
    # An effect that no linear hazards have, so that there are trees.
    y = data.y.assign(duration=data.y["duration"] * np.where(X["x1"].abs() < 0.7, 20.0, 1.0))
    X.loc[::9, "x0"] = np.nan
    return X, y


@pytest.fixture(scope="module", params=["xgboost", "lightgbm", "catboost"])
def model(request, people):
    return HazardBoost(request.param, n_estimators=40, random_state=0, n_jobs=1).fit(*people)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_mixture_is_the_same_after_loading(model, saved, people):
    X, y = people
    loaded = load(saved)
    for name in ("member_weights_", "n_estimators_", "event_names_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.get_params() == model.get_params()
    for one in (model, loaded):
        assert one.predict_cumulative_incidence(X).shape == (400, 3, 101)
    assert_array_equal(
        loaded.predict_cumulative_incidence(X), model.predict_cumulative_incidence(X)
    )
    assert_array_equal(loaded.shap_values(X, 1.0), model.shap_values(X, 1.0))
    assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert_array_equal(loaded.n_events_, model.n_events_)
    assert loaded.score(X, y) == model.score(X, y)


def test_no_outcome_of_a_person_is_in_the_files(model, saved, people):
    durations = people[1]["duration"].to_numpy()
    for file in saved.iterdir():
        content = file.read_bytes()
        for duration in durations:
            assert repr(float(duration)).encode() not in content
            assert np.float64(duration).tobytes() not in content
            assert np.float32(duration).tobytes() not in content or file.suffix != ".json"


def test_damage_is_noticed(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "other")
    content = json.loads((saved / METADATA).read_text())
    (saved / METADATA).write_text(json.dumps({**content, "t_max": content["t_max"] + 1}))
    with pytest.raises(ValueError, match="not as it was saved"):
        load(saved)
    trees = next(file for file in (tmp_path / "other").iterdir() if file.suffix != ".json")
    trees.write_bytes(trees.read_bytes()[:-5])
    with pytest.raises(ValueError, match="is not the one that was saved"):
        load(tmp_path / "other")
    trees.unlink()
    with pytest.raises(ValueError, match="is missing"):
        load(tmp_path / "other")


def test_load_gives_whichever_was_saved(people, tmp_path):
    for kind, other in ((HazardBoost, SurvivalBoost), (SurvivalBoost, HazardBoost)):
        model = kind(n_estimators=2, random_state=np.int64(0), n_jobs=1).fit(*people)
        folder = tmp_path / kind.__name__
        model.save(folder)
        for found in (load(folder), kind.load(folder)):
            assert type(found) is kind
            assert found.get_params() == model.get_params()
            assert_array_equal(found.predict(people[0]), model.predict(people[0]))
        with pytest.raises(ValueError, match=r"`survival_objectives\.load` returns whichever"):
            other.load(folder)
