"""Saved models: the same to the last bit, no pickle, no outcomes, clear errors."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pandas as pd
import pytest
from estimator_data import boost, same_booster
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from survival_objectives import HazardBoost, SurvivalBoost, load
from survival_objectives._engines import protocol as registry
from survival_objectives._models import storage as files
from survival_objectives._process import files as process_files

METADATA = "model.json"


def assert_same_predictions(model, other, X):
    assert_array_equal(other.predict_cumulative_incidence(X), model.predict_cumulative_incidence(X))
    assert_array_equal(other.predict_quantile(X), model.predict_quantile(X))
    times = np.linspace(0.1, 3, len(X))
    for left in (False, True):
        assert_array_equal(
            other.censoring_.survival(times, X, left=left),
            model.censoring_.survival(times, X, left=left),
        )
    assert_array_equal(other.feature_importances_, model.feature_importances_)
    assert_array_equal(other.shap_values(X[:5], 1.0), model.shap_values(X[:5], 1.0))


@pytest.mark.parametrize("columns", ["numbers", "mixed"])
def test_round_trip_to_the_last_bit(engine, columns, fitted, data, mixed, tmp_path):
    X, y = mixed if columns == "mixed" else (data.X, data.y)
    model = fitted(engine, columns)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same_predictions(model, loaded, X)
    assert loaded.score(X, y) == model.score(X, y)
    assert loaded.get_params() == model.get_params()
    for name in ("event_ids_", "times_", "feature_names_in_"):
        assert_array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("n_features_in_", "n_estimators_", "engine_", "n_floored_"):
        assert getattr(loaded, name) == getattr(model, name)
    # Saved again it is the same again.
    loaded.save(tmp_path / "again")
    assert_same_predictions(model, load(tmp_path / "again"), X)


@pytest.mark.parametrize(
    "options",
    [
        {"n_causes": 1},
        {"censoring": "kaplan-meier"},
        {"early_stopping_rounds": 3},
        {"monotone": False},
    ],
)
def test_round_trip_of_other_models(engine, options, data, tmp_path):
    options = dict(options)
    y = data.y
    if options.pop("n_causes", None):
        y = (data.y["event"] > 0, data.y["duration"])
    model = boost(engine, **options).fit(data.X.to_numpy(), y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_same_predictions(model, loaded, data.X.to_numpy())
    assert not hasattr(loaded, "feature_names_in_")


def test_columns_and_categories_are_checked_after_loading(engine, fitted, mixed, tmp_path):
    X, _ = mixed
    model = fitted(engine, "mixed")
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    with pytest.raises(ValueError, match="another order"):
        loaded.predict(X[X.columns[::-1]])
    turned = X.copy()
    turned["city"] = turned["city"].cat.reorder_categories(list("gfedcba"))
    assert_array_equal(loaded.predict(turned), model.predict(X))


@pytest.mark.parametrize("levels", [[3, 1, 2], [0.5, 1.5, 2.5], [True, False], ["ü", "1", ""]])
def test_categories_of_any_plain_type(levels, data, tmp_path):
    values = np.resize(np.array(levels, dtype=object), 300)
    X = data.X.assign(kind=pd.Categorical(values, categories=levels))
    model = boost("lightgbm").fit(X, data.y)
    model.save(tmp_path / "model")
    assert_same_predictions(model, load(tmp_path / "model"), X)


@pytest.mark.parametrize("method", ["hazards", "boosted"])
@pytest.mark.parametrize("engine", ["lightgbm", "xgboost", "catboost"])
def test_one_row_with_missing_values_is_itself_in_many(engine, method, data, tmp_path):
    """As a service gets it, a row of objects: before and after saving."""
    kind = np.array(["a", "b", "c"])[np.arange(len(data.X)) % 3]
    X = data.X.assign(kind=kind)
    model = boost(engine, censoring=method).fit(X, data.y)
    model.save(tmp_path / "model")
    for column in ("x0", "kind"):
        many = X.copy()
        many.loc[many.index[0], column] = None
        row = pd.DataFrame([{**X.iloc[0].to_dict(), column: None}], dtype=object)
        expected = model.predict_cumulative_incidence(many)[:1]
        for one in (model, load(tmp_path / "model")):
            assert_allclose(one.predict_cumulative_incidence(row), expected, atol=1e-12)
        assert_allclose(model.predict(row), model.predict(many)[:1], atol=1e-9)


def test_numpy_parameters_are_kept(data, tmp_path):
    """As a grid search sets them."""
    model = boost(
        "lightgbm",
        n_estimators=np.int64(7),
        learning_rate=np.float32(0.5),
        monotone=np.True_,
        engine_params={"lambda_l2": np.float64(2.0)},
    ).fit(data.X, data.y)
    model.save(tmp_path / "model")
    parameters = load(tmp_path / "model").get_params()
    assert parameters == model.get_params()
    assert type(parameters["n_estimators"]) is int


def test_what_json_cannot_hold_falls_back_to_the_default(data, tmp_path):
    model = boost(
        "lightgbm",
        horizon_sampler=lambda rng, n, h, y: rng.uniform(0, 3, (n, h)),
        random_state=np.random.default_rng(0),
    ).fit(data.X, data.y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.horizon_sampler == SurvivalBoost().horizon_sampler
    assert loaded.random_state is None
    assert_same_predictions(model, loaded, data.X)


def test_training_goes_on_after_loading(engine, data, tmp_path):
    model = boost(engine, warm_start=True).fit(data.X, data.y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model").set_params(n_estimators=30)
    loaded.fit(data.X, data.y)
    model.set_params(n_estimators=30).fit(data.X, data.y)
    assert_array_equal(loaded.predict(data.X), model.predict(data.X))


# -------------------------------------------------------------------------------------- privacy
def test_files_are_the_engine_s_own_and_json(engine, fitted, tmp_path):
    fitted(engine).save(tmp_path / "model")
    suffix = {"lightgbm": "txt", "xgboost": "ubj", "catboost": "cbm"}[engine]
    names = {file.name for file in (tmp_path / "model").iterdir()}
    assert names == {METADATA, f"events.{suffix}", f"censoring.{suffix}"}
    for file in (tmp_path / "model").iterdir():
        assert not file.read_bytes().startswith(b"\x80")  # As every pickle since protocol 2.
        with pytest.raises(Exception):  # noqa: B017  Any: there is nothing to unpickle.
            pickle.loads(file.read_bytes())


def numbers(content):
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [number for item in content for number in numbers(item)]
    return [content] if isinstance(content, int | float) else []


def test_json_holds_no_outcomes(engine, fitted, data, tmp_path):
    fitted(engine).save(tmp_path / "model")
    text = (tmp_path / "model" / METADATA).read_text()
    durations = data.y["duration"].to_numpy()
    rounded = durations.astype(np.float32).astype(np.float64)
    found = np.array(numbers(json.loads(text)), dtype=np.float64)
    for known in (durations, rounded):
        assert not np.isin(found, known).any()
        assert not any(repr(float(duration)) in text for duration in known)
    # Nothing is as long as the people are many, or as their different times.
    assert max(map(len, _lists(json.loads(text)))) < 200 < len(np.unique(durations))


def _lists(content):
    if isinstance(content, dict):
        content = list(content.values())
    elif isinstance(content, list):
        yield content
    if isinstance(content, list):
        for item in content:
            yield from _lists(item)


@pytest.mark.parametrize("by", ["file", "pickle"])
def test_no_file_holds_an_array_of_outcomes(engine, fitted, data, tmp_path, by):
    """Neither durations in a row, in any type or order of bytes, nor one of them."""
    model = fitted(engine)
    if by == "pickle":
        contents = [pickle.dumps(model)]
    else:
        model.save(tmp_path / "model")
        contents = [file.read_bytes() for file in (tmp_path / "model").iterdir()]
    durations, events = data.y["duration"].to_numpy(), data.y["event"].to_numpy()
    for content in contents:
        for values in (durations, np.sort(durations), events):
            for dtype in ("<f4", "<f8", ">f4", ">f8", "<i4", "<i8", "i1"):
                kind = np.dtype(dtype).kind
                if (kind == "i") == (values is events):
                    assert values[:12].astype(dtype).tobytes() not in content
        n_found = sum(
            duration.tobytes() in content or repr(float(duration)).encode() in content
            for duration in durations
        )
        assert n_found == 0


def test_thresholds_on_time_are_no_ones_time(engine, fitted, data):
    breaks = fitted(engine)._model.trees.forest().breaks
    assert len(breaks) > 3
    durations = data.y["duration"].to_numpy().astype(np.float32)
    assert not np.isin(breaks.astype(np.float32), durations).any()


# --------------------------------------------------------------------------------------- errors
@pytest.fixture
def saved(engine, fitted, tmp_path):
    fitted(engine).save(tmp_path / "model")
    return tmp_path / "model"


def test_missing_and_existing_paths(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no {METADATA}"):
        load(tmp_path / "nowhere")
    (tmp_path / "full").mkdir()
    with pytest.raises(FileExistsError, match="exists already"):
        fitted("lightgbm").save(tmp_path / "full")
    assert list((tmp_path / "full").iterdir()) == []
    fitted("lightgbm").save(str(tmp_path / "new" / "folder" / "model"))
    assert load(str(tmp_path / "new" / "folder" / "model")).engine_ == "lightgbm"


def test_unfitted_models_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        HazardBoost().save(tmp_path / "model")


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "{}", '{"format": "x"}', "\x00"])
def test_garbage_is_refused(tmp_path, content):
    (tmp_path / METADATA).write_text(content)
    with pytest.raises(ValueError, match="not the description of a saved model"):
        load(tmp_path)
    (tmp_path / METADATA).write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="not the description of a saved model"):
        load(tmp_path)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="not the description of a saved model"):
        load(tmp_path / "file")


def test_a_newer_format_is_refused(saved):
    _change(saved, format=files.FORMAT + 1, version="9.0")
    with pytest.raises(ValueError, match=r"newer survival-objectives \(9.0\).*Upgrade"):
        load(saved)


def _change(folder: Path, **changes):
    content = json.loads((folder / METADATA).read_text())
    (folder / METADATA).write_text(json.dumps({**content, **changes}))


@pytest.mark.parametrize("name", ["events", "censoring"])
@pytest.mark.parametrize("damage", ["garbage", "cut", "empty", "swapped"])
def test_a_broken_engine_file_is_refused(saved, name, damage):
    file = next(saved.glob(f"{name}.*"))
    other = next(saved.glob({"events": "censoring.*", "censoring": "events.*"}[name]))
    whole = file.read_bytes()
    file.write_bytes(
        {
            "garbage": b"garbage" * 100,
            "cut": whole[: len(whole) * 2 // 3],
            "empty": b"",
            "swapped": other.read_bytes(),
        }[damage]
    )
    with pytest.raises(ValueError, match=rf"is damaged: the file {file.name} is not the one"):
        load(saved)


def test_a_missing_engine_file_is_named(saved):
    for file in [*saved.glob("censoring.*"), *saved.glob("events.*")]:
        file.unlink()
        with pytest.raises(ValueError, match=r"is damaged: the file .* is missing"):
            load(saved)


@pytest.mark.parametrize(
    "changes", [{"engine": "os"}, {"parameters": {"nonsense": 1}}, {"files": {}}, {"start": ["?"]}]
)
def test_a_damaged_description_is_refused(saved, changes):
    _change(saved, **changes)
    with pytest.raises(ValueError, match="is damaged"):
        load(saved)


@pytest.mark.parametrize("stage", ["engine", "json"])
def test_an_interrupted_save_leaves_nothing(engine, fitted, tmp_path, monkeypatch, stage):
    model = fitted(engine)

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    if stage == "engine":
        adapter = replace(registry.engine(engine), save=interrupt)
        monkeypatch.setattr(files, "engine", lambda _: adapter)
    else:
        monkeypatch.setattr(process_files, "json", SimpleNamespace(dumps=interrupt))
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_model_can_be_moved(saved, fitted, engine, data, tmp_path):
    shutil.move(saved, tmp_path / "elsewhere")
    loaded = load(tmp_path / "elsewhere")
    assert_array_equal(loaded.predict(data.X), fitted(engine).predict(data.X))


# --------------------------------------------------------------------------------- pickle, clone
def test_pickle_and_joblib(engine, fitted, mixed, tmp_path):
    X, _ = mixed
    model = fitted(engine, "mixed")
    model.predict(X)
    copy = pickle.loads(pickle.dumps(model))
    assert_same_predictions(model, copy, X)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_same_predictions(model, joblib.load(tmp_path / "model.joblib"), X)
    assert same_booster(model, copy) or engine == "catboost"


def test_clone_is_unfitted(engine, fitted):
    copy = clone(fitted(engine))
    assert not hasattr(copy, "booster_")
    assert copy.get_params() == fitted(engine).get_params()
