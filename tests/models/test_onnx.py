"""ONNX files answer what `predict_cumulative_incidence` answers."""

import json

import numpy as np
import pandas as pd
import pytest

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._models.onnx import curves as onnx_curves
from survival_objectives.datasets import make_competing_risks

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ENGINES = ("xgboost", "lightgbm", "catboost")
METHODS = {
    "hazards": (HazardBoost, {}),
    "boosted": (SurvivalBoost, {"censoring": "boosted"}),
    "kaplan-meier": (SurvivalBoost, {"censoring": "kaplan-meier"}),
    "imputed": (SurvivalBoost, {"censoring": "imputed"}),
    "steps": (SurvivalBoost, {"censoring": "kaplan-meier", "time_smoothing": 0.0}),
    "free": (SurvivalBoost, {"censoring": "kaplan-meier", "monotone": False}),
}
LEVELS = list("abcdef")


def people(n_samples=400, n_causes=2, *, categories=False, days=False, seed=0):
    data = make_competing_risks(n_samples, n_causes=n_causes, random_state=seed)
    X, y = data.X.copy(), data.y.copy()
    generator = np.random.default_rng(seed)
    X.iloc[::7, 0] = np.nan
    if categories:
        codes = generator.integers(len(LEVELS), size=n_samples)
        # A level with an effect, so that trees split on it.
        X.iloc[:, 1] = np.where(codes == 2, 0.0, X.iloc[:, 1])
        y["duration"] *= np.where(codes == 2, 0.2, 1.0)
        X.insert(1, "site", pd.Categorical.from_codes(codes, LEVELS))
        X.loc[X.index[::11], "site"] = np.nan
    if days:
        y["duration"] = np.ceil(10 * y["duration"])
    return X, y


def fitted(engine, method, X, y, **options):
    estimator, own = METHODS[method]
    n_estimators = 30 if method == "hazards" else 12
    model = estimator(engine, n_estimators=n_estimators, random_state=0, **own, **options)
    return model.fit(X, y)


def difficult(X):
    """People with extreme and missing values besides those of training."""
    far = X.head(8).copy()
    numbers = [name for name in X if X[name].dtype.kind == "f"]
    for row, value in enumerate([1e30, -1e30, 0.0, -0.0, 1e-38, 3.4e38, np.nan, 16777217.0]):
        far.iloc[row, [X.columns.get_loc(name) for name in numbers]] = value
    unknown = X.head(1).copy()
    unknown.iloc[0, :] = np.nan
    return pd.concat([X.head(120), far, unknown])


def coded(X):
    return X.apply(
        lambda column: (
            column.cat.codes.replace(-1, np.nan) if column.dtype == "category" else column
        )
    ).to_numpy(np.float32)


def answered(path, **given):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, given)
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("days", [False, True])
def test_curves_are_those_of_the_model(engine, method, days, tmp_path):
    X, y = people(categories=True, days=days)
    model = fitted(engine, method, X, y)
    last = float(y["duration"].max())
    times = np.concatenate([[0.0, 1e-9], np.linspace(0, last, 23), [2 * last, 1e9], [last / 2]])
    model.to_onnx(tmp_path / "model.onnx")
    asked = difficult(X)
    found = answered(tmp_path / "model.onnx", features=coded(asked), times=times)
    expected = model.predict_cumulative_incidence(asked, times)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    # The comparison would be empty if all people were alike.
    assert np.ptp(expected[:, 0], axis=0).max() > 0.05


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["hazards", "kaplan-meier"])
@pytest.mark.parametrize("n_causes", [1, 3])
def test_a_fixed_grid_and_any_number_of_causes(engine, method, n_causes, tmp_path):
    X, y = people(n_causes=n_causes)
    model = fitted(engine, method, X, y)
    times = [0.5, 0.0, 2.0]
    model.to_onnx(tmp_path / "model.onnx", times=times)
    found = answered(tmp_path / "model.onnx", features=X.to_numpy(np.float32))
    expected = model.predict_cumulative_incidence(X, times)
    assert found.shape == (len(X), n_causes + 1, 3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_values_at_thresholds_take_the_branch_of_the_engine(engine, tmp_path):
    X, y = people()
    # Few distinct values: borders fall on them, or one rounding away.
    X = (X * 4).round() / 10
    model = fitted(engine, "kaplan-meier", X, y)
    times = np.linspace(0, 2, 9)
    model.to_onnx(tmp_path / "model.onnx", times=times)
    found = answered(tmp_path / "model.onnx", features=X.to_numpy(np.float32))
    expected = model.predict_cumulative_incidence(X, times)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["hazards", "kaplan-meier"])
def test_text_categories(engine, method, tmp_path):
    X, y = people(categories=True)
    model = fitted(engine, method, X, y)
    model.to_onnx(tmp_path / "model.onnx", times=[1.0], categories="text")
    text = X[["site"]].astype(object).where(X[["site"]].notna(), "").to_numpy()
    numbers = X.drop(columns="site").to_numpy(np.float32)
    found = answered(tmp_path / "model.onnx", features=numbers, categories=text)
    expected = model.predict_cumulative_incidence(X, [1.0])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_unknown_levels_are_missing(tmp_path):
    X, y = people(categories=True)
    model = fitted("xgboost", "hazards", X, y)
    model.to_onnx(tmp_path / "codes.onnx", times=[1.0])
    model.to_onnx(tmp_path / "text.onnx", times=[1.0], categories="text")
    values = np.repeat(coded(X)[2:3], 5, axis=0)
    values[:, 1] = [np.nan, 6.0, -1.0, 0.5, 1e9]
    found = answered(tmp_path / "codes.onnx", features=values)
    np.testing.assert_array_equal(found, np.repeat(found[:1], 5, axis=0))
    text = np.array([["elsewhere"]] * 5, dtype=object)
    numbers = np.ascontiguousarray(np.delete(values, 1, axis=1))
    in_text = answered(tmp_path / "text.onnx", features=numbers, categories=text)
    np.testing.assert_array_equal(in_text, found)


def test_only_categories(tmp_path):
    X, y = people(categories=True)
    X = X[["site"]]
    model = fitted("lightgbm", "hazards", X, y)
    model.to_onnx(tmp_path / "model.onnx", times=[1.0], categories="text")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [given.name for given in session.get_inputs()] == ["categories"]


def test_zero_as_missing(tmp_path):
    X, y = people()
    X[X.abs() < 0.3] = 0.0
    model = fitted("lightgbm", "kaplan-meier", X, y, engine_params={"zero_as_missing": True})
    times = np.linspace(0, 2, 9)
    model.to_onnx(tmp_path / "model.onnx", times=times)
    found = answered(tmp_path / "model.onnx", features=X.to_numpy(np.float32))
    expected = model.predict_cumulative_incidence(X, times)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


def test_metadata_name_columns_levels_and_states(tmp_path):
    X, y = people(categories=True)
    model = fitted("xgboost", "hazards", X, y)
    model.to_onnx(tmp_path / "model.onnx", times=[1.0, 2.0])
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    content = {name: json.loads(value) for name, value in metadata.items()}
    assert content == {
        "columns": X.columns.tolist(),
        "categories": {"site": LEVELS},
        "event_ids": [0, 1, 2],
        "event_names": ["event-free", "cause 1", "cause 2"],
        "times": [1.0, 2.0],
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loaded_model_is_exported_alike(engine, tmp_path):
    X, y = people(categories=True)
    model = fitted(engine, "hazards", X, y)
    model.save(tmp_path / "saved")
    load(tmp_path / "saved").to_onnx(tmp_path / "loaded.onnx", times=[1.0])
    model.to_onnx(tmp_path / "model.onnx", times=[1.0])
    first, second = ((tmp_path / f"{name}.onnx").read_bytes() for name in ("model", "loaded"))
    assert first == second


def test_a_model_without_trees(tmp_path):
    X, y = people()
    model = fitted("xgboost", "hazards", X * 0.0, y)
    model.to_onnx(tmp_path / "model.onnx", times=[1.0])
    found = answered(tmp_path / "model.onnx", features=X.to_numpy(np.float32))
    expected = model.predict_cumulative_incidence(X, [1.0])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


# ---------------------------------------------------------------------------------------- refusals
def test_a_file_that_exists_is_not_overwritten(tmp_path):
    X, y = people()
    model = fitted("xgboost", "kaplan-meier", X, y)
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(FileExistsError, match=r"model\.onnx"):
        model.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "mine"


def test_encoded_categories_are_refused_by_name(tmp_path):
    X, y = people(1200)
    # Frequent levels differ from rare ones: CatBoost counts levels.
    codes = np.append(np.arange(300), np.arange(900) % 100)
    y["duration"] *= np.where(codes < 100, 0.1, 1.0)
    X["postcode"] = pd.Categorical([f"p{code}" for code in codes])
    model = fitted("catboost", "kaplan-meier", X, y)
    with pytest.raises(ValueError, match=r"postcode.*255 levels"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    X, y = people()
    model = fitted("xgboost", "kaplan-meier", X, y)
    right = onnx_curves.forest_margins

    def wrong(graph, *arguments):
        return graph.op("Add", right(graph, *arguments), graph.constant(1e-3))

    monkeypatch.setattr(onnx_curves, "forest_margins", wrong)
    with pytest.raises(RuntimeError, match="differ by up to"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"times": [-1.0]}, ValueError, "times"),
        ({"categories": "levels"}, ValueError, "categories"),
    ],
)
def test_mistakes_name_the_argument(given, error, words, tmp_path):
    X, y = people()
    model = fitted("xgboost", "kaplan-meier", X, y)
    with pytest.raises(error, match=words):
        model.to_onnx(tmp_path / "model.onnx", **given)


def test_levels_that_look_the_same_are_refused_as_text(tmp_path):
    X, y = people()
    X["dose"] = pd.Categorical.from_codes((X.iloc[:, 2] > 0).astype(int), [1, "1"])
    model = fitted("xgboost", "kaplan-meier", X, y)
    with pytest.raises(ValueError, match="dose"):
        model.to_onnx(tmp_path / "model.onnx", categories="text")


def test_an_empty_level_is_refused_as_text(tmp_path):
    """An empty text means missing in the graph."""
    X, y = people(200, 1)
    X["ward"] = pd.Categorical(np.where(X.iloc[:, 1] > 0, "", "b"))
    model = fitted("xgboost", "kaplan-meier", X, y)
    with pytest.raises(ValueError, match="ward has the level '', which means missing"):
        model.to_onnx(tmp_path / "m.onnx", categories="text")
    model.to_onnx(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").exists()
