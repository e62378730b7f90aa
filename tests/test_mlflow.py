"""Models in MLflow, tested with the package itself."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost, SurvivalBoost
from survival_objectives import mlflow as survival_mlflow
from survival_objectives.datasets import make_competing_risks

with warnings.catch_warnings():
    # MLflow warns about its own type hints.
    warnings.simplefilter("ignore")
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("mlflow.pyfunc")

TIMES = [0.5, 2.0, 1.0]


@pytest.fixture(scope="module")
def people():
    data = make_competing_risks(300, n_causes=2, random_state=0)
    X = data.X.copy()
    X.iloc[::7, 0] = np.nan
    X.insert(1, "site", pd.Categorical(np.tile(["a", "b", "c"], 100)))
    return X, data.y


@pytest.fixture(scope="module", params=[HazardBoost, SurvivalBoost])
def model(request, people):
    return request.param("xgboost", n_estimators=10, random_state=0).fit(*people)


def files(folder):
    return {path.suffix for path in Path(folder).rglob("*") if path.is_file()}


def test_pyfunc_predicts_the_curves(model, people, tmp_path):
    X, _ = people
    survival_mlflow.save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    expected = model.predict_cumulative_incidence(X, TIMES)
    np.testing.assert_array_equal(loaded.predict(X, params={"times": TIMES}), expected)
    # Rows of a JSON request have text instead of a category.
    text = X.assign(site=X["site"].astype(object))
    np.testing.assert_array_equal(loaded.predict(text, params={"times": TIMES}), expected)
    np.testing.assert_array_equal(loaded.predict(X), model.predict_cumulative_incidence(X))
    whole = X.assign(x1=np.arange(len(X)), x2=None, site=None)
    unknown = pd.Categorical([np.nan] * len(X), ["a", "b", "c"])
    expected = model.predict_cumulative_incidence(whole.assign(x2=np.nan, site=unknown), TIMES)
    np.testing.assert_array_equal(loaded.predict(whole, params={"times": TIMES}), expected)
    assert not files(tmp_path / "saved") & {".pkl", ".pickle", ".joblib"}


def test_the_estimator_comes_back(model, people, tmp_path):
    X, _ = people
    survival_mlflow.save_model(model, tmp_path / "saved")
    loaded = survival_mlflow.load_model(str(tmp_path / "saved"))
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_signature_and_requirements_follow_from_the_model(model, people, tmp_path):
    X, _ = people
    survival_mlflow.save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    assert loaded.metadata.get_input_schema().input_names() == X.columns.tolist()
    (times,) = loaded.metadata.get_params_schema().params
    assert times.default == model.times_.tolist()
    needed = (tmp_path / "saved" / "requirements.txt").read_text()
    assert "survival-objectives==" in needed
    assert "xgboost==" in needed


def test_a_model_of_arrays(people, tmp_path):
    X, y = people
    values = X.drop(columns="site").to_numpy()
    model = HazardBoost("xgboost", n_estimators=5, random_state=0).fit(values, y)
    survival_mlflow.save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    expected = model.predict_cumulative_incidence(values, TIMES)
    np.testing.assert_array_equal(loaded.predict(values, params={"times": TIMES}), expected)


def test_log_model_in_a_run(model, people, tmp_path, monkeypatch):
    # Its default store, a database, needs the full mlflow package.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = survival_mlflow.log_model(model, name="curves")
    loaded = survival_mlflow.load_model(logged.model_uri)
    X, _ = people
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_the_scikit_learn_flavour_takes_a_pickle(model, people, tmp_path):
    sklearn_flavour = pytest.importorskip("mlflow.sklearn")
    sklearn_flavour.save_model(
        model, str(tmp_path / "saved"), serialization_format="cloudpickle", pip_requirements=[]
    )
    loaded = sklearn_flavour.load_model(str(tmp_path / "saved"))
    X, _ = people
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_an_example_of_the_user(model, people, tmp_path):
    X, _ = people
    survival_mlflow.save_model(model, tmp_path / "saved", input_example=X.head(2))
    assert len(mlflow.pyfunc.load_model(str(tmp_path / "saved")).input_example) == 2


def test_what_this_module_gives_mlflow_is_refused(model, tmp_path):
    with pytest.raises(TypeError, match="data_path"):
        survival_mlflow.save_model(model, tmp_path / "saved", data_path="elsewhere")
