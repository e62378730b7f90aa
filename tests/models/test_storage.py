"""Saved models: earlier formats, mixtures of hazards, and what a description may not say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import SurvivalBoost
from survival_objectives._models import storage as files
from survival_objectives.datasets import make_competing_risks

GOLDEN = Path(__file__).parents[1] / "golden_models"
METADATA = "survival_boost.json"


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
    return SurvivalBoost(request.param, n_estimators=40, random_state=0, n_jobs=1).fit(*people)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def changed(folder, change):
    """The folder with another description, whose digest is right."""
    content = json.loads((folder / METADATA).read_text())
    change(content)
    content["digest"] = files._content_digest(content)
    (folder / METADATA).write_text(json.dumps(content))


@pytest.mark.parametrize("engine", ["xgboost", "lightgbm", "catboost"])
def test_models_of_format_2_still_load(engine, tmp_path):
    content = json.loads((GOLDEN / "predictions.json").read_text())
    people = pd.DataFrame(content["people"])
    people["city"] = pd.Categorical(people["city"])
    assert json.loads((GOLDEN / "format_2" / engine / METADATA).read_text())["format"] == 2
    model = SurvivalBoost.load(GOLDEN / "format_2" / engine)
    expected = np.array(content["incidence"][f"format_2/{engine}"])
    found = model.predict_cumulative_incidence(people, content["times"])
    assert_allclose(found, expected, atol=1e-6)
    assert model.censoring_method_ == "boosted"
    assert "did not say why" in model.censoring_reason_
    model.save(tmp_path / "model")
    again = SurvivalBoost.load(tmp_path / "model")
    assert_array_equal(again.predict_cumulative_incidence(people, content["times"]), found)
    assert json.loads((tmp_path / "model" / METADATA).read_text())["format"] == files.FORMAT == 3


def test_a_mixture_is_the_same_after_loading(model, saved, people):
    X, y = people
    loaded = SurvivalBoost.load(saved)
    assert loaded.censoring_method_ == "hazards"
    for name in ("member_weights_", "n_estimators_", "censoring_reason_", "event_names_"):
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


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(weights={"forest": 1.0}),
        lambda content: content.update(weights={}),
        lambda content: content["weights"].update(linear=1.5),
        lambda content: content.update(n_folds=-1),
        lambda content: content.update(n_folds=40),
        lambda content: content.update(curves=None),
        lambda content: content["curves"]["knots"].reverse(),
        lambda content: content.update(importance=[0.5]),
        lambda content: content.update(importance=[-0.5] * 4),
        lambda content: content["models"].pop("linear_all"),
        lambda content: content["models"]["linear_all"]["level"].pop(),
        lambda content: content["models"]["linear_all"].update(coefficients=[[1.0]]),
        lambda content: content["design"].update(scale=[0.0] * len(content["design"]["scale"])),
        lambda content: content["design"].update(feature=[9] * len(content["design"]["scale"])),
        lambda content: content["design"].update(kind=[-3] * len(content["design"]["scale"])),
        lambda content: content["design"].update(mean="none"),
        lambda content: content.update(n_events=[1, 2]),
        lambda content: content.update(censoring_reason=3),
        lambda content: content.update(censoring_method="guessed"),
        lambda content: content.update(censoring_method="boosted"),
        lambda content: content["files"].update({"../secret": "0"}),
        lambda content: content["parameters"].update(n_folds=1),
        lambda content: content["parameters"].update(censoring="guessed"),
    ],
)
def test_descriptions_that_no_save_writes_are_refused(saved, change):
    changed(saved, change)
    with pytest.raises(ValueError, match="is damaged"):
        SurvivalBoost.load(saved)


def test_damage_is_noticed(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "other")
    content = json.loads((saved / METADATA).read_text())
    (saved / METADATA).write_text(json.dumps({**content, "t_max": content["t_max"] + 1}))
    with pytest.raises(ValueError, match="not as it was saved"):
        SurvivalBoost.load(saved)
    trees = next(file for file in (tmp_path / "other").iterdir() if file.suffix != ".json")
    trees.write_bytes(trees.read_bytes()[:-5])
    with pytest.raises(ValueError, match="is not the one that was saved"):
        SurvivalBoost.load(tmp_path / "other")
    trees.unlink()
    with pytest.raises(ValueError, match="is missing"):
        SurvivalBoost.load(tmp_path / "other")


def test_a_mixture_is_loaded_in_a_process_of_its_own(people, tmp_path):
    model = SurvivalBoost(n_estimators=5, random_state=0, n_jobs=1).fit(*people)
    model.save(tmp_path / "model")
    loaded = SurvivalBoost.load(tmp_path / "model", isolated=True)
    assert_array_equal(loaded.predict(people[0]), model.predict(people[0]))
