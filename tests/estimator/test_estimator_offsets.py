"""Columns whose values float32 cannot tell apart, such as times in seconds since 1970."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from estimator_data import ENGINES, hazards
from numpy.testing import assert_allclose, assert_array_equal

from survival_objectives import load
from survival_objectives.adapters.xgboost import IPCWObjective

FIRST = 1.6e9 + 12345.25


def people(n_samples=500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=n_samples), "since": rng.uniform(0, 60, n_samples)})
    time = rng.exponential(np.exp(-X["since"] / 20))
    leave = rng.exponential(1.0, n_samples)
    y = {"event": (time <= leave).astype(int), "duration": np.minimum(time, leave)}
    return X, y


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("as_frame", [True, False])
def test_seconds_since_1970_are_as_good_as_seconds_since_the_first(engine, as_frame, tmp_path):
    X, y = people()
    seconds = X.assign(since=FIRST + X["since"])
    plain, shifted = (each if as_frame else each.to_numpy() for each in (X, seconds))
    expected = hazards(engine).fit(plain, y).predict_survival_function(plain, [0.5])
    model = hazards(engine).fit(shifted, y)
    found = model.predict_survival_function(shifted, [0.5])
    # Not the same numbers in float32, but the same order and the same model.
    assert_allclose(found, expected, atol=0.02)
    assert list(model.fitted_model.schema.offsets) == [1]
    assert FIRST not in model.fitted_model.schema.offsets.values()
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_array_equal(loaded.predict_survival_function(shifted, [0.5]), found)


def test_what_no_shift_can_repair_is_refused():
    X, y = people()
    far = np.where(X["since"] > 30, 0.0, FIRST) + X["since"]
    with pytest.raises(ValueError, match="Column 'since'"):
        hazards("xgboost").fit(X.assign(since=far), y)


def test_onnx_and_the_plugin_name_the_column(tmp_path):
    X, y = people()
    seconds = X.assign(since=FIRST + X["since"])
    model = hazards("xgboost").fit(seconds, y)
    with pytest.raises(ValueError, match="cannot tell the values of since apart"):
        model.to_onnx(tmp_path / "model.onnx")
    # Its rows are the user's own, who predicts with them.
    with pytest.raises(ValueError, match="Column 'since'"):
        IPCWObjective(seconds, y)
